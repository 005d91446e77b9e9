"""Anthropic's Messages API, wherever it is spoken, and its legacy text completions.

A stream is SSE with event names; `message_stop` is its last event, and nothing like `[DONE]`
follows.  Servers that leave it out have said why they stop in `message_delta`, after which a
message has no more to say; a legacy completion ends in the event with its `stop_reason`.  An
event named `error` ends either for good.

Batches and files are left to HTTP without a dialect, whose errors have Anthropic's shape too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

import orjson

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.anthropic import auxiliary_responses, errors, request_decoder
from llm_proxy.dialects.anthropic import response_encoder as spoken
from llm_proxy.dialects.anthropic.errors import REQUEST_ID
from llm_proxy.dialects.anthropic.message_decoder import Messages, failure, kind, says, stop_reason
from llm_proxy.dialects.anthropic.response_encoder import Asked
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.conversion import Fitted
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.exchange import Head, Headers, Request, header
from llm_proxy.framing.sse import read_event
from llm_proxy.turns import Counting, Failure, Turn

_VERSION: Final = "anthropic-version"
"""The header that every client of Anthropic's sends, and nobody else."""

_MOST: Final = 4096
"""Tokens that a typical request allows."""

_PING: Final = b'event: ping\ndata: {"type": "ping"}\n\n'

_BASE: Final = r"(?:.*/v1|.*/anthropic|)"
_PATH: Final = re.compile(_BASE + r"/(?:messages(?:/count_tokens)?|complete)")
_ANYWHERE: Final = re.compile(r".*/messages(?:/count_tokens)?")
_VERTEX: Final = re.compile(r".*/publishers/anthropic/models/[^/]+:(?:rawP|streamRawP)redict")
_MODELS: Final = re.compile(_BASE + r"/models(?:/[^/]+)?")
_COUNTS: Final = re.compile(r"/(?:messages/count_tokens|models/count-tokens:rawPredict)$")
_LEGACY: Final = "/complete"
_STREAMED: Final = ":streamRawPredict"
_NAMED: Final = re.compile(r"/models/([^/]+?)(?::rawPredict|:streamRawPredict)?$")

_OF_MESSAGE: Final = frozenset(
    (
        "message",
        "message_start",
        "message_delta",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    )
)
_ENDS: Final = frozenset(("message", "message_delta", "completion"))
"""What a stop reason ends; that of `message_start` stands before the end."""


class Anthropic:
    """The dialect `anthropic`."""

    name = "anthropic"
    volatile = ("$.metadata.user_id",)
    key_headers = ("anthropic-beta",)
    ids = (
        "$.messages[*].id",
        "$.messages[*].content[*].id",
        "$.messages[*].content[*].tool_use_id",
    )
    counting = Counting(cache_is_input=False)
    overloaded = 529

    def claims(self, request: Request) -> bool:
        """Messages, their token counts and completions; and the models, where the header tells.

        A bare `/messages` is the AI SDK's; below other paths, such as that of a thread of
        OpenAI's assistants, it takes the header.
        """
        if request.method == "GET":
            return _MODELS.fullmatch(request.path) is not None and _has_version(request)
        if request.method != "POST":
            return False
        if _PATH.fullmatch(request.path) or _VERTEX.fullmatch(request.path):
            return True
        return _ANYWHERE.fullmatch(request.path) is not None and _has_version(request)

    def model(self, request: Request) -> str:
        """The body's `model`, else the one that the path names (Vertex, the list of models)."""
        if asked := lenient_json.words(lenient_json.document(request.body).get("model")):
            return asked
        named = _NAMED.search(request.path)
        return unquote(named[1]) if named else ""

    def streams(self, request: Request) -> bool:
        """Where the body says `"stream": true`, or Vertex's path says so."""
        asked = lenient_json.document(request.body).get("stream") is True
        return asked or request.path.endswith(_STREAMED)

    def conversation(self, request: Request) -> Conversation | None:
        """A message, or on the legacy path a prompt."""
        body = lenient_json.document(request.body)
        if not body or request.method != "POST" or _COUNTS.search(request.path):
            return None
        is_legacy = request.path.endswith(_LEGACY)
        return request_decoder.completion(body) if is_legacy else request_decoder.messages(body)

    def codec(self, request: Request, head: Head) -> str:
        """Events by content type; where a streamed response has none, by what was asked for."""
        return json_api.events_or_whole(head, streams=self.streams(request))

    def judge(self, response: Response) -> Judgement:
        """Whole by `message_stop`, by its stop reason, or by an error in the stream."""
        if response.codec != "sse" or not json_api.succeeded(response.head):
            return json_api.judge(response)
        return _judge_stream(response)

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn; none where nothing is said (token counts, models)."""
        if not json_api.succeeded(response.head):
            return (_http_error(response),)
        messages = Messages()
        for document in _documents(response):
            messages.take(document)
        return messages.turns()

    def says(self, codec: str, message: bytes) -> int:
        """What a delta says."""
        return says(_document(message)) if codec == "sse" else 0

    def keep_alive(self, codec: str) -> bytes:
        """The event `ping`, which may stand anywhere in a stream."""
        return _PING if codec == "sse" else b""

    def error(self, status: int, kind: str, message: str) -> bytes:
        """The shape whose type and message the SDKs read."""
        return orjson.dumps(errors.shape(errors.fields(Failure(message, kind))))

    def typical(self, model: str, *, stream: bool) -> Request:
        """A message, in the version that every client knows."""
        body = {"model": model, "max_tokens": _MOST, "messages": [], "stream": stream}
        return response_encoding.post("/v1/messages", body, ((_VERSION, "2023-06-01"),))

    def fit(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Fitted:
        """As a message, or on the legacy path as text."""
        words = spoken.vocabulary(self._asked(request), delivery)
        return conversion.fit(turns, words, self.model(request), delivery)

    def speak(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Response:
        """Events up to `message_stop`, or one document."""
        (told,) = self.fit(request, turns, delivery).turns
        return spoken.response(told, self._asked(request), delivery)

    def refuse(
        self, status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
    ) -> Response:
        """In the shape whose type and message the SDKs read."""
        return errors.refuse(status, failure, delivery, retry_after)

    def countdown(self, delivery: Delivery) -> Headers:
        """Of requests and tokens."""
        return errors.countdown(delivery)

    def side_answer(self, request: Request, delivery: Delivery) -> Response | None:
        """Counts of tokens, models, and a model."""
        if request.method == "GET":
            name = self.model(request)
            if name:
                return auxiliary_responses.model(name, delivery)
            return auxiliary_responses.models(request.query, delivery)
        if _COUNTS.search(request.path):
            return auxiliary_responses.count(lenient_json.document(request.body), delivery)
        return None

    def _asked(self, request: Request) -> Asked:
        return Asked(
            stream=self.streams(request),
            legacy=request.path.endswith(_LEGACY),
            vertex=_VERTEX.fullmatch(request.path) is not None,
        )


def _has_version(request: Request) -> bool:
    return header(request.headers, _VERSION) is not None


def _judge_stream(response: Response) -> Judgement:
    """By the last event that tells; what began after a `message_stop` needs one of its own."""
    for said in map(_document, reversed(response.messages)):
        what = kind(said)
        if what == "error":
            return json_api.in_band(failure(said))
        if what == "message_stop":
            return Judgement(whole=True, reason="message_stop")
        if what in _ENDS and (reason := stop_reason(said)):
            return Judgement(whole=True, reason=f"stop_reason: {reason}")
        if what == "completion":
            return Judgement(whole=False, reason="no stop_reason")
        if what in _OF_MESSAGE:
            return Judgement(whole=False, reason=f"no message_stop after {what}")
    is_empty = not json_api.body(response).strip()
    return Judgement(whole=False, reason="empty stream" if is_empty else "no message_stop")


def _documents(response: Response) -> Iterable[Fields]:
    """The documents of the events, or the one document of a body."""
    if response.codec == "sse":
        return map(_document, response.messages)
    return [lenient_json.document(json_api.body(response))]


def _document(message: bytes) -> Fields:
    """The document of one event, which has the event's name for a type where it has none."""
    event = read_event(message)
    if event.data is None:
        return lenient_json.document(message)  # a bare document labelled as a stream
    said = lenient_json.document(event.data)
    if not said and _is_torn(event.data):
        return said
    if event.event == "error" and not said.get("error"):
        return {"type": "error", "error": dict(said) or event.data.decode("utf-8", "replace")}
    return said if said.get("type") else {**said, "type": event.event}


def _is_torn(data: bytes) -> bool:
    """Whether this was to be an object; other errors than objects are in words."""
    data = data.strip()
    return not data or (data.startswith(b"{") and data != b"{}")


def _http_error(response: Response) -> Turn:
    """What an HTTP error says, with the request id that Anthropic's support asks for."""
    said = lenient_json.document(json_api.body(response))
    found = json_api.http_failure(response)
    return Turn(
        (),
        failure=replace(found, code=found.code or failure(said).code),
        metadata=lenient_json.metadata(said, (REQUEST_ID,)),
    )
