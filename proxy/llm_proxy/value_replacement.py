"""Replaces recorded values by those of the requesting client.

    aliases of both requests ──▶ values ──▶ text changes ──▶ byte edits ──▶ the recording

Match rules replace values that differ in each run, such as ids and folders, by aliases.  If a
recording answers a request that has other values for the same aliases, the recorded response
contains the recorded values.  The client would go on to use them, so they are replaced by its own.
Everything else stays byte for byte; reads and messages end at the same places.  The pieces of a
streamed field are joined, so that values that span messages are found.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import msgspec
import orjson

from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import sha256_hex
from llm_proxy.exchange import Read
from llm_proxy.framing import eventstream, message_edits
from llm_proxy.framing.message_edits import ByteEdit
from llm_proxy.matching import value_finder
from llm_proxy.redaction import PLACEHOLDER, POST_KEY_PLACEHOLDERS

_JSON_STRING: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:\s*)?', re.DOTALL)
_SPELLED_CHARACTER: Final = re.compile(
    r"\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]",
    re.DOTALL,
)
"""The JSON spelling of one character."""
_SSE_DATA_LINE: Final = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[\r\n]))data:[ ]?([^\r\n]*)")
_BEFORE_ELEMENT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_BASE64_MEMBER: Final = "bytes"
"""The member of a frame's payload that holds the model's own event in base64."""
_ALIAS: Final = re.compile(r"<[a-z-]+-[0-9]+>")
_MAX_JSON_DEPTH: Final = 3
"""The deepest nesting of JSON within JSON strings that is parsed."""
_SECRET_PLACEHOLDERS: Final = (PLACEHOLDER, *POST_KEY_PLACEHOLDERS)
_STREAM_ID_MEMBER: Final = re.compile(r"(?:.*_)?index|.*Index|item_id")
"""Members that identify which of several interleaved fields a message continues."""
_LINE_END: Final = re.compile("[\r\n]")

FieldKey = tuple[str | int | tuple[str, int | str], ...]
"""Identifies a streamed field: its path, and the (member, value) pairs of ids on the way."""


@dataclass(frozen=True, slots=True)
class TextChange:
    """Replaces the characters from `begin` to `end` by `replacement`."""

    begin: int
    end: int
    replacement: str


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
    """The name of the member whose value it is; empty in a list."""
    is_member_name: bool
    """Whether it is the name of a member."""

    def to_source_changes(self, changes: Sequence[TextChange]) -> list[TextChange]:
        """Translate changes of the value to changes of the document's text."""
        starts: list[int] | range = range(len(self.source_text) + 1)
        if changes and "\\" in self.source_text:
            starts = [0, *accumulate(map(len, _SPELLED_CHARACTER.findall(self.source_text)))]
        return [
            TextChange(
                self.begin + starts[change.begin],
                self.begin + starts[change.end],
                escape_json_text(change.replacement),
            )
            for change in changes
        ]


def json_strings(text: str) -> Iterator[JsonString]:
    """All strings of a JSON document, in order, including the names of members."""
    member, value_offset = "", -1
    for found in _JSON_STRING.finditer(text):
        source, is_name = found[1], found[2] is not None
        value = source
        if "\\" in source:
            with suppress(ValueError):
                value = str(json.loads(f'"{source}"', strict=False))
        member_of_value = member if found.start() == value_offset and not is_name else ""
        yield JsonString(found.start(1), source, value, member_of_value, is_name)
        if is_name:
            member, value_offset = value, found.end()


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
        raise ValueError("nested too deep") from error


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
    offsets = [offset for offset, _ in raw_lines]
    lines = [_decode_utf8(line) for _, line in raw_lines]
    starts = [0, *accumulate(len(line) + 1 for line in lines)]

    def byte_edit(change: TextChange) -> ByteEdit:
        # A change never spans lines, because no JSON string does.
        index = bisect_right(starts, change.begin) - 1
        begin, end = (
            offsets[index] + len(_encode_utf8(lines[index][: position - starts[index]]))
            for position in (change.begin, change.end)
        )
        return ByteEdit(begin, end, _encode_utf8(change.replacement))

    return EditableText("\n".join(lines), lambda changes: list(map(byte_edit, changes)))


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
        pieces: list[str] = []
        offset = 0
        for change in changes:
            pieces += [text[offset : change.begin], change.replacement]
            offset = change.end
        data = _encode_utf8("".join([*pieces, text[offset:]]))
        whole_change = TextChange(0, len(encoded.value), b64encode(data).decode())
        return payload_edits(encoded.to_source_changes([whole_change]))

    return EditableText(text, base64_edits)


def _decode_utf8(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class ValueReplacements:
    """Maps recorded values to the new values that replace them."""

    def __init__(self, new_by_recorded: Mapping[str, str]) -> None:
        self.new_by_recorded = new_by_recorded
        # Distinctive values are replaced within texts, raw and JSON-escaped.
        raw = {old: new for old, new in new_by_recorded.items() if value_finder.is_distinctive(old)}
        escaped = {escape_json_text(old): escape_json_text(new) for old, new in raw.items()}
        self._new_by_distinctive = escaped | raw
        self._finder = value_finder.ValueFinder(self._new_by_distinctive)

    def __bool__(self) -> bool:
        return bool(self.new_by_recorded)

    def find_changes(self, text: str, member: str = "", depth: int = 0) -> list[TextChange]:
        """The changes that replace recorded values in a text, from left to right.

        `member` is the name of the member that contains the text: a short value only counts as an
        id.  A text that is itself JSON is parsed, down to a limit of `depth`.
        """
        new = self.new_by_recorded.get(text)
        if new is not None and value_finder.is_id_member(member):
            return [TextChange(0, len(text), new)]
        if depth < _MAX_JSON_DEPTH and is_json_container(text):
            return [
                change
                for string in json_strings(text)
                for change in string.to_source_changes(
                    self.find_changes(string.value, string.member, depth + 1)
                )
            ]
        return [
            TextChange(begin, end, self._new_by_distinctive[text[begin:end]])
            for begin, end in self._finder.find_spans(text)
        ]


def value_replacements(
    stored_values: Mapping[str, str], request_values: Mapping[str, str]
) -> ValueReplacements:
    """The replacements for values that differ between two requests under the same alias.

    Both mappings are values by alias, of the stored and of the current request.  Redacted values
    are never replaced and never used as replacements.
    """
    new_by_recorded: dict[str, str] = {}
    for alias, recorded in stored_values.items():
        if alias not in request_values:
            continue
        old = _expand_nested_aliases(recorded, stored_values)
        new = _expand_nested_aliases(request_values[alias], request_values)
        is_redacted = any(
            placeholder in value for placeholder in _SECRET_PLACEHOLDERS for value in (old, new)
        )
        if old != new and not is_redacted:
            new_by_recorded.setdefault(old, new)
    return ValueReplacements(new_by_recorded)


def _expand_nested_aliases(value: str, value_by_alias: Mapping[str, str]) -> str:
    return _ALIAS.sub(lambda found: value_by_alias.get(found[0], found[0]), value)


@dataclass(frozen=True, slots=True)
class FieldPiece:
    """The piece of a streamed field in one message."""

    message_index: int
    """The index of the message, from 0."""
    text_index: int
    """The index of the text within the message, from 0."""
    text: str


def replace_recorded_values(
    cassette: Cassette,
    replacements: ValueReplacements,
    counted_texts: Collection[tuple[str, str]] = (),
) -> tuple[Cassette, int]:
    """The cassette with its values replaced, and their number; the same object if 0.

    `counted_texts` are those of its dialect.
    """
    if not replacements:
        return cassette, 0
    texts = [editable_text(cassette.codec_name, message) for message in cassette.framed_messages]
    changes, count = _changes_by_message(texts, replacements, counted_texts)
    edits: list[ByteEdit] = []
    offset = 0
    for number, (message, text) in enumerate(zip(cassette.framed_messages, texts, strict=True)):
        if text is not None and (message_changes := changes.get(number)):
            edits += [
                ByteEdit(offset + edit.begin, offset + edit.end, edit.replacement)
                for edit in text.to_byte_edits(sorted(message_changes, key=lambda edit: edit.begin))
            ]
        offset += len(message)
    if not edits:
        return cassette, 0
    body = cassette.response_body
    new_body = message_edits.apply_edits(body, edits)
    read_data = _split_edited_body(
        new_body, [len(read.received_bytes) for read in cassette.reads], edits
    )
    content_length = cassette.response_head.content_length
    replaced = replace(
        cassette,
        response_head=replace(
            cassette.response_head,
            content_length=content_length and content_length + len(new_body) - len(body),
        ),
        framed_messages=tuple(
            _split_edited_body(new_body, list(map(len, cassette.framed_messages)), edits)
        ),
        reads=tuple(
            Read(read.at_ms, data) for read, data in zip(cassette.reads, read_data, strict=True)
        ),
        response_end=msgspec.structs.replace(
            cassette.response_end, size_bytes=len(new_body), sha256=sha256_hex(new_body)
        ),
    )
    return replaced, count


def _split_edited_body(body: bytes, sizes: Sequence[int], edits: Sequence[ByteEdit]) -> list[bytes]:
    ends = list(message_edits.moved_positions(accumulate(sizes), edits))
    return [body[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _changes_by_message(
    texts: Sequence[EditableText | None],
    replacements: ValueReplacements,
    counted_texts: Collection[tuple[str, str]],
) -> tuple[dict[int, list[TextChange]], int]:
    """The changes of each message's text, by the message's index; and the number of values."""
    changes_by_message: dict[int, list[TextChange]] = defaultdict(list)
    pieces_by_field: dict[FieldKey, list[FieldPiece]] = defaultdict(list)
    documents: dict[int, str] = {}
    for number, editable in enumerate(texts):
        if editable is None:
            continue
        try:
            body = parse_json_document(editable.text)
        except ValueError:
            changes_by_message[number] = [
                change
                for change in replacements.find_changes(editable.text)
                # A line end may belong to the framing.
                if not _LINE_END.search(
                    editable.text[change.begin : change.end] + change.replacement
                )
            ]
            continue
        documents[number] = editable.text
        kind = body.get("type") if isinstance(body, dict) else ""
        start = (kind if isinstance(kind, str) else "",)
        keyed_texts = _keyed_texts(body, start, counted_texts)
        for place, (key, text) in enumerate(keyed_texts):
            pieces_by_field[key].append(FieldPiece(number, place, text))
    count = sum(map(len, changes_by_message.values()))
    piece_changes: dict[int, dict[FieldPiece, list[TextChange]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for key, pieces in pieces_by_field.items():
        for piece, change in _piece_changes(key, pieces, replacements):
            piece_changes[piece.message_index][piece].append(change)
    for number, changes_by_piece in piece_changes.items():
        strings = [
            string for string in json_strings(documents[number]) if not string.is_member_name
        ]
        # A parser keeps only the last of two members with the same name: then the strings are not
        # those that were parsed, and the message stays as it is.
        if all(strings[piece.text_index].value == piece.text for piece in changes_by_piece):
            for piece, changes in changes_by_piece.items():
                changes_by_message[number] += strings[piece.text_index].to_source_changes(changes)
                # Of a value that spans pieces, only the first one has a replacement.
                count += sum(bool(change.replacement) for change in changes)
    return changes_by_message, count


def _keyed_texts(
    value: object, key: FieldKey, counted_texts: Collection[tuple[str, str]]
) -> Iterator[tuple[FieldKey, str]]:
    """Every text of a message in order, with the key of the field that it is a piece of."""
    match value:
        case str():
            yield (
                tuple(
                    step
                    for step in key
                    if not isinstance(step, tuple) or (step[0], key[-1]) not in counted_texts
                ),
                value,
            )
        case dict():
            stream_ids = [
                (name, item)
                for name, item in value.items()
                if isinstance(item, int | str) and _STREAM_ID_MEMBER.fullmatch(name)
            ]
            for name, item in value.items():
                yield from _keyed_texts(item, (*key, *stream_ids, name), counted_texts)
        case list():
            for number, item in enumerate(value):
                yield from _keyed_texts(item, (*key, number), counted_texts)
        case _:
            pass


def _piece_changes(
    key: FieldKey, pieces: Sequence[FieldPiece], replacements: ValueReplacements
) -> list[tuple[FieldPiece, TextChange]]:
    """The changes of a field's pieces, including those of values that span pieces.

    The new value goes to the piece in which the recorded one begins.  A field with the same value
    in every message, such as an id, is not joined.
    """
    member = next((text for text in reversed(key) if isinstance(text, str)), "")
    if (
        len(pieces) == 1
        or value_finder.is_id_member(member)
        or len({piece.text for piece in pieces}) == 1
    ):
        return [
            (piece, change)
            for piece in pieces
            for change in replacements.find_changes(piece.text, member)
        ]
    starts = [0, *accumulate(len(piece.text) for piece in pieces)]
    changes: list[tuple[FieldPiece, TextChange]] = []
    for change in replacements.find_changes("".join(piece.text for piece in pieces), member):
        number, replacement = bisect_right(starts, change.begin) - 1, change.replacement
        while number < len(pieces) and starts[number] < change.end:
            start, size = starts[number], len(pieces[number].text)
            begin, end = max(0, change.begin - start), min(size, change.end - start)
            if begin < end:
                changes.append((pieces[number], TextChange(begin, end, replacement)))
                replacement = ""
            number += 1
    return changes
