"""Amazon Bedrock's runtime: Converse and InvokeModel, whole and as streams.

The path names the model and the operation; an ARN in it comes percent-encoded, or (of older
clients) as it is.  A stream is made of binary frames.  It has no terminator: `messageStop`, or
the last event of the model's own, says that the message has ended.  A frame whose type is
`exception` or `error` ends a stream for good.  Clients raise on bytes that are no frame.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

import orjson

from llm_proxy import framing
from llm_proxy.dialects import plain, reading
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.bedrock_native import Answer
from llm_proxy.dialects.reading import Fields
from llm_proxy.exchange import Head, Request, header
from llm_proxy.framing.eventstream import EventStreamCodec, Frame, read_frame
from llm_proxy.turns import Failure, Turn

_WHOLE: Final = ("converse", "invoke")
_STREAMED: Final = ("converse-stream", "invoke-with-response-stream")
_MODEL: Final = "/model/"
_EVENTSTREAM: Final = "eventstream"
_UNLIMITED: Final = 2**40
"""Bytes: frames that were cut at the limit for messages are put together again."""


class Bedrock:
    """The dialect `bedrock`."""

    name = "bedrock"

    def claims(self, request: Request) -> bool:
        """A POST to an operation of a model, whatever a gateway puts in front."""
        model, operation = _asked(request)
        return request.method == "POST" and bool(model) and operation in (*_WHOLE, *_STREAMED)

    def model(self, request: Request) -> str:
        """The one in the path: an id, or an ARN."""
        return _asked(request)[0]

    def streams(self, request: Request) -> bool:
        """Where the operation says so."""
        return _asked(request)[1] in _STREAMED

    def codec(self, request: Request, head: Head) -> str:
        """Frames by content type; where a streamed response has none, by what was asked for."""
        if not plain.succeeded(head):
            return "whole"
        content_type = header(head.headers, "content-type")
        framed = framing.by_content_type(content_type) == _EVENTSTREAM
        return _EVENTSTREAM if framed or (not content_type and self.streams(request)) else "whole"

    def judge(self, response: Response) -> Judgement:
        """Whole by the event that ends the message, or by an error in the stream."""
        if response.codec != _EVENTSTREAM or not plain.succeeded(response.head):
            return plain.judge(response)
        answer = Answer()
        for frame in _frames(response):
            if frame is None:
                return Judgement(whole=False, reason="bytes that are no frame")
            failed = _failure(frame) or _taken(answer, frame).failure
            if failed:
                return plain.in_band(failed)
        if answer.end:
            return Judgement(whole=True, reason=answer.end)
        is_empty = not plain.body(response)
        return Judgement(whole=False, reason="empty stream" if is_empty else "no event ends it")

    def turns(self, response: Response) -> tuple[Turn, ...]:
        """One turn; one a choice where the model's maker gives several."""
        if not plain.succeeded(response.head):
            return (Turn((), failure=_http_failure(response)),)
        answer = Answer()
        if response.codec != _EVENTSTREAM:
            answer.take(reading.document(plain.body(response)), streamed=False)
            return answer.turns()
        failed: Failure | None = None
        for frame in filter(None, _frames(response)):
            failed = failed or _failure(frame)
            _taken(answer, frame)
        turns = answer.turns()
        if failed:
            turns = tuple(replace(turn, failure=turn.failure or failed) for turn in turns)
            return turns or (Turn((), failure=failed),)
        return turns

    def error(self, status: int, kind: str, message: str) -> bytes:
        """AWS names the kind in a header, else in the body, where its SDKs look too."""
        return orjson.dumps({"message": message, "__type": kind})


def _asked(request: Request) -> tuple[str, str]:
    """The model and the operation that the path names."""
    path, _, operation = request.path.rpartition("/")
    return unquote(path.partition(_MODEL)[2]), operation


def _frames(response: Response) -> Iterator[Frame | None]:
    """The frames; None for what is none."""
    cutter = EventStreamCodec(_UNLIMITED)
    for message in response.messages:
        yield from map(read_frame, cutter.feed(message))
    yield from map(read_frame, cutter.close())


def _taken(answer: Answer, frame: Frame) -> Answer:
    """The answer, with what the frame says; a `chunk` holds an event of the model's own."""
    said = reading.document(frame.payload)
    event = frame.header(":event-type")
    if event == "chunk":
        answer.take(_unwrapped(said), streamed=True)
    else:
        answer.take_event(event, said)
    return answer


def _unwrapped(said: Fields) -> Fields:
    try:
        return reading.document(base64.b64decode(reading.text(said.get("bytes")), validate=True))
    except ValueError:
        return {}


def _failure(frame: Frame) -> Failure | None:
    """What an exception that the service names says, or an error that it does not."""
    said = reading.document(frame.payload)
    match frame.header(":message-type"):
        case "exception":
            return Failure(
                message=_message(said),
                type=frame.header(":exception-type"),
                code=reading.words(said.get("originalStatusCode")),
            )
        case "error":
            return Failure(frame.header(":error-message"), type=frame.header(":error-code"))
        case _:
            return None


def _message(said: Fields) -> str:
    """The message, and the model's own where it adds to it; some services write it in capitals."""
    message = reading.words(said.get("message")) or reading.words(said.get("Message"))
    original = reading.words(said.get("originalMessage"))
    return message if original in message else f"{message} ({original})".strip()


def _http_failure(response: Response) -> Failure:
    """An HTTP error: its kind stands in a header, `ValidationException:http://...`, or beside."""
    said = reading.document(plain.body(response))
    found = plain.http_failure(response)
    named = header(response.head.headers, "x-amzn-errortype") or reading.words(said.get("__type"))
    return replace(
        found,
        message=_message(said) or found.message,
        type=named.rpartition("#")[2].partition(":")[0] or found.type,
    )
