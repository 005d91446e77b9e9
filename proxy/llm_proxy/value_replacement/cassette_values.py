"""Replaces recorded values in the response of a cassette."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import msgspec

from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import sha256_hex
from llm_proxy.exchange import Read
from llm_proxy.framing import frame_edits
from llm_proxy.framing.frame_edits import ByteEdit
from llm_proxy.value_replacement import json_text, streamed_fields
from llm_proxy.value_replacement.editable_text import EditableText, editable_text
from llm_proxy.value_replacement.streamed_fields import FieldKey, FieldPiece
from llm_proxy.value_replacement.text_change import TextChange
from llm_proxy.value_replacement.values import ValueReplacements


def replace_recorded_values(
    cassette: Cassette, replacements: ValueReplacements
) -> tuple[Cassette, int]:
    """The cassette with its values replaced, and their number; the same object if 0."""
    if not replacements:
        return cassette, 0
    texts = [editable_text(cassette.codec_name, message) for message in cassette.framed_messages]
    changes, count = _changes_by_message(texts, replacements)
    edits = list(_body_edits(cassette.framed_messages, texts, changes))
    if not edits:
        return cassette, 0
    body = cassette.response_body
    new_body = frame_edits.apply_edits(body, edits)
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
    ends = list(frame_edits.moved_positions(accumulate(sizes), edits))
    return [body[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _body_edits(
    messages: Sequence[bytes],
    texts: Sequence[EditableText | None],
    changes: Mapping[int, list[TextChange]],
) -> Iterator[ByteEdit]:
    offset = 0
    for number, (message, text) in enumerate(zip(messages, texts, strict=True)):
        if text is not None and (message_changes := changes.get(number)):
            for edit in text.to_byte_edits(sorted(message_changes, key=lambda edit: edit.begin)):
                yield ByteEdit(offset + edit.begin, offset + edit.end, edit.replacement)
        offset += len(message)


def _changes_by_message(
    texts: Sequence[EditableText | None], replacements: ValueReplacements
) -> tuple[dict[int, list[TextChange]], int]:
    """The changes of each message's text, by the message's index; and the number of values."""
    changes_by_message: dict[int, list[TextChange]] = defaultdict(list)
    pieces: dict[FieldKey, list[FieldPiece]] = defaultdict(list)
    count = 0
    for number, editable in enumerate(texts):
        if editable is None:
            continue
        text = editable.text
        try:
            body = json_text.parse_json_document(text)
        except ValueError:
            plain = [
                change
                for change in replacements.find_changes(text)
                if _has_no_line_end(text, change)
            ]
            changes_by_message[number] += plain
            count += len(plain)
            continue
        for place, (key, piece_text) in enumerate(streamed_fields.keyed_field_texts(body)):
            pieces[key].append(FieldPiece(number, place, piece_text))
    within: dict[int, dict[FieldPiece, list[TextChange]]] = defaultdict(lambda: defaultdict(list))
    for key, items in pieces.items():
        for piece, change in streamed_fields.piece_changes(key, items, replacements):
            within[piece.message_index][piece].append(change)
    for number, by_piece in within.items():
        source_changes = _source_changes(texts[number], by_piece)
        changes_by_message[number] += source_changes
        count += sum(
            bool(text_change.replacement) for text_change in source_changes
        )  # a value's first piece only
    return changes_by_message, count


def _source_changes(
    text: EditableText | None, changes_by_piece: Mapping[FieldPiece, list[TextChange]]
) -> list[TextChange]:
    """Translate changes of a document's strings to changes of its text.

    Empty if its strings are not those that were parsed: a parser keeps only the last of two members
    with the same name.
    """
    if text is None:
        return []
    tokens = [
        json_string
        for json_string in json_text.json_strings(text.text)
        if not json_string.is_member_name
    ]
    if any(
        tokens[field_piece.text_index].value != field_piece.text for field_piece in changes_by_piece
    ):
        return []
    return [
        change
        for piece in sorted(changes_by_piece, key=lambda field_piece: field_piece.text_index)
        for change in tokens[piece.text_index].to_source_changes(changes_by_piece[piece])
    ]


def _has_no_line_end(text: str, change: TextChange) -> bool:
    """Whether neither the old nor the new text has a line end, which may belong to the framing."""
    return not any(
        end in content
        for content in (text[change.begin : change.end], change.replacement)
        for end in "\r\n"
    )
