"""OpenAI's other endpoints: embeddings, images, sounds, files and their kin.

They are recognised, named and judged; only what was heard is read, and what went wrong.  Most
answer with one document of JSON.  Sounds, videos and files are bytes that nothing but HTTP
delimits.  Images, speech, transcriptions and the runs of assistants may come as SSE, which ends
in an event of its own or in `[DONE]`; a stream whose events are all unknown proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from llm_proxy import framing
from llm_proxy.dialects import forms, json_api, lenient_json
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api, auxiliary_responses, errors, transcripts
from llm_proxy.dialects.record_only import Unspoken
from llm_proxy.exchange import Head, Headers, Request, header
from llm_proxy.framing.sse import read_event
from llm_proxy.turns import Failure, Turn

_FOREIGN: Final = "anthropic-version"
"""A header of clients whose models, files and batches are not OpenAI's."""

_ANYWHERE: Final = r".*/"
"""Before what nobody calls otherwise, a provider may put anything."""
_OWN: Final = r".*/(?:v1|openai)/"
"""Before words that many an API has."""

_ASK: Final = ("POST",)
_KEEP: Final = ("GET", "POST", "DELETE")

_ENDS: Final = frozenset(
    (
        *transcripts.ENDS,
        "speech.audio.done",
        "image_generation.completed",
        "image_edit.completed",
    )
)
_GOES_ON: Final = (".delta", ".segment", ".partial_image")
"""How the types of events end that are followed by others."""
_SAYS: Final = (".delta", ".partial_image")
"""And of those, the ones that add to what was said."""


def _unanswered(_request: Request, _delivery: Delivery) -> None:
    """Nothing is known of what the endpoint keeps or makes."""


def _failures(response: Response) -> tuple[Turn, ...]:
    """The error that ended a stream; what is not a stream has its own field of that name."""
    said = map(api.said, response.messages) if response.codec == "sse" else ()
    errors = (json_api.failure(it["error"]) for it in said if it.get("error"))
    return tuple(Turn((), failure=failure) for failure in errors)[:1]


@dataclass(frozen=True)
class OpenAIEndpoint(Unspoken):
    """One of the endpoints: a dialect without words, or with few."""

    name: str
    path: re.Pattern[str]
    """All of a request's path; a group `model` in it names the model."""
    methods: tuple[str, ...]
    judge_whole: Callable[[Response], Judgement] = json_api.judge
    """How a success is judged that is no stream of events."""
    read: Callable[[Response], tuple[Turn, ...]] = _failures
    """How a success is read."""
    answer: Callable[[Request, Delivery], Response | None] = _unanswered
    """What is answered where nothing was recorded; None where nobody could know."""
    volatile: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ("openai-beta",)
    ids: tuple[str, ...] = ()

    def claims(self, request: Request) -> bool:
        """The endpoint's methods on its path, unless a header says that they are not OpenAI's."""
        return (
            request.method in self.methods
            and self.path.fullmatch(request.path) is not None
            and header(request.headers, _FOREIGN) is None
        )

    def model(self, request: Request) -> str:
        """The form's or the body's `model`, else the Azure deployment or model of the path."""
        if asked := forms.field(request, "model") or api.model(request):
            return asked
        path = self.path.fullmatch(request.path)
        return unquote((path and path.groupdict().get("model")) or "")

    def streams(self, request: Request) -> bool:
        """Where the body or the form says `stream`; speech has a `stream_format` instead."""
        asked = lenient_json.document(request.body)
        return (
            asked.get("stream") is True
            or asked.get("stream_format") == "sse"
            or forms.field(request, "stream").lower() == "true"
        )

    def codec(self, request: Request, head: Head) -> str:
        """By status and content type; where there is none, by what was asked for."""
        if not json_api.succeeded(head):
            return "whole"
        if content_type := header(head.headers, "content-type"):
            return framing.by_content_type(content_type)
        return "sse" if self.streams(request) else "whole"

    def judge(self, response: Response) -> Judgement:
        """A stream by its last event; a body as its endpoint gives it."""
        if not json_api.succeeded(response.head):
            return json_api.judge(response)
        return _judge_stream(response) if response.codec == "sse" else self.judge_whole(response)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """What was heard, and what went wrong; else none."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=json_api.http_failure(response)),)
        return self.read(response)

    def says(self, codec: str, message: bytes) -> int:
        """What a delta says; one of sound, or an image in the making, counts as a character."""
        if codec != "sse" or not _kind(message).endswith(_SAYS):
            return 0
        return max(len(_delta(api.said(message))), 1)

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message and code every client prints."""
        return api.error(kind, message)

    def refuse(
        self, status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
    ) -> Response:
        """In the shape of the chats."""
        return errors.refuse(status, failure, delivery, retry_after)

    def countdown(self, delivery: Delivery) -> Headers:
        """Of requests and tokens."""
        return errors.countdown(delivery)

    def side_answer(self, request: Request, delivery: Delivery) -> Response | None:
        """What the endpoint answers without having been recorded, if anything."""
        return self.answer(request, delivery)


def _judge_stream(response: Response) -> Judgement:
    """By the last event that tells."""
    for message in reversed(response.messages):
        if api.is_done(message):
            return Judgement(whole=True, reason="[DONE]")
        said = api.said(message)
        if error := said.get("error"):
            return json_api.in_band(json_api.failure(error))
        kind = _kind(message)
        if kind in _ENDS:
            return Judgement(whole=True, reason=kind)
        if kind.endswith(_GOES_ON):
            return Judgement(whole=False, reason=f"no end after {kind}")
    if not json_api.body(response).strip():
        return Judgement(whole=False, reason="empty stream")
    return Judgement(whole=True, reason="no event that could tell", proven=False)


def _kind(message: bytes) -> str:
    """The type of an event, which may stand in its name alone."""
    return lenient_json.words(api.said(message).get("type")) or read_event(message).event


def _delta(said: Fields) -> str:
    """The words of a transcription's delta, or of one of an assistant's messages."""
    delta = said.get("delta")
    blocks = lenient_json.objects(lenient_json.fields(delta).get("content"))
    texts = (lenient_json.text(lenient_json.fields(it.get("text")).get("value")) for it in blocks)
    return lenient_json.text(delta) or lenient_json.text(said.get("text")) or "".join(texts)


def _judge_typed(response: Response) -> Judgement:
    """JSON where the content type says so; anything else ends where HTTP says."""
    is_json = "json" in (header(response.head.headers, "content-type") or "").lower()
    return json_api.judge(response) if is_json else json_api.by_framing(response)


def _endpoint(
    name: str, path: str, methods: tuple[str, ...] = _ASK, **others: Any
) -> OpenAIEndpoint:
    return OpenAIEndpoint(f"openai-{name}", re.compile(path), methods, **others)


ENDPOINTS: Final[tuple[OpenAIEndpoint, ...]] = (
    _endpoint("embeddings", _ANYWHERE + "embeddings", answer=auxiliary_responses.embeddings),
    _endpoint("moderations", _ANYWHERE + "moderations", answer=auxiliary_responses.moderations),
    _endpoint("images", _ANYWHERE + "images/(?:generations|edits|variations)"),
    _endpoint(
        "audio", _ANYWHERE + "audio/(?:speech|transcriptions|translations)",
        judge_whole=_judge_typed, read=transcripts.turns,
    ),
    _endpoint("videos", _OWN + "videos(?:/.+)?", _KEEP, judge_whole=_judge_typed),
    _endpoint(
        "models", rf"(?:{_OWN}|/)models(?:/(?P<model>[^/]+))?", ("GET", "DELETE"),
        answer=auxiliary_responses.models,
    ),
    _endpoint("files", _OWN + "files(?:/[^/]+)?", _KEEP),
    _endpoint("file-content", _OWN + "files/[^/]+/content", ("GET",),
    judge_whole=json_api.by_framing),
    _endpoint("uploads", _OWN + "uploads(?:/.+)?"),
    _endpoint("batches", _OWN + "batches(?:/.+)?", ("GET", "POST")),
    _endpoint("fine-tuning", _OWN + "fine_tuning/.+", _KEEP),
    _endpoint("vector-stores", _OWN + "vector_stores(?:/.+)?", _KEEP),
    _endpoint("conversations", _OWN + "conversations(?:/.+)?", _KEEP),
    _endpoint("assistants", _OWN + "(?:assistants|threads)(?:/.+)?", _KEEP),
)  # fmt: skip
"""Each a dialect; no two of them have a path in common."""
