"""The texts of messages, and byte edits that change them.

The text of a message is mostly a JSON document: the data of an SSE event, a line, the payload of a
frame or what that holds in base64.  Everything but the changed characters stays byte for byte, and
lengths and checksums of frames are made right.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType
from typing import Final

import orjson

from llm_proxy.framing import eventstream, message_edits
from llm_proxy.framing.message_edits import ByteEdit

_JSON_STRING: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:\s*)?', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")
_CLOSING_BRACKETS: Final = MappingProxyType({"[": "]", "{": "}"})
_CUT_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*(\\(?:u[0-9a-fA-F]{0,3})?)\Z")
"""The beginning of an escape at the end of a string, behind an even number of backslashes."""
_SPELLED_CHARACTER: Final = re.compile(
    r"\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]",
    re.DOTALL,
)
"""The JSON spelling of one character."""
_SSE_DATA_LINE: Final = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[\r\n]))data:[ ]?([^\r\n]*)")
_BEFORE_ELEMENT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_ID_MEMBER: Final = re.compile(r"(?:.*_)?ids?|.*[a-z]I[dD]")
_BASE64_MEMBER: Final = "bytes"
"""The member of a frame's payload that holds the model's own event in base64."""


@dataclass(frozen=True, slots=True)
class TextChange:
    """Replaces the characters from `begin` to `end` by `replacement`."""

    begin: int
    end: int
    replacement: str
    rule: str = ""
    """The redaction rule that asks for it; empty if none does."""


@dataclass(frozen=True, slots=True)
class JsonString:
    """One string of a JSON document."""

    begin: int
    """Its offset in the document, after the opening quote."""
    source_text: str
    """The string as written in the document, without quotes."""
    value: str
    """The decoded string."""
    member: str
    """The name of the member whose value it is, or an item of whose value; else empty."""
    is_member_name: bool
    """Whether it is the name of a member."""

    def to_source_changes(self, changes: Sequence[TextChange]) -> list[TextChange]:
        """Translate changes of the value to changes of the document's text."""
        starts: list[int] | range = range(len(self.source_text) + 1)
        if changes and "\\" in self.source_text:
            starts = [0, *accumulate(map(len, _SPELLED_CHARACTER.findall(self.source_text)))]
        return [
            replace(
                change,
                begin=self.begin + starts[change.begin],
                end=self.begin + starts[change.end],
                replacement=escape_json_text(change.replacement),
            )
            for change in changes
        ]


def json_strings(text: str) -> Iterator[JsonString]:
    """All strings of a JSON document, in order, including the names of members.

    Several documents, and one that a parser refuses, have strings too.
    """
    member, member_end, last_end = "", -1, 0
    is_in_list = False
    for found in _JSON_STRING.finditer(text):
        source, is_name = found[1], found[2] is not None
        value = source
        if "\\" in source:
            with suppress(ValueError):
                value = str(json.loads(f'"{source}"', strict=False))
        if member_end >= 0:  # behind a name there is its value, or a list of values
            is_in_list = text[member_end : found.start()].strip() == "["
            is_value = is_in_list or found.start() == member_end
        else:
            is_value = is_in_list and text[last_end : found.start()].strip() == ","
        is_in_list = is_in_list and is_value
        yield JsonString(
            found.start(1), source, value, member if is_value and not is_name else "", is_name
        )
        last_end = found.end()
        member_end = last_end if is_name else -1
        if is_name:
            member, is_in_list = value, False


def apply_text_changes(text: str, changes: Sequence[TextChange]) -> str:
    """The text after changes, which are ordered from left to right."""
    pieces: list[str] = []
    offset = 0
    for change in changes:
        pieces += [text[offset : change.begin], change.replacement]
        offset = change.end
    return "".join([*pieces, text[offset:]])


def is_json_container(text: str) -> bool:
    """Whether a text is a JSON object or array."""
    if not text.lstrip(" \t\r\n").startswith(("{", "[")):
        return False
    try:
        parse_json_document(text)
    except ValueError:
        return False
    return True


def parse_json_document(text: str) -> object:
    """Parse a JSON document, with lone surrogates allowed.  Raises `ValueError` if invalid."""
    try:
        return orjson.loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        if "\\ud" not in text.lower():
            raise
    try:
        return json.loads(text)  # accepts lone surrogates
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def parse_truncated_json(text: str) -> tuple[str, object]:
    """Complete and parse a JSON document that was cut; it begins as `text` does.

    Raises `ValueError` if `text` is not the beginning of one, or was cut within a number or a name.
    """
    outside = _JSON_STRING.sub(" ", text)
    outside, open_string, _ = outside.partition('"')
    brackets: list[str] = []
    for bracket in _BRACKET.findall(outside):
        if bracket in _CLOSING_BRACKETS:
            brackets.append(_CLOSING_BRACKETS[bracket])
        elif not brackets or brackets.pop() != bracket:
            raise ValueError("not the beginning of a JSON document")
    closing = "".join(reversed(brackets))
    if open_string:
        cut_escape = _CUT_ESCAPE.search(text)
        escape = cut_escape[1] if cut_escape is not None else ""
        rest = "\\" if escape == "\\" else "0" * (6 - len(escape)) if escape else ""
        ends: tuple[str, ...] = (f'{rest}"', f'{rest}":0')
    else:
        ends = ("", ":0", "0", '"":0')
    for end in ends:
        with suppress(ValueError):
            completed = f"{text}{end}{closing}"
            return completed, parse_json_document(completed)
    raise ValueError("not the beginning of a JSON document")


def escape_json_text(value: str) -> str:
    """A text as a JSON string without its quotes."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


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
        case eventstream.CODEC_NAME:
            return _frame_text(message)
        case "whole":
            with suppress(UnicodeDecodeError):  # audio or an image
                message.decode()
                return _unencoded_text([(0, message)])
            return None
        case _:
            return _unencoded_text([(0, message)])


def _unencoded_text(raw_lines: Sequence[tuple[int, bytes]]) -> EditableText:
    """A text on one line or several, each with its byte offset in the message."""
    lines = [_decode_utf8(line) for _, line in raw_lines]

    def byte_edits(changes: Sequence[TextChange]) -> list[ByteEdit]:
        starts = [0, *accumulate(len(line) + 1 for line in lines)]
        edits: list[ByteEdit] = []
        line_index = -1
        position = offset = 0
        """How far the line is translated: characters, and bytes of the message."""
        for change in changes:
            # A change never spans lines, because no JSON string does.
            index = bisect_right(starts, change.begin) - 1
            if index != line_index:
                line_index, position, offset = index, 0, raw_lines[index][0]
            line = lines[index]
            first, last = change.begin - starts[index], change.end - starts[index]
            begin = offset + len(_encode_utf8(line[position:first]))
            position, offset = last, begin + len(_encode_utf8(line[first:last]))
            edits.append(ByteEdit(begin, offset, _encode_utf8(change.replacement)))
        return edits

    return EditableText("\n".join(lines), byte_edits)


def _frame_text(frame: bytes) -> EditableText | None:
    """The payload of an event stream frame, or the text that is in it in base64."""
    prelude = frame[: eventstream.PRELUDE_BYTES]
    if len(prelude) < eventstream.PRELUDE_BYTES or eventstream.frame_size(prelude) is None:
        return None
    span = eventstream.payload_span(frame)
    if span is None:
        return None
    payload = _unencoded_text([(span[0], frame[slice(*span)])])

    def payload_edits(changes: Sequence[TextChange]) -> list[ByteEdit]:
        """The edits of the payload, with those of lengths and checksums."""
        return message_edits.with_envelope_edits(frame, payload.to_byte_edits(changes))

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
        data = _encode_utf8(apply_text_changes(text, changes))
        whole_change = TextChange(0, len(encoded.value), b64encode(data).decode())
        return payload_edits(encoded.to_source_changes([whole_change]))

    return EditableText(text, base64_edits)


def _decode_utf8(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def is_id_member(member: str) -> bool:
    """Whether a member of an object has the name of an id: `id`, `call_id`, `toolUseId`."""
    return _ID_MEMBER.fullmatch(member) is not None
