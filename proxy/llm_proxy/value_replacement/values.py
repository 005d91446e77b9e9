"""The values to replace, and their replacement in the response of a cassette.

The pieces of a streamed field are joined, so that values that span messages are found.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import msgspec

from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import sha256_hex
from llm_proxy.exchange import Read
from llm_proxy.framing import message_edits
from llm_proxy.framing.message_edits import ByteEdit
from llm_proxy.matching import value_finder
from llm_proxy.redaction import PLACEHOLDER, POST_KEY_PLACEHOLDERS
from llm_proxy.value_replacement.texts import (
    EditableText,
    TextChange,
    editable_text,
    escape_json_text,
    is_json_container,
    json_strings,
    parse_json_document,
)

_ALIAS: Final = re.compile(r"<[a-z-]+-[0-9]+>")
_MAX_JSON_DEPTH: Final = 3
"""The deepest nesting of JSON within JSON strings that is parsed."""
_SECRET_PLACEHOLDERS: Final = (PLACEHOLDER, *POST_KEY_PLACEHOLDERS)
_STREAM_ID_MEMBER: Final = re.compile(r"(?:.*_)?index|.*Index|item_id")
"""Members that identify which of several interleaved fields a message continues."""
_CONTENT_BLOCK_INDEX: Final = "contentBlockIndex"
"""The index of consecutive blocks; ignored for text, as Nova counts each piece as a block."""

_LINE_END: Final = re.compile("[\r\n]")

FieldKey = tuple[str | int | tuple[str, int | str], ...]
"""Identifies a streamed field: its path, and the (member, value) pairs of ids on the way."""


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
    cassette: Cassette, replacements: ValueReplacements
) -> tuple[Cassette, int]:
    """The cassette with its values replaced, and their number; the same object if 0."""
    if not replacements:
        return cassette, 0
    texts = [editable_text(cassette.codec_name, message) for message in cassette.framed_messages]
    changes, count = _changes_by_message(texts, replacements)
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
    texts: Sequence[EditableText | None], replacements: ValueReplacements
) -> tuple[dict[int, list[TextChange]], int]:
    """The changes of each message's text, by the message's index; and the number of values."""
    changes_by_message: dict[int, list[TextChange]] = defaultdict(list)
    pieces_by_field: dict[FieldKey, list[FieldPiece]] = defaultdict(list)
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
        kind = body.get("type") if isinstance(body, dict) else ""
        keyed_texts = _keyed_texts(body, (kind if isinstance(kind, str) else "",))
        for place, (key, text) in enumerate(keyed_texts):
            pieces_by_field[key].append(FieldPiece(number, place, text))
    count = sum(map(len, changes_by_message.values()))
    changes_by_piece: dict[int, dict[FieldPiece, list[TextChange]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for key, pieces in pieces_by_field.items():
        for piece, change in _piece_changes(key, pieces, replacements):
            changes_by_piece[piece.message_index][piece].append(change)
    for number, changes in changes_by_piece.items():
        changes_by_message[number] = _source_changes(texts[number], changes)
        # Of a value that spans pieces, only the first one has a replacement.
        count += sum(bool(change.replacement) for change in changes_by_message[number])
    return changes_by_message, count


def _source_changes(
    text: EditableText | None, changes_by_piece: Mapping[FieldPiece, list[TextChange]]
) -> list[TextChange]:
    """Translate changes of a document's strings to changes of its text.

    Empty if its strings are not those that were parsed: a parser keeps only the last of two members
    with the same name.
    """
    strings = [
        string for string in json_strings(text.text if text else "") if not string.is_member_name
    ]
    if any(strings[piece.text_index].value != piece.text for piece in changes_by_piece):
        return []
    return [
        change
        for piece in sorted(changes_by_piece, key=lambda piece: piece.text_index)
        for change in strings[piece.text_index].to_source_changes(changes_by_piece[piece])
    ]


def _keyed_texts(value: object, key: FieldKey) -> Iterator[tuple[FieldKey, str]]:
    """Every text of a message in order, with the key of the field that it is a piece of."""
    match value:
        case str() if key[-1] == "text":
            yield (
                tuple(
                    text
                    for text in key
                    if not (isinstance(text, tuple) and text[0] == _CONTENT_BLOCK_INDEX)
                ),
                value,
            )
        case str():
            yield key, value
        case dict():
            stream_ids = [
                (name, item)
                for name, item in value.items()
                if isinstance(item, int | str) and _STREAM_ID_MEMBER.fullmatch(name)
            ]
            for name, item in value.items():
                yield from _keyed_texts(item, (*key, *stream_ids, name))
        case list():
            for number, item in enumerate(value):
                yield from _keyed_texts(item, (*key, number))
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
