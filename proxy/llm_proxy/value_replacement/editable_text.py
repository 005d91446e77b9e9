"""The text of a message, and the translation of text changes to byte edits."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from llm_proxy.framing import eventstream, frame_edits
from llm_proxy.framing.frame_edits import ByteEdit
from llm_proxy.value_replacement.json_text import TextChange, json_strings

_SSE_DATA_LINE: Final = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[\r\n]))data:[ ]?([^\r\n]*)")
_BEFORE_ELEMENT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_BASE64_MEMBER: Final = "bytes"
"""The member of a frame's payload that holds the model's own event in base64."""


@dataclass(frozen=True, slots=True)
class EditableText:
    """The text in a message, which can be changed."""

    text: str
    """Mostly a JSON document."""
    to_byte_edits: Callable[[Sequence[TextChange]], list[ByteEdit]]
    """The byte edits of the message for text changes, which are ordered from left to right."""


def editable_text(codec: str, message: bytes) -> EditableText | None:
    """The editable text of a message; None if it has none."""
    match codec:
        case "sse":
            lines = [(found.start(1), found[1]) for found in _SSE_DATA_LINE.finditer(message)]
            return _unencoded_text(lines) if lines else None
        case "json-array":
            found = _BEFORE_ELEMENT.match(message)
            begin = found.end() if found is not None else 0
            return _unencoded_text([(begin, message[begin:])])
        case "whole" if not _is_utf8(message):
            return None  # audio or an image
        case eventstream.CODEC_NAME:
            return _frame_text(message)
        case _:
            return _unencoded_text([(0, message)])


def _unencoded_text(raw_lines: Sequence[tuple[int, bytes]]) -> EditableText:
    """A text on one line or several, each with its byte offset in the message."""
    offsets = [offset for offset, _ in raw_lines]
    lines = [_decode_utf8(line) for _, line in raw_lines]
    starts = [0, *accumulate(len(line) + 1 for line in lines)]

    def byte_edit(change: TextChange) -> ByteEdit:
        # A change never spans lines, because no JSON string does.
        index = bisect_right(starts, change.begin) - 1
        begin, end = (
            offsets[index] + _utf8_size(lines[index][: position - starts[index]])
            for position in (change.begin, change.end)
        )
        return ByteEdit(begin, end, _encode_utf8(change.replacement))

    return EditableText("\n".join(lines), lambda changes: list(map(byte_edit, changes)))


def _frame_text(frame: bytes) -> EditableText | None:
    """The payload of an event stream frame, or the text that is in it in base64."""
    prelude = frame[: eventstream.PRELUDE_BYTES]
    if len(prelude) < eventstream.PRELUDE_BYTES or eventstream.frame_size(prelude) is None:
        return None
    span = frame_edits.payload_span(frame)
    if span is None:
        return None
    payload = _unencoded_text([(span[0], frame[slice(*span)])])

    def payload_edits(changes: Sequence[TextChange]) -> list[ByteEdit]:
        """The edits of the payload, with those of lengths and checksums."""
        return frame_edits.with_envelope_edits(frame, payload.to_byte_edits(changes))

    strings = json_strings(payload.text) if f'"{_BASE64_MEMBER}"' in payload.text else ()
    encoded = next((string for string in strings if string.member == _BASE64_MEMBER), None)
    if encoded is None:
        return EditableText(payload.text, payload_edits)
    try:
        text = _decode_utf8(b64decode(encoded.value, validate=True))
    except ValueError:
        return EditableText(payload.text, payload_edits)

    def base64_edits(changes: Sequence[TextChange]) -> list[ByteEdit]:
        """One edit that replaces all of the base64, with those of lengths and checksums."""
        pieces: list[str] = []
        offset = 0
        for change in changes:
            pieces += [text[offset : change.begin], change.replacement]
            offset = change.end
        data = _encode_utf8("".join([*pieces, text[offset:]]))
        whole_change = TextChange(0, len(encoded.value), b64encode(data).decode())
        return payload_edits(encoded.to_source_changes([whole_change]))

    return EditableText(text, base64_edits)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decode_utf8(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(_encode_utf8(text))
