"""Encodes Ollama's chat and completion responses.

    ( thinking | content | images | tool_calls )* done

A chat says it in a message, a completion beside `response`; a call comes whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import orjson

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.ollama import errors
from llm_proxy.dialects.ollama.line_decoder import COUNTS, DURATIONS, PLACES
from llm_proxy.dialects.ollama.paths import CHAT
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Media, Part, Reasoning, Text, ToolCall, Turn, Usage

LINES: Final = "application/x-ndjson"
"""The content type of a stream."""


@dataclass(frozen=True, slots=True)
class OllamaEncoder:
    """Tells a turn that fits."""

    path: str
    stream: bool
    context: EncodeContext

    def encode_response(self, turn: Turn) -> DialectResponse:
        """The answer, a stream or a document."""
        if self.stream:
            return response_encoding.stream_response(
                "ndjson", LINES, map(encode_line, self._encode_lines(turn))
            )
        return response_encoding.json_response(
            {
                **self._response_envelope(turn),
                **self._encode_document(turn),
                **_final_line_fields(turn),
            }
        )

    def _response_envelope(self, turn: Turn, ordinal: int = 0) -> Document:
        """What every line says; the nanoseconds count the lines."""
        return {
            "model": turn.model,
            **dict(nonempty_metadata(turn.metadata, PLACES)),
            "created_at": rfc3339_timestamp(self.context.created, ordinal),
        }

    def _encode_lines(self, turn: Turn) -> Iterator[Document]:
        ordinal = 0
        for ordinal, document in enumerate(self._encode_pieces(turn), 1):
            yield {
                **self._response_envelope(turn, ordinal),
                **self._message_fields(document),
                "done": False,
            }
        if turn.failure is not None:
            yield errors.encode_error_line(turn.failure)
            return
        yield {
            **self._response_envelope(turn, ordinal + 1),
            **self._message_fields({}),
            **_final_line_fields(turn),
        }

    def _encode_pieces(self, turn: Turn) -> Iterator[Document]:
        calls = 0
        for part in turn.parts:
            match part:
                case Text(text=text) | Reasoning(text=text):
                    yield from (
                        {_NAMES[type(part)]: piece} for piece in self.context.split_text(text)
                    )
                case ToolCall():
                    yield _append_part({}, part, calls)
                    calls += 1
                case _:
                    yield _append_part({}, part, calls)

    def _encode_document(self, turn: Turn) -> Document:
        document: Document = {}
        for part in turn.parts:
            document = _append_part(document, part, len(document.get("tool_calls", ())))
        return self._message_fields(document)

    def _message_fields(self, document: Document) -> Document:
        """What a message says, where this path says it."""
        content = document.get("content", "")
        beside: Document = {name: value for name, value in document.items() if name != "content"}
        if self.path == CHAT:
            return {"message": {"role": "assistant", "content": content, **beside}}
        if images := beside.pop("images", ()):
            [beside["image"]] = images
        return {"response": content, **beside}


def encode_line(document: Document) -> bytes:
    """A line of a stream."""
    return response_encoding.json_line(document) + b"\n"


def rfc3339_timestamp(seconds: int, nanoseconds: int = 0) -> str:
    """A time since 1970, in s and ns, as RFC 3339 writes it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"


def done_fields(reason: str) -> Document:
    """That an answer is over, and why."""
    return {"done": True, "done_reason": reason}


_NAMES: Final = {Text: "content", Reasoning: "thinking"}
"""Where a message keeps words."""


def _append_part(document: Document, part: Part, calls: int) -> Document:
    """What a message says, and this part; `calls` are told already."""
    match part:
        case Text(text=text) | Reasoning(text=text):
            return {**document, _NAMES[type(part)]: text}
        case Media(base64=drawn):
            return {**document, "images": [*document.get("images", ()), drawn]}
        case ToolCall():
            return {
                **document,
                "tool_calls": [*document.get("tool_calls", ()), _encode_tool_call(part, calls)],
            }
        case _:
            return document  # none fits


def _encode_tool_call(call: ToolCall, index: int) -> Document:
    """A call; its arguments are JSON already."""
    arguments = orjson.Fragment(call.arguments.encode())
    return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": arguments}}


def _final_line_fields(turn: Turn) -> Document:
    """What the last line says: why, how long it took, and what it cost."""
    usage = turn.usage or Usage()
    counts = {name: getattr(usage, field) for field, name in COUNTS.items()}
    took = dict(nonempty_metadata(turn.metadata, DURATIONS))
    return {**done_fields(turn.finish_raw), **took, **counts}
