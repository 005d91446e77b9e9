"""Encodes Ollama's chat and completion responses.

    ( thinking | content | images | tool_calls )* done

A chat holds these fields in `message`, a completion beside `response`.  A tool call is never split.
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
from llm_proxy.dialects.ollama.line_decoder import DURATION_FIELDS, REMOTE_FIELDS, USAGE_WIRE_NAMES
from llm_proxy.dialects.ollama.paths import CHAT
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Media, Part, Reasoning, Text, ToolCall, Turn, Usage

NDJSON_CONTENT_TYPE: Final = "application/x-ndjson"
"""The content type of a stream."""


@dataclass(frozen=True, slots=True)
class OllamaEncoder:
    """Encodes a turn that fits the capabilities of its path."""

    request_path: str
    is_streamed: bool
    context: EncodeContext

    def encode_response(self, turn: Turn) -> DialectResponse:
        """The response: a stream of lines, or one document."""
        if self.is_streamed:
            return response_encoding.stream_response(
                "ndjson", NDJSON_CONTENT_TYPE, map(encode_line, self._encode_lines(turn))
            )
        return response_encoding.json_response(
            {
                **self._response_envelope(turn),
                **self._encode_whole_message(turn),
                **_final_line_fields(turn),
            }
        )

    def _response_envelope(self, turn: Turn, line_number: int = 0) -> Document:
        """The fields of every line; the nanoseconds of `created_at` are the line's number."""
        return {
            "model": turn.model,
            **dict(nonempty_metadata(turn.metadata, REMOTE_FIELDS)),
            "created_at": rfc3339_timestamp(self.context.created_unix_s, line_number),
        }

    def _encode_lines(self, turn: Turn) -> Iterator[Document]:
        line_number = 0
        for line_number, document in enumerate(self._encode_deltas(turn), 1):
            yield {
                **self._response_envelope(turn, line_number),
                **self._message_fields(document),
                "done": False,
            }
        if turn.failure is not None:
            yield errors.stream_error_document(turn.failure)
            return
        yield {
            **self._response_envelope(turn, line_number + 1),
            **self._message_fields({}),
            **_final_line_fields(turn),
        }

    def _encode_deltas(self, turn: Turn) -> Iterator[Document]:
        call_count = 0
        for part in turn.parts:
            match part:
                case Text(text=text) | Reasoning(text=text):
                    yield from (
                        {_TEXT_FIELDS[type(part)]: piece} for piece in self.context.split_text(text)
                    )
                case ToolCall():
                    yield _append_part({}, part, call_count)
                    call_count += 1
                case _:
                    yield _append_part({}, part, call_count)

    def _encode_whole_message(self, turn: Turn) -> Document:
        document: Document = {}
        for part in turn.parts:
            document = _append_part(document, part, len(document.get("tool_calls", ())))
        return self._message_fields(document)

    def _message_fields(self, document: Document) -> Document:
        """The fields of a message, placed as this path requires; a completion holds one image."""
        content = document.get("content", "")
        other_fields: Document = {
            name: value for name, value in document.items() if name != "content"
        }
        if self.request_path == CHAT:
            return {"message": {"role": "assistant", "content": content, **other_fields}}
        if images := other_fields.pop("images", ()):
            [other_fields["image"]] = images
        return {"response": content, **other_fields}


def encode_line(document: Document) -> bytes:
    """One line of a stream, with its line end."""
    return response_encoding.single_line_json(document) + b"\n"


def rfc3339_timestamp(seconds: int, nanoseconds: int = 0) -> str:
    """A Unix time in s, and its fraction in ns, as RFC 3339 text in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"


def done_fields(reason: str) -> Document:
    """The fields that end a response, and its reason."""
    return {"done": True, "done_reason": reason}


_TEXT_FIELDS: Final = {Text: "content", Reasoning: "thinking"}
"""The field of a message for each kind of text."""


def _append_part(document: Document, part: Part, call_index: int) -> Document:
    """The message with this part added; `call_index` is the index of a tool call."""
    match part:
        case Text(text=text) | Reasoning(text=text):
            return {**document, _TEXT_FIELDS[type(part)]: text}
        case Media(base64=image_base64):
            return {**document, "images": [*document.get("images", ()), image_base64]}
        case ToolCall():
            return {
                **document,
                "tool_calls": [
                    *document.get("tool_calls", ()),
                    _encode_tool_call(part, call_index),
                ],
            }
        case _:
            return document  # not representable


def _encode_tool_call(call: ToolCall, index: int) -> Document:
    """A tool call; its arguments are JSON text already."""
    arguments = orjson.Fragment(call.arguments.encode())
    return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": arguments}}


def _final_line_fields(turn: Turn) -> Document:
    """The fields of the last line: finish reason, durations and token counts."""
    usage = turn.usage or Usage()
    counts = {name: getattr(usage, field) for field, name in USAGE_WIRE_NAMES.items()}
    durations = dict(nonempty_metadata(turn.metadata, DURATION_FIELDS))
    return {**done_fields(turn.finish_raw), **durations, **counts}
