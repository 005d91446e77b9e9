"""Reorders or duplicates neighbouring messages and keeps the framing intact."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_BEFORE_ELEMENT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_BLANK_LINE: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}\Z")
_LINE_END: Final = re.compile(rb"(?:\r\n?|\n)\Z")


def rearrange_messages(codec: str, messages: Sequence[bytes], order: Sequence[int]) -> list[bytes]:
    """Rearrange consecutive messages of a body with this codec.

    `order` lists their indexes, some perhaps several times.  The separators between messages (a
    blank line, a line end, a comma) are kept valid.  Raises `ValueError` if a message cannot be
    moved: the end of an array.
    """
    rearrange = _REARRANGERS.get(codec)
    reordered = [messages[number] for number in order]
    return reordered if rearrange is None else rearrange(messages, reordered)


def _repair_event_ends(_: Sequence[bytes], reordered: list[bytes]) -> list[bytes]:
    """All but the last get a blank line at their end, which the last of a body may lack."""
    return [*map(_terminate_event, reordered[:-1]), *reordered[-1:]]


def _terminate_event(event: bytes) -> bytes:
    if _BLANK_LINE.search(event):
        return event
    return event + (b"\n" if _LINE_END.search(event) else b"\n\n")


def _repair_line_ends(_: Sequence[bytes], reordered: list[bytes]) -> list[bytes]:
    """All but the last get a line end."""
    ended = [data if _LINE_END.search(data) else data + b"\n" for data in reordered[:-1]]
    return [*ended, *reordered[-1:]]


def _repair_element_separators(messages: Sequence[bytes], reordered: list[bytes]) -> list[bytes]:
    """The opening bracket stays in front, and commas stay between elements."""
    elements = [_BEFORE_ELEMENT.sub(b"", data, count=1) for data in reordered]
    if not all(data.endswith((b"}", b"]")) and data != b"]" for data in elements):
        raise ValueError("the end of the array has no other place")
    opening = messages[0].removesuffix(_BEFORE_ELEMENT.sub(b"", messages[0], count=1))
    fronts = [opening, *[b","] * (len(elements) - 1)]
    return [front + element for front, element in zip(fronts, elements, strict=True)]


_REARRANGERS: Final[Mapping[str, Callable[[Sequence[bytes], list[bytes]], list[bytes]]]] = {
    "sse": _repair_event_ends,
    "ndjson": _repair_line_ends,
    "json-array": _repair_element_separators,
}
"""The function that repairs the separators, for codecs whose messages need them."""
