"""Changes texts in the response of a cassette; everything else stays byte for byte.

Reads and messages end at the same places.  The pieces of a streamed field are joined, so that what
spans messages is found.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Final, cast

import msgspec

from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import sha256_hex
from llm_proxy.exchange import Read
from llm_proxy.framing import message_edits
from llm_proxy.framing.message_edits import ByteEdit
from llm_proxy.message_texts import (
    EditableText,
    TextChange,
    editable_text,
    is_id_member,
    json_strings,
    parse_json_document,
    parse_truncated_json,
)
from llm_proxy.turns import Json

_STREAM_ID_MEMBER: Final = re.compile(r"(?:.*_)?index|.*Index|item_id")
"""Members that identify which of several interleaved fields a message continues."""
_LINE_END: Final = re.compile("[\r\n]")
_NOT_JSON: Final = -1
"""The text index of a message that is no JSON."""

FieldKey = tuple[str | int | tuple[str, int | str], ...]
"""Identifies a streamed field: its path, and the (member, value) pairs of ids on the way."""

JsonPath = tuple[str | int, ...]
"""The names and indexes that lead to a value."""
FindChanges = Callable[[str, str, Sequence[int]], list[TextChange]]
"""The changes of a text, from left to right.  Its second argument is the name of the member that
contains the text, empty if there is none; the third has the offsets at which its pieces begin."""
SelectValues = Callable[[Json], Mapping[JsonPath, str]]
"""The values of a document that are replaced as a whole: the replacement by the path of each."""


@dataclass(frozen=True, slots=True)
class FieldPiece:
    """The piece of a streamed field in one message."""

    message_index: int
    """The index of the message, from 0."""
    text_index: int
    """The index of the text within the message, from 0; -1 for all of a message that is no JSON."""
    text: str


def edit_cassette(
    cassette: Cassette,
    find_changes: FindChanges,
    counted_texts: Collection[tuple[str, str]] = (),
    select_values: SelectValues | None = None,
) -> tuple[Cassette, int]:
    """The cassette with its texts changed, the same object if none was, and the number of values.

    `counted_texts` are those of its dialect.
    """
    edits, count = message_text_edits(
        cassette.codec_name, cassette.framed_messages, find_changes, counted_texts, select_values
    )
    return (_with_edits(cassette, edits), count) if edits else (cassette, 0)


def edit_message_texts(
    cassette: Cassette, find_changes: Callable[[str], list[TextChange]]
) -> Cassette:
    """The cassette with the texts of its messages changed; the same object if none is.

    Each text is mostly a JSON document.
    """
    edits: list[ByteEdit] = []
    offset = 0
    for message in cassette.framed_messages:
        text = editable_text(cassette.codec_name, message)
        if text is not None and (changes := find_changes(text.text)):
            if cassette.codec_name == "sse":  # the line ends belong to the framing
                changes = [
                    part for change in changes for part in _changes_by_line(text.text, change)
                ]
            edits += [
                ByteEdit(offset + each.begin, offset + each.end, each.replacement)
                for each in text.to_byte_edits(changes)
            ]
        offset += len(message)
    return _with_edits(cassette, edits) if edits else cassette


def _changes_by_line(text: str, change: TextChange) -> Iterator[TextChange]:
    """A change of each line; the first one has the replacement."""
    begin, replacement = change.begin, change.replacement
    for line in text[change.begin : change.end].split("\n"):
        yield TextChange(begin, begin + len(line), replacement)
        begin, replacement = begin + len(line) + 1, ""


def _with_edits(cassette: Cassette, edits: Sequence[ByteEdit]) -> Cassette:
    body = cassette.response_body
    new_body = message_edits.apply_edits(body, edits)
    read_data = _split_edited_body(
        new_body, [len(read.received_bytes) for read in cassette.reads], edits
    )
    content_length = cassette.response_head.content_length
    return replace(
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


def message_text_edits(
    codec: str,
    messages: Sequence[bytes],
    find_changes: FindChanges,
    counted_texts: Collection[tuple[str, str]] = (),
    select_values: SelectValues | None = None,
) -> tuple[list[ByteEdit], int]:
    """The edits of the joined messages that change their texts, and the number of changes."""
    texts = [editable_text(codec, message) for message in messages]
    changes, count = _changes_by_message(texts, find_changes, counted_texts, select_values)
    edits: list[ByteEdit] = []
    offset = 0
    for number, (message, text) in enumerate(zip(messages, texts, strict=True)):
        if text is not None and (message_changes := changes.get(number)):
            edits += [
                ByteEdit(offset + edit.begin, offset + edit.end, edit.replacement)
                for edit in text.to_byte_edits(sorted(message_changes, key=lambda edit: edit.begin))
            ]
        offset += len(message)
    return edits, count


def _split_edited_body(body: bytes, sizes: Sequence[int], edits: Sequence[ByteEdit]) -> list[bytes]:
    ends = list(message_edits.moved_positions(accumulate(sizes), edits))
    return [body[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _changes_by_message(
    texts: Sequence[EditableText | None],
    find_changes: FindChanges,
    counted_texts: Collection[tuple[str, str]],
    select_values: SelectValues | None,
) -> tuple[dict[int, list[TextChange]], int]:
    """The changes of each message's text, by the message's index; and the number of values."""
    changes_by_message: dict[int, list[TextChange]] = defaultdict(list)
    piece_changes: dict[int, dict[FieldPiece, list[TextChange]]] = defaultdict(
        lambda: defaultdict(list)
    )
    count = 0
    for field_change in find_field_changes(texts, find_changes, counted_texts, select_values):
        for piece, change in field_change.piece_changes():
            piece_changes[piece.message_index][piece].append(change)
    for number, changes_by_piece in piece_changes.items():
        pieces = list(changes_by_piece)
        if pieces[0].text_index == _NOT_JSON:
            for change in changes_by_piece[pieces[0]]:
                # A line end may belong to the framing.
                removed = pieces[0].text[change.begin : change.end]
                if not _LINE_END.search(removed + change.replacement):
                    changes_by_message[number].append(change)
                    count += bool(change.replacement)
            continue
        text = texts[number]
        is_last = number == len(texts) - 1
        parsed = None if text is None else _parse_document(text.text, is_last=is_last)
        document = "" if parsed is None else parsed[0]
        strings = [string for string in json_strings(document) if not string.is_member_name]
        # A parser keeps only the last of two members with the same name: then the strings are not
        # those that were parsed, and the message stays as it is.
        if all(strings[piece.text_index].value == piece.text for piece in pieces):
            for piece, changes in changes_by_piece.items():
                changes_by_message[number] += strings[piece.text_index].to_source_changes(changes)
                # Of a value that spans pieces, only the first one has a replacement.
                count += sum(bool(change.replacement) for change in changes)
    return changes_by_message, count


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A change of a streamed field, which may span messages."""

    path: JsonPath
    """Its path in each of the messages."""
    pieces: Sequence[FieldPiece]
    """The pieces of the text that was searched."""
    starts: Sequence[int]
    """The start of each piece in the joined text, and the length of it."""
    change: TextChange
    """The change of the joined text."""

    def piece_changes(self) -> Iterator[tuple[FieldPiece, TextChange]]:
        """The changes of the pieces: the new value goes to the first of them."""
        change, starts, replacement = self.change, self.starts, self.change.replacement
        number = bisect_right(starts, change.begin) - 1
        while number < len(self.pieces) and starts[number] < change.end:
            start, size = starts[number], len(self.pieces[number].text)
            begin, end = max(0, change.begin - start), min(size, change.end - start)
            if begin < end:
                yield (
                    self.pieces[number],
                    replace(change, begin=begin, end=end, replacement=replacement),
                )
                replacement = ""
            number += 1


def find_field_changes(
    texts: Sequence[EditableText | None],
    find_changes: FindChanges,
    counted_texts: Collection[tuple[str, str]] = (),
    select_values: SelectValues | None = None,
    is_unchanged: Callable[[bytes], bool] = lambda _: False,
) -> Iterator[FieldChange]:
    """The changes of all texts of messages, field by field.

    A field with the same value in every message, such as an id, is not joined.  `is_unchanged` is
    called once with all texts, one on each line; if it returns true, none is searched by itself.
    """
    pieces_by_field: dict[FieldKey, list[FieldPiece]] = defaultdict(list)
    for number, editable in enumerate(texts):
        if editable is None:
            continue
        parsed = _parse_document(editable.text, is_last=number == len(texts) - 1)
        if parsed is None:
            pieces_by_field[()].append(FieldPiece(number, _NOT_JSON, editable.text))
            continue
        body = parsed[1]
        kind = body.get("type") if isinstance(body, dict) else ""
        start = (kind if isinstance(kind, str) else "",)
        selected = select_values(body) if select_values is not None else {}
        try:
            keyed_texts = _keyed_texts(body, start, counted_texts)
        except RecursionError:  # nested too deep: searched as text
            pieces_by_field[()].append(FieldPiece(number, _NOT_JSON, editable.text))
            continue
        for place, (key, text) in enumerate(keyed_texts):
            piece = FieldPiece(number, place, text)
            placeholder = _selected_placeholder(key, selected) if selected else None
            if placeholder is not None:
                if text != placeholder:
                    change = TextChange(0, len(text), placeholder)
                    yield FieldChange(_path_of_key(key), (piece,), (0, len(text)), change)
            else:
                pieces_by_field[key].append(piece)
    singles: list[tuple[FieldKey, FieldPiece]] = []
    joined: list[tuple[FieldKey, list[FieldPiece], str]] = []
    searched_texts: dict[str, None] = {}
    for key, pieces in pieces_by_field.items():
        member = _member_of_key(key)
        distinct_texts = dict.fromkeys(piece.text for piece in pieces)
        if len(distinct_texts) == 1 or is_id_member(member):
            singles += [(key, piece) for piece in pieces]
            searched_texts |= distinct_texts
        else:
            text = "".join([piece.text for piece in pieces])
            joined.append((key, pieces, text))
            searched_texts[text] = None
    if is_unchanged("\n".join(searched_texts).encode("utf-8", "surrogatepass")):
        return
    for key, piece in singles:
        for change in find_changes(piece.text, _member_of_key(key), (0,)):
            yield FieldChange(_path_of_key(key), (piece,), (0, len(piece.text)), change)
    for key, pieces, text in joined:
        starts = [0, *accumulate(len(piece.text) for piece in pieces)]
        for change in find_changes(text, _member_of_key(key), starts):
            yield FieldChange(_path_of_key(key), pieces, starts, change)


def _member_of_key(key: FieldKey) -> str:
    return next((step for step in reversed(key) if isinstance(step, str)), "")


def _parse_document(text: str, *, is_last: bool) -> tuple[str, Json] | None:
    """A message's JSON document, completed if the stream was cut within it, and its value."""
    try:
        return text, cast("Json", parse_json_document(text))
    except ValueError:
        if not is_last:
            return None
    try:
        completed, value = parse_truncated_json(text)
    except ValueError:
        return None
    return completed, cast("Json", value)


def _keyed_texts(
    value: object, key: FieldKey, counted_texts: Collection[tuple[str, str]]
) -> list[tuple[FieldKey, str]]:
    """Every text of a message in order, with the key of the field that it is a piece of."""
    texts: list[tuple[FieldKey, str]] = []
    _add_keyed_texts(value, key, texts)
    if not counted_texts:
        return texts
    return [
        (
            tuple(
                step
                for step in key
                if not isinstance(step, tuple) or (step[0], key[-1]) not in counted_texts
            ),
            text,
        )
        for key, text in texts
    ]


@lru_cache(1024)  # messages have the same members again and again
def _stream_id_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if _STREAM_ID_MEMBER.fullmatch(name))


def _add_keyed_texts(value: object, key: FieldKey, texts: list[tuple[FieldKey, str]]) -> None:
    if isinstance(value, str):
        texts.append((key, value))
    elif isinstance(value, dict):
        if id_names := _stream_id_names(tuple(value)):
            ids = ((name, value[name]) for name in id_names)
            key = (*key, *(pair for pair in ids if isinstance(pair[1], int | str)))
        for name, item in value.items():
            if isinstance(item, str):
                texts.append(((*key, name), item))
            elif isinstance(item, dict | list):
                _add_keyed_texts(item, (*key, name), texts)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _add_keyed_texts(item, (*key, number), texts)


def _path_of_key(key: FieldKey) -> JsonPath:
    return tuple(step for step in key[1:] if not isinstance(step, tuple))


def _selected_placeholder(key: FieldKey, selected: Mapping[JsonPath, str]) -> str | None:
    """The replacement of the text with this key: its own, or that of a value that contains it."""
    path = _path_of_key(key)
    placeholders = (selected.get(path[:size]) for size in range(len(path), -1, -1))
    return next((each for each in placeholders if each is not None), None)
