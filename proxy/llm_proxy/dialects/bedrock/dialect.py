"""Amazon Bedrock's runtime: Converse and InvokeModel, whole and as streams.

The path names the model and the operation; an ARN in it comes percent-encoded, or (of older
clients) as it is.  A stream is made of binary frames.  It has no terminator: `messageStop`, or
the last event of the model's own, says that the message has ended.  A frame whose type is
`exception` or `error` ends a stream for good.  Clients raise on bytes that are no frame.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import quote, unquote

import orjson

from llm_proxy import framing
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import conversion, json_api, lenient_json, response_encoding
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.bedrock import (
    auxiliary_responses,
    converse_capabilities,
    converse_decoder,
    converse_encoder,
    converse_request_decoder,
    errors,
    frames,
    invoke_decoder,
    invoke_encoder,
    model_formats,
    usage,
)
from llm_proxy.dialects.bedrock.invoke_decoder import Answer
from llm_proxy.dialects.bedrock.model_format import Maker
from llm_proxy.dialects.capabilities import Vocabulary
from llm_proxy.dialects.conversion import Fitted
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.errors import CannotSay
from llm_proxy.exchange import Head, Headers, Request, header
from llm_proxy.framing.eventstream import EventStreamCodec, Frame, read_frame
from llm_proxy.turns import Counting, Failure, Turn

_WHOLE: Final = ("converse", "invoke")
_STREAMED: Final = ("converse-stream", "invoke-with-response-stream")
_MODEL: Final = "/model/"
_COUNT: Final = "count-tokens"
_UNLIMITED: Final = 2**40
"""Bytes: frames that were cut at the limit for messages are put together again."""


class Bedrock:
    """The dialect `bedrock`."""

    name = "bedrock"
    volatile: tuple[str, ...] = ()
    key_headers: tuple[str, ...] = ()
    ids = (
        "$.messages[*].content[*].toolUse.toolUseId",
        "$.messages[*].content[*].toolResult.toolUseId",
        "$.messages[*].content[*].id",
        "$.messages[*].content[*].tool_use_id",
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    """Those of Converse; of Claude's own words, and of chat's."""
    counting = Counting(cache_is_input=False)
    overloaded = 503

    def claims(self, request: Request) -> bool:
        """A POST to an operation of a model, whatever a gateway puts in front."""
        model, operation = _asked(request)
        known = operation in (*_WHOLE, *_STREAMED, _COUNT)
        return request.method == "POST" and bool(model) and known

    def model(self, request: Request) -> str:
        """The one in the path: an id, or an ARN."""
        return _asked(request)[0]

    def streams(self, request: Request) -> bool:
        """Where the operation says so."""
        return _asked(request)[1] in _STREAMED

    def conversation(self, request: Request) -> Conversation | None:
        """As Converse asks it, or as the model's maker does; none where nobody knows the maker."""
        model, operation = _asked(request)
        body = lenient_json.document(request.body)
        if not body or operation not in (*_WHOLE, *_STREAMED):
            return None
        if operation.startswith(_WHOLE[0]):
            return replace(converse_request_decoder.read(body), signs=model_formats.signs(model))
        try:
            return model_formats.maker(model, body).conversation(body)
        except CannotSay:
            return None

    def codec(self, request: Request, head: Head) -> str:
        """Frames by content type; where a streamed response has none, by what was asked for."""
        if not json_api.succeeded(head):
            return "whole"
        content_type = header(head.headers, "content-type")
        framed = framing.by_content_type(content_type) == frames.CODEC
        is_stream = framed or (not content_type and self.streams(request))
        return frames.CODEC if is_stream else "whole"

    def judge(self, response: Response) -> Judgement:
        """Whole by the event that ends the message, or by an error in the stream."""
        if response.codec != frames.CODEC or not json_api.succeeded(response.head):
            return json_api.judge(response)
        answer = Answer()
        for frame in _frames(response):
            if frame is None:
                return Judgement(whole=False, reason="bytes that are no frame")
            failed = _failure(frame) or _taken(answer, frame).failure
            if failed:
                return json_api.in_band(failed)
        if answer.end:
            return Judgement(whole=True, reason=answer.end)
        is_empty = not json_api.body(response)
        return Judgement(whole=False, reason="empty stream" if is_empty else "no event ends it")

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn; one a choice where the model's maker gives several."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=_http_failure(response)),)
        answer = Answer()
        if response.codec != frames.CODEC:
            answer.take(lenient_json.document(json_api.body(response)), streamed=False)
            counted = usage.of_headers(response.head.headers)
            return tuple(replace(it, usage=it.usage or counted) for it in answer.turns())
        failed: Failure | None = None
        for frame in filter(None, _frames(response)):
            failed = failed or _failure(frame)
            _taken(answer, frame)
        turns = answer.turns()
        if failed:
            turns = tuple(replace(turn, failure=turn.failure or failed) for turn in turns)
            return turns or (Turn((), failure=failed),)
        return turns

    def says(self, codec: str, message: bytes) -> int:
        """What a delta says, of Converse or of the model's own."""
        frame = read_frame(message) if codec == frames.CODEC else None
        if frame is None:
            return 0
        event, said = frame.header(frames.EVENT_TYPE), lenient_json.document(frame.payload)
        own = event == frames.CHUNK
        return invoke_decoder.says(_unwrapped(said)) if own else converse_decoder.says(event, said)

    def keep_alive(self, codec: str) -> bytes:
        """None: frames have no comments."""
        return b""

    def error(self, status: int, kind: str, message: str) -> bytes:
        """AWS names the kind in a header, else in the body, where its SDKs look too."""
        return orjson.dumps({"message": message, "__type": kind})

    def typical(self, model: str, *, stream: bool) -> Request:
        """Converse, which fits any model."""
        operation = _STREAMED[0] if stream else _WHOLE[0]
        return response_encoding.post(
            f"{_MODEL}{quote(model, safe='')}/{operation}", {"messages": []}
        )

    def fit(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Fitted:
        """As Converse tells them, or the model itself."""
        has_failed = any(it.failure for it in turns)
        words = _words(request, delivery, streams=self.streams(request), has_failed=has_failed)
        return conversion.fit(turns, words, self.model(request), delivery)

    def speak(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Response:
        """Frames up to the metadata or the service's metrics, or one document."""
        (told,) = self.fit(request, turns, delivery).turns
        streams = self.streams(request)
        if told.failure and not streams:
            return errors.in_place(told.failure, delivery)
        if maker := _maker(request):
            return invoke_encoder.response(maker, told, delivery, streams=streams)
        return converse_encoder.response(told, delivery, streams=streams)

    def refuse(
        self, status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
    ) -> Response:
        """The message, and in a header the kind of the error."""
        return errors.refuse(status, failure, delivery, retry_after)

    def countdown(self, delivery: Delivery) -> Headers:
        """None tells limits."""
        return ()

    def side_answer(self, request: Request, delivery: Delivery) -> Response | None:
        """Counts of tokens."""
        if _asked(request)[1] == _COUNT:
            return auxiliary_responses.count(lenient_json.document(request.body), delivery)
        return None


def _asked(request: Request) -> tuple[str, str]:
    """The model and the operation that the path names."""
    path, _, operation = request.path.rpartition("/")
    return unquote(path.partition(_MODEL)[2]), operation


def _words(request: Request, delivery: Delivery, *, streams: bool, has_failed: bool) -> Vocabulary:
    """The words of an answer to this request; an HTTP error is the same whoever answers."""
    is_http_error = has_failed and not streams
    maker = None if is_http_error else _maker(request)
    if maker is None:
        return converse_capabilities.vocabulary(streams=streams)
    return invoke_encoder.vocabulary(maker, streams=streams, delivery=delivery)


def _maker(request: Request) -> Maker | None:
    """Who answers in a shape of their own; None where Converse is asked.  May raise `CannotSay`."""
    model, operation = _asked(request)
    if operation.startswith(_WHOLE[0]):
        return None
    return model_formats.maker(model, lenient_json.document(request.body))


def _frames(response: Response) -> Iterator[Frame | None]:
    """The frames; None for what is none."""
    cutter = EventStreamCodec(_UNLIMITED)
    for message in response.messages:
        yield from map(read_frame, cutter.feed(message))
    yield from map(read_frame, cutter.close())


def _taken(answer: Answer, frame: Frame) -> Answer:
    """The answer, with what the frame says; a `chunk` holds an event of the model's own."""
    said = lenient_json.document(frame.payload)
    event = frame.header(frames.EVENT_TYPE)
    if event == frames.CHUNK:
        answer.take(_unwrapped(said), streamed=True)
    else:
        answer.take_event(event, said)
    return answer


def _unwrapped(said: Fields) -> Fields:
    try:
        return lenient_json.document(
            base64.b64decode(lenient_json.text(said.get("bytes")), validate=True)
        )
    except ValueError:
        return {}


def _failure(frame: Frame) -> Failure | None:
    """What an exception that the service names says, or an error that it does not."""
    said = lenient_json.document(frame.payload)
    match frame.header(frames.MESSAGE_TYPE):
        case frames.EXCEPTION:
            return Failure(
                message=_message(said),
                type=frame.header(frames.EXCEPTION_TYPE),
                code=lenient_json.words(said.get(frames.STATUS)),
            )
        case "error":
            return Failure(frame.header(":error-message"), type=frame.header(":error-code"))
        case _:
            return None


def _message(said: Fields) -> str:
    """The message, and the model's own where it adds to it; some services write it in capitals."""
    message = lenient_json.words(said.get("message")) or lenient_json.words(said.get("Message"))
    original = lenient_json.words(said.get("originalMessage"))
    return message if original in message else f"{message} ({original})".strip()


def _http_failure(response: Response) -> Failure:
    """An HTTP error: its kind stands in a header, `ValidationException:http://...`, or beside."""
    said = lenient_json.document(json_api.body(response))
    found = json_api.http_failure(response)
    named = header(response.head.headers, errors.TYPE) or lenient_json.words(said.get("__type"))
    return replace(
        found,
        message=_message(said) or found.message,
        type=named.rpartition("#")[2].partition(":")[0] or found.type,
    )
