"""Joins the pieces of a streamed field, so that values across messages are found."""

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

_WHOSE: Final = re.compile(r"(?:.*_)?index|.*Index|item_id")
"""Members that say what the message goes on with: of several that take turns."""
_BLOCK: Final = "contentBlockIndex"
"""Of blocks that follow each other; Nova counts every piece of a text as one."""

Key = tuple[str | int | tuple[str, int | str], ...]
"""What tells a field: its path, and what it is of."""


@dataclass(frozen=True, slots=True)
class FieldPiece:
    """What one message says in a field."""

    message: int
    text_number: int
    """Which of the message's texts it is, from 0."""
    text: str


def field_pieces(body: object) -> Iterator[tuple[Key, str]]:
    """Every text of a message in its order, with the field that it is a piece of."""
    kind = body.get("type") if isinstance(body, dict) else ""
    yield from _collect_pieces(body, (kind if isinstance(kind, str) else "",))


def _collect_pieces(value: object, key: Key) -> Iterator[tuple[Key, str]]:
    match value:
        case str() if key[-1] == "text":
            yield (
                tuple(text for text in key if not (isinstance(text, tuple) and text[0] == _BLOCK)),
                value,
            )
        case str():
            yield key, value
        case dict():
            whose = [
                (name, item)
                for name, item in value.items()
                if isinstance(item, int | str) and _WHOSE.fullmatch(name)
            ]
            for name, item in value.items():
                yield from _collect_pieces(item, (*key, *whose, name))
        case list():
            for number, item in enumerate(value):
                yield from _collect_pieces(item, (*key, number))
        case _:
            pass


def piece_changes(
    key: Key, pieces: Sequence[FieldPiece], values: ValueReplacements
) -> list[tuple[FieldPiece, TextChange]]:
    """What changes in the pieces of a field, also where a value goes on in the next one.

    The new value stands where the recorded one begins.  A field that says the same again and again,
    as ids do, is no text in pieces.
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
            for change in values.find_changes(piece.text, member)
        ]
    starts = [0, *accumulate(len(piece.text) for piece in pieces)]
    found: list[tuple[FieldPiece, TextChange]] = []
    for change in values.find_changes("".join(piece.text for piece in pieces), member):
        number, new = bisect_right(starts, change.begin) - 1, change.new
        while number < len(pieces) and starts[number] < change.end:
            start, size = starts[number], len(pieces[number].text)
            begin, end = max(0, change.begin - start), min(size, change.end - start)
            if begin < end:
                found.append((pieces[number], TextChange(begin, end, new)))
                new = ""
            number += 1
    return found
