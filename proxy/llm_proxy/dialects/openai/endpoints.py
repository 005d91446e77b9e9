"""OpenAI's other endpoints: embeddings, images, audio, files and more.

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
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import api, auxiliary_responses, errors, transcripts
from llm_proxy.dialects.record_only import RecordOnlyDialect
from llm_proxy.exchange import Headers, Request, ResponseHead, header_value
from llm_proxy.framing.sse import parse_event
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


def _no_response(_request: Request, _context: EncodeContext) -> None:
    """Nothing is known of what the endpoint keeps or makes."""


def _decode_failures(response: DialectResponse) -> tuple[Turn, ...]:
    """The error that ended a stream; what is not a stream has its own field of that name."""
    said = map(api.decode_event, response.messages) if response.codec == "sse" else ()
    errors = (json_api.decode_failure(fields["error"]) for fields in said if fields.get("error"))
    return tuple(Turn((), failure=failure) for failure in errors)[:1]


@dataclass(frozen=True)
class OpenAIEndpoint(RecordOnlyDialect):
    """One of the endpoints: a dialect without words, or with few."""

    name: str
    path: re.Pattern[str]
    """All of a request's path; a group `model` in it names the model."""
    methods: tuple[str, ...]
    completeness_of_whole: Callable[[DialectResponse], Completeness] = json_api.completeness
    """How a success is judged that is no stream of events."""
    decode_response: Callable[[DialectResponse], tuple[Turn, ...]] = _decode_failures
    """How a success is read."""
    respond: Callable[[Request, EncodeContext], DialectResponse | None] = _no_response
    """What is answered where nothing was recorded; None where nobody could know."""
    volatile_paths: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ("openai-beta",)
    id_paths: tuple[str, ...] = ()

    def matches(self, request: Request) -> bool:
        """The endpoint's methods on its path, unless a header says that they are not OpenAI's."""
        return (
            request.method in self.methods
            and self.path.fullmatch(request.path) is not None
            and header_value(request.headers, _FOREIGN) is None
        )

    def model(self, request: Request) -> str:
        """The form's or the body's `model`, else the Azure deployment or model of the path."""
        if text := forms.form_field(request, "model") or api.model_of(request):
            return text
        path = self.path.fullmatch(request.path)
        return unquote((path and path.groupdict().get("model")) or "")

    def streams(self, request: Request) -> bool:
        """Where the body or the form says `stream`; speech has a `stream_format` instead."""
        fields = lenient_json.parse_object(request.body)
        return (
            fields.get("stream") is True
            or fields.get("stream_format") == "sse"
            or forms.form_field(request, "stream").lower() == "true"
        )

    def codec(self, request: Request, head: ResponseHead) -> str:
        """By status and content type; where there is none, by what was asked for."""
        if not json_api.succeeded(head):
            return "whole"
        if content_type := header_value(head.headers, "content-type"):
            return framing.codec_of_content_type(content_type)
        return "sse" if self.streams(request) else "whole"

    def completeness(self, response: DialectResponse) -> Completeness:
        """A stream by its last event; a body as its endpoint gives it."""
        if not json_api.succeeded(response.head):
            return json_api.completeness(response)
        return (
            _stream_completeness(response)
            if response.codec == "sse"
            else self.completeness_of_whole(response)
        )

    def decode(self, response: DialectResponse) -> tuple[Turn, ...]:
        """What was heard, and what went wrong; else none."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=json_api.decode_http_error(response)),)
        return self.decode_response(response)

    def output_chars(self, codec: str, message: bytes) -> int:
        """What a delta says; one of sound, or an image in the making, counts as a character."""
        if codec != "sse" or not _event_type(message).endswith(_SAYS):
            return 0
        return max(len(_delta_text(api.decode_event(message))), 1)

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose message and code every client prints."""
        return api.error_body(kind, message)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """In the shape of the chats."""
        return errors.error_response(status, failure, context, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """Of requests and tokens."""
        return errors.rate_limit_headers(context)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """What the endpoint answers without having been recorded, if anything."""
        return self.respond(request, context)


def _stream_completeness(response: DialectResponse) -> Completeness:
    """By the last event that tells."""
    for message in reversed(response.messages):
        if api.is_done(message):
            return Completeness(is_complete=True, reason="[DONE]")
        fields = api.decode_event(message)
        if error := fields.get("error"):
            return json_api.completeness_by_error(json_api.decode_failure(error))
        kind = _event_type(message)
        if kind in _ENDS:
            return Completeness(is_complete=True, reason=kind)
        if kind.endswith(_GOES_ON):
            return Completeness(is_complete=False, reason=f"no end after {kind}")
    if not json_api.joined_body(response).strip():
        return Completeness(is_complete=False, reason="empty stream")
    return Completeness(is_complete=True, reason="no event that could tell", is_proven=False)


def _event_type(message: bytes) -> str:
    return (
        lenient_json.printable_text(api.decode_event(message).get("type"))
        or parse_event(message).encode_event
    )


def _delta_text(fields: Fields) -> str:
    """The words of a transcription's delta, or of one of an assistant's messages."""
    delta = fields.get("delta")
    blocks = lenient_json.object_items(lenient_json.object_fields(delta).get("content"))
    texts = (
        lenient_json.str_or_empty(lenient_json.object_fields(block.get("text")).get("value"))
        for block in blocks
    )
    return (
        lenient_json.str_or_empty(delta)
        or lenient_json.str_or_empty(fields.get("text"))
        or "".join(texts)
    )


def _completeness_by_content_type(response: DialectResponse) -> Completeness:
    """JSON where the content type says so; anything else ends where HTTP says."""
    is_json = "json" in (header_value(response.head.headers, "content-type") or "").lower()
    return (
        json_api.completeness(response) if is_json else json_api.completeness_by_framing(response)
    )


def _plain_endpoint(
    name: str, path: str, methods: tuple[str, ...] = _ASK, **others: Any
) -> OpenAIEndpoint:
    return OpenAIEndpoint(f"openai-{name}", re.compile(path), methods, **others)


ENDPOINTS: Final[tuple[OpenAIEndpoint, ...]] = (
    _plain_endpoint(
        "embeddings", _ANYWHERE + "embeddings", respond=auxiliary_responses.embeddings_response
    ),
    _plain_endpoint(
        "moderations", _ANYWHERE + "moderations", respond=auxiliary_responses.moderations_response
    ),
    _plain_endpoint("images", _ANYWHERE + "images/(?:generations|edits|variations)"),
    _plain_endpoint(
        "audio",
        _ANYWHERE + "audio/(?:speech|transcriptions|translations)",
        completeness_of_whole=_completeness_by_content_type,
        decode_response=transcripts.decode_turns,
    ),
    _plain_endpoint(
        "videos",
        _OWN + "videos(?:/.+)?",
        _KEEP,
        completeness_of_whole=_completeness_by_content_type,
    ),
    _plain_endpoint(
        "models",
        rf"(?:{_OWN}|/)models(?:/(?P<model>[^/]+))?",
        ("GET", "DELETE"),
        respond=auxiliary_responses.models_response,
    ),
    _plain_endpoint("files", _OWN + "files(?:/[^/]+)?", _KEEP),
    _plain_endpoint(
        "file-content",
        _OWN + "files/[^/]+/content",
        ("GET",),
        completeness_of_whole=json_api.completeness_by_framing,
    ),
    _plain_endpoint("uploads", _OWN + "uploads(?:/.+)?"),
    _plain_endpoint("batches", _OWN + "batches(?:/.+)?", ("GET", "POST")),
    _plain_endpoint("fine-tuning", _OWN + "fine_tuning/.+", _KEEP),
    _plain_endpoint("vector-stores", _OWN + "vector_stores(?:/.+)?", _KEEP),
    _plain_endpoint("conversations", _OWN + "conversations(?:/.+)?", _KEEP),
    _plain_endpoint("assistants", _OWN + "(?:assistants|threads)(?:/.+)?", _KEEP),
)
"""Each a dialect; no two of them have a path in common."""
