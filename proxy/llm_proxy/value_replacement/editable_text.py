"""The editable text of a message, and how text changes become byte edits."""

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
from llm_proxy.framing.frame_edits import Edit
from llm_proxy.value_replacement import json_text
from llm_proxy.value_replacement.text_change import TextChange

_DATA: Final = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[\r\n]))data:[ ]?([^\r\n]*)")
_BEFORE: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_PACKED: Final = "bytes"
"""The member of a frame's payload that holds a model's own event, in base64."""


class EditableText(Protocol):
    """A text as it is spelled in a message."""

    @property
    def text(self) -> str:
        """The text: mostly a JSON document."""

    def to_byte_edits(self, changes: Sequence[TextChange]) -> list[Edit]:
        """What these changes, which come from left to right, make of the message."""


@dataclass(frozen=True, slots=True)
class LineText:
    """A text that stands in a message as it is, on one line or several."""

    lines: tuple[tuple[int, str], ...]
    """Each with the place where it begins in the message."""

    @property
    def text(self) -> str:
        """The lines, joined as the framing has it."""
        return "\n".join(line for _, line in self.lines)

    def to_byte_edits(self, changes: Sequence[TextChange]) -> list[Edit]:
        """One for each change: none goes beyond its line, for no JSON text does."""
        starts = [0, *accumulate(len(line) + 1 for _, line in self.lines)]
        made: list[Edit] = []
        for change in changes:
            row = bisect_right(starts, change.begin) - 1
            at, line = self.lines[row]
            begin, end = change.begin - starts[row], change.end - starts[row]
            made.append(
                Edit(
                    at + _utf8_size(line[:begin]),
                    at + _utf8_size(line[:end]),
                    _encode_utf8(change.new),
                )
            )
        return made


@dataclass(frozen=True, slots=True)
class FramePayload:
    """The payload of a frame that knows its length."""

    frame: bytes
    begin: int
    text: str

    def to_byte_edits(self, changes: Sequence[TextChange]) -> list[Edit]:
        """Those of the payload, with the lengths and checksums that they need."""
        inner = LineText(((self.begin, self.text),)).to_byte_edits(changes)
        return frame_edits.with_envelope_edits(self.frame, inner)


@dataclass(frozen=True, slots=True)
class Base64Text:
    """What a frame's payload holds in base64."""

    outer: FramePayload
    field: json_text.JsonString
    text: str

    def to_byte_edits(self, changes: Sequence[TextChange]) -> list[Edit]:
        """One edit of all of the base64."""
        packed = b64encode(_encode_utf8(apply_changes(self.text, changes))).decode()
        whole = TextChange(0, len(self.field.value), packed)
        return self.outer.to_byte_edits(self.field.source_changes([whole]))


def apply_changes(text: str, changes: Iterable[TextChange]) -> str:
    """A text with these changes, which come from left to right."""
    pieces: list[str] = []
    at = 0
    for change in changes:
        pieces += [text[at : change.begin], change.new]
        at = change.end
    return "".join([*pieces, text[at:]])


def editable_text(codec: str, message: bytes) -> EditableText | None:
    """The text of a message; None where it has none that could be changed."""
    return _SPELLED[codec](message)


def _editable_event(message: bytes) -> EditableText | None:
    lines = tuple((match.start(1), _decode_utf8(match[1])) for match in _DATA.finditer(message))
    return LineText(lines) if lines else None


def _editable_document(message: bytes) -> EditableText | None:
    try:
        return LineText(((0, message.decode()),))
    except UnicodeDecodeError:
        return None  # a sound, or a picture


def _editable_element(message: bytes) -> EditableText:
    found = _BEFORE.match(message)
    begin = found.end() if found is not None else 0
    return LineText(((begin, _decode_utf8(message[begin:])),))


def _editable_line(message: bytes) -> EditableText:
    return LineText(((0, _decode_utf8(message)),))


def _editable_frame(frame: bytes) -> EditableText | None:
    if (
        len(frame) < eventstream.PRELUDE
        or eventstream.frame_size(frame[: eventstream.PRELUDE]) is None
    ):
        return None
    place = frame_edits.payload_span(frame)
    if place is None:
        return None
    framed = FramePayload(frame, place[0], _decode_utf8(frame[place[0] : place[1]]))
    if f'"{_PACKED}"' not in framed.text:
        return framed
    for token in json_text.json_strings(framed.text):
        if token.member == _PACKED:
            try:
                return Base64Text(
                    framed, token, _decode_utf8(b64decode(token.value, validate=True))
                )
            except ValueError:
                break
    return framed


_SPELLED: Final[Mapping[str, Callable[[bytes], EditableText | None]]] = MappingProxyType(
    {
        "sse": _editable_event,
        "ndjson": _editable_line,
        "json-array": _editable_element,
        "whole": _editable_document,
        eventstream.NAME: _editable_frame,
    }
)


def _decode_utf8(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(_encode_utf8(text))
