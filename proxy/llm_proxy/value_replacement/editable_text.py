"""The text of a message, and the translation of text changes to byte edits."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Final, Protocol

from llm_proxy.framing import eventstream, frame_edits
from llm_proxy.framing.frame_edits import ByteEdit
from llm_proxy.value_replacement import json_text
from llm_proxy.value_replacement.text_change import TextChange

_SSE_DATA_LINE: Final = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[\r\n]))data:[ ]?([^\r\n]*)")
_BEFORE_ELEMENT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_BASE64_MEMBER: Final = "bytes"
"""The member of a frame's payload that holds the model's own event in base64."""


class EditableText(Protocol):
    """The text in a message, which can be changed."""

    @property
    def text(self) -> str:
        """The text: mostly a JSON document."""

    def to_byte_edits(self, changes: Sequence[TextChange]) -> list[ByteEdit]:
        """The byte edits of the message for text changes, which are ordered from left to right."""


@dataclass(frozen=True, slots=True)
class LineText:
    """A text that a message contains unencoded, on one line or several."""

    lines_with_offsets: tuple[tuple[int, str], ...]
    """Each line with its byte offset in the message."""

    @property
    def text(self) -> str:
        """The lines, joined with LF."""
        return "\n".join(line for _, line in self.lines_with_offsets)

    def to_byte_edits(self, changes: Sequence[TextChange]) -> list[ByteEdit]:
        """One edit per change: a change never spans lines, because no JSON string does."""
        starts = [0, *accumulate(len(line) + 1 for _, line in self.lines_with_offsets)]
        edits: list[ByteEdit] = []
        for change in changes:
            line_index = bisect_right(starts, change.begin) - 1
            at, line = self.lines_with_offsets[line_index]
            begin, end = change.begin - starts[line_index], change.end - starts[line_index]
            edits.append(
                ByteEdit(
                    at + _utf8_size(line[:begin]),
                    at + _utf8_size(line[:end]),
                    _encode_utf8(change.replacement),
                )
            )
        return edits


@dataclass(frozen=True, slots=True)
class FramePayload:
    """The text payload of an event stream frame."""

    frame: bytes
    payload_offset: int
    text: str

    def to_byte_edits(self, changes: Sequence[TextChange]) -> list[ByteEdit]:
        """The edits of the payload, with those of lengths and checksums."""
        payload_edits = LineText(((self.payload_offset, self.text),)).to_byte_edits(changes)
        return frame_edits.with_envelope_edits(self.frame, payload_edits)


@dataclass(frozen=True, slots=True)
class Base64Text:
    """The text that a frame's payload contains in base64."""

    frame_payload: FramePayload
    json_string: json_text.JsonString
    text: str

    def to_byte_edits(self, changes: Sequence[TextChange]) -> list[ByteEdit]:
        """One edit that replaces all of the base64, with those of lengths and checksums."""
        encoded = b64encode(_encode_utf8(apply_changes(self.text, changes))).decode()
        full_change = TextChange(0, len(self.json_string.value), encoded)
        return self.frame_payload.to_byte_edits(self.json_string.to_source_changes([full_change]))


def apply_changes(text: str, changes: Iterable[TextChange]) -> str:
    """Apply changes, which are ordered from left to right, to a text."""
    pieces: list[str] = []
    offset = 0
    for change in changes:
        pieces += [text[offset : change.begin], change.replacement]
        offset = change.end
    return "".join([*pieces, text[offset:]])


def editable_text(codec: str, message: bytes) -> EditableText | None:
    """The editable text of a message; None if it has none."""
    return _EDITABLE_BY_CODEC[codec](message)


def _editable_sse_event(message: bytes) -> EditableText | None:
    lines = tuple(
        (match.start(1), _decode_utf8(match[1])) for match in _SSE_DATA_LINE.finditer(message)
    )
    return LineText(lines) if lines else None


def _editable_whole_body(message: bytes) -> EditableText | None:
    try:
        return LineText(((0, message.decode()),))
    except UnicodeDecodeError:
        return None  # audio or an image


def _editable_element(message: bytes) -> EditableText:
    found = _BEFORE_ELEMENT.match(message)
    begin = found.end() if found is not None else 0
    return LineText(((begin, _decode_utf8(message[begin:])),))


def _editable_line(message: bytes) -> EditableText:
    return LineText(((0, _decode_utf8(message)),))


def _editable_frame(frame: bytes) -> EditableText | None:
    if (
        len(frame) < eventstream.PRELUDE_BYTES
        or eventstream.frame_size(frame[: eventstream.PRELUDE_BYTES]) is None
    ):
        return None
    span = frame_edits.payload_span(frame)
    if span is None:
        return None
    payload = FramePayload(frame, span[0], _decode_utf8(frame[span[0] : span[1]]))
    if f'"{_BASE64_MEMBER}"' not in payload.text:
        return payload
    for token in json_text.json_strings(payload.text):
        if token.member == _BASE64_MEMBER:
            try:
                return Base64Text(
                    payload, token, _decode_utf8(b64decode(token.value, validate=True))
                )
            except ValueError:
                break
    return payload


_EDITABLE_BY_CODEC: Final[Mapping[str, Callable[[bytes], EditableText | None]]] = MappingProxyType(
    {
        "sse": _editable_sse_event,
        "ndjson": _editable_line,
        "json-array": _editable_element,
        "whole": _editable_whole_body,
        eventstream.CODEC_NAME: _editable_frame,
    }
)


def _decode_utf8(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(_encode_utf8(text))
