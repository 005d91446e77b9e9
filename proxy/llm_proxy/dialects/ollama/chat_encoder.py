"""Chats and completions of Ollama's as they go out.

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
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.capabilities import kept
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.ollama import errors
from llm_proxy.dialects.ollama.line_decoder import COUNTS, DURATIONS, PLACES
from llm_proxy.dialects.ollama.paths import CHAT
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Media, Part, Reasoning, Text, ToolCall, Turn, Usage

LINES: Final = "application/x-ndjson"
"""The content type of a stream."""


@dataclass(frozen=True, slots=True)
class ChatSpeech:
    """Tells a turn that fits."""

    path: str
    stream: bool
    delivery: Delivery

    def response(self, turn: Turn) -> Response:
        """The answer, a stream or a document."""
        if self.stream:
            return response_encoding.streamed("ndjson", LINES, map(line, self._lines(turn)))
        return response_encoding.document(
            {**self._envelope(turn), **self._whole(turn), **_end(turn)}
        )

    def _envelope(self, turn: Turn, ordinal: int = 0) -> Document:
        """What every line says; the nanoseconds count the lines."""
        return {
            "model": turn.model,
            **dict(kept(turn.metadata, PLACES)),
            "created_at": moment(self.delivery.created, ordinal),
        }

    def _lines(self, turn: Turn) -> Iterator[Document]:
        ordinal = 0
        for ordinal, said in enumerate(self._pieces(turn), 1):
            yield {**self._envelope(turn, ordinal), **self._told(said), "done": False}
        if turn.failure is not None:
            yield errors.line(turn.failure)
            return
        yield {**self._envelope(turn, ordinal + 1), **self._told({}), **_end(turn)}

    def _pieces(self, turn: Turn) -> Iterator[Document]:
        calls = 0
        for part in turn.parts:
            match part:
                case Text(text=text) | Reasoning(text=text):
                    yield from ({_NAMES[type(part)]: piece} for piece in self.delivery.cut(text))
                case ToolCall():
                    yield _with({}, part, calls)
                    calls += 1
                case _:
                    yield _with({}, part, calls)

    def _whole(self, turn: Turn) -> Document:
        said: Document = {}
        for part in turn.parts:
            said = _with(said, part, len(said.get("tool_calls", ())))
        return self._told(said)

    def _told(self, said: Document) -> Document:
        """What a message says, where this path says it."""
        content = said.get("content", "")
        beside: Document = {name: value for name, value in said.items() if name != "content"}
        if self.path == CHAT:
            return {"message": {"role": "assistant", "content": content, **beside}}
        if images := beside.pop("images", ()):
            [beside["image"]] = images
        return {"response": content, **beside}


def line(document: Document) -> bytes:
    """A line of a stream."""
    return response_encoding.written(document) + b"\n"


def moment(seconds: int, nanoseconds: int = 0) -> str:
    """A time since 1970, in s and ns, as RFC 3339 writes it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"


def ended(reason: str) -> Document:
    """That an answer is over, and why."""
    return {"done": True, "done_reason": reason}


_NAMES: Final = {Text: "content", Reasoning: "thinking"}
"""Where a message keeps words."""


def _with(said: Document, part: Part, calls: int) -> Document:
    """What a message says, and this part; `calls` are told already."""
    match part:
        case Text(text=text) | Reasoning(text=text):
            return {**said, _NAMES[type(part)]: text}
        case Media(base64=drawn):
            return {**said, "images": [*said.get("images", ()), drawn]}
        case ToolCall():
            return {**said, "tool_calls": [*said.get("tool_calls", ()), _call(part, calls)]}
        case _:
            return said  # none fits


def _call(call: ToolCall, index: int) -> Document:
    """A call; its arguments are JSON already."""
    arguments = orjson.Fragment(call.arguments.encode())
    return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": arguments}}


def _end(turn: Turn) -> Document:
    """What the last line says: why, how long it took, and what it cost."""
    usage = turn.usage or Usage()
    counts = {name: getattr(usage, field) for field, name in COUNTS.items()}
    took = dict(kept(turn.metadata, DURATIONS))
    return {**ended(turn.finish_raw), **took, **counts}
