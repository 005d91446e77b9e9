"""Joins the pieces of a streamed field, so that values that span messages are found."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from llm_proxy.matching import value_finder as standing
from llm_proxy.value_replacement.text_change import TextChange
from llm_proxy.value_replacement.values import ValueReplacements

_STREAM_ID_MEMBER: Final = re.compile(r"(?:.*_)?index|.*Index|item_id")
"""Members that identify which of several interleaved fields a message continues."""
_CONTENT_BLOCK_INDEX: Final = "contentBlockIndex"
"""The index of consecutive blocks; ignored for text, as Nova counts each piece as a block."""

FieldKey = tuple[str | int | tuple[str, int | str], ...]
"""Identifies a streamed field: its path, and the (member, value) pairs of ids on the way."""


@dataclass(frozen=True, slots=True)
class FieldPiece:
    """The piece of a streamed field in one message."""

    message_index: int
    """The index of the message, from 0."""
    text_index: int
    """The index of the text within the message, from 0."""
    text: str


def keyed_field_texts(body: object) -> Iterator[tuple[FieldKey, str]]:
    """Every text of a message in order, with the key of the field that it is a piece of."""
    kind = body.get("type") if isinstance(body, dict) else ""
    yield from _walk_keyed_texts(body, (kind if isinstance(kind, str) else "",))


def _walk_keyed_texts(value: object, key: FieldKey) -> Iterator[tuple[FieldKey, str]]:
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
                yield from _walk_keyed_texts(item, (*key, *stream_ids, name))
        case list():
            for number, item in enumerate(value):
                yield from _walk_keyed_texts(item, (*key, number))
        case _:
            pass


def piece_changes(
    key: FieldKey, pieces: Sequence[FieldPiece], replacements: ValueReplacements
) -> list[tuple[FieldPiece, TextChange]]:
    """The changes of a field's pieces, including those of values that span pieces.

    The new value goes to the piece in which the recorded one begins.  A field with the same value
    in every message, such as an id, is not joined.
    """
    member = next((text for text in reversed(key) if isinstance(text, str)), "")
    if (
        len(pieces) == 1
        or standing.is_id_member(member)
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
