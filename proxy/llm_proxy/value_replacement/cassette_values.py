"""Replaces values in a recording."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import sha256
from llm_proxy.exchange import Read
from llm_proxy.framing import frame_edits
from llm_proxy.framing.frame_edits import Edit
from llm_proxy.value_replacement import json_text, streamed_fields
from llm_proxy.value_replacement.editable_text import EditableText, editable_text
from llm_proxy.value_replacement.streamed_fields import FieldPiece, Key
from llm_proxy.value_replacement.text_change import TextChange
from llm_proxy.value_replacement.values import ValueReplacements


def rename_values(cassette: Cassette, values: ValueReplacements) -> tuple[Cassette, int]:
    """The recording with the new values, and how many it took.  The same one if it took none."""
    if not values:
        return cassette, 0
    texts = [editable_text(cassette.codec, message) for message in cassette.messages]
    changes, count = _changes_by_message(texts, values)
    edits = list(_body_edits(cassette.messages, texts, changes))
    if not edits:
        return cassette, 0
    body = cassette.body
    new = frame_edits.apply_edits(body, edits)
    reads = _split_to_sizes(new, [len(read.data) for read in cassette.reads], edits)
    length = cassette.head.length
    made = replace(
        cassette,
        head=replace(cassette.head, length=length and length + len(new) - len(body)),
        messages=tuple(_split_to_sizes(new, list(map(len, cassette.messages)), edits)),
        reads=tuple(Read(it.at_ms, data) for it, data in zip(cassette.reads, reads, strict=True)),
        end=replace(cassette.end, size=len(new), sha256=sha256(new)),
    )
    return made, count


def _split_to_sizes(body: bytes, sizes: Sequence[int], edits: Sequence[Edit]) -> list[bytes]:
    ends = list(frame_edits.moved_positions(accumulate(sizes), edits))
    return [body[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _body_edits(
    messages: Sequence[bytes],
    texts: Sequence[EditableText | None],
    changes: Mapping[int, list[TextChange]],
) -> Iterator[Edit]:
    at = 0
    for number, (message, text) in enumerate(zip(messages, texts, strict=True)):
        if text is not None and (found := changes.get(number)):
            for to_byte_edit in text.to_byte_edits(
                sorted(found, key=lambda to_byte_edit: to_byte_edit.begin)
            ):
                yield Edit(at + to_byte_edit.begin, at + to_byte_edit.end, to_byte_edit.new)
        at += len(message)


def _changes_by_message(
    texts: Sequence[EditableText | None], values: ValueReplacements
) -> tuple[dict[int, list[TextChange]], int]:
    """What changes in each message's text, by its number; how many values were found."""
    found: dict[int, list[TextChange]] = defaultdict(list)
    pieces: dict[Key, list[FieldPiece]] = defaultdict(list)
    count = 0
    for number, it in enumerate(texts):
        if it is None:
            continue
        text = it.text
        try:
            body = json_text.parse_document(text)
        except ValueError:
            plain = [
                find_change
                for find_change in values.find_changes(text)
                if _stays_in_line(text, find_change)
            ]
            found[number] += plain
            count += len(plain)
            continue
        for place, (key, leaf) in enumerate(streamed_fields.field_pieces(body)):
            pieces[key].append(FieldPiece(number, place, leaf))
    within: dict[int, dict[FieldPiece, list[TextChange]]] = defaultdict(lambda: defaultdict(list))
    for key, items in pieces.items():
        for piece, change in streamed_fields.piece_changes(key, items, values):
            within[piece.message][piece].append(change)
    for number, by_piece in within.items():
        raw = _source_changes(texts[number], by_piece)
        found[number] += raw
        count += sum(bool(text_change.new) for text_change in raw)  # where each begins
    return found, count


def _source_changes(
    text: EditableText | None, by_piece: Mapping[FieldPiece, list[TextChange]]
) -> list[TextChange]:
    """Changes of a document's texts as changes of the document.

    None at all where its texts are not those that were read: of two members of one name only the
    last is.
    """
    if text is None:
        return []
    tokens = [
        json_string
        for json_string in json_text.json_strings(text.text)
        if not json_string.is_member_name
    ]
    if any(tokens[field_piece.text_number].value != field_piece.text for field_piece in by_piece):
        return []
    return [
        change
        for piece in sorted(by_piece, key=lambda field_piece: field_piece.text_number)
        for change in tokens[piece.text_number].source_changes(by_piece[piece])
    ]


def _stays_in_line(text: str, change: TextChange) -> bool:
    """Whether neither what goes nor what comes ends a line, which may be the framing's."""
    return not any(
        end in content
        for content in (text[change.begin : change.end], change.new)
        for end in "\r\n"
    )
