"""Reorders or duplicates neighbouring messages and keeps the framing intact."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_BEFORE_ELEMENT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_BLANK_LINE: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}\Z")
_LINE_END: Final = re.compile(rb"(?:\r\n?|\n)\Z")


def rearrange_messages(codec: str, messages: Sequence[bytes], order: Sequence[int]) -> list[bytes]:
    """These messages, which follow each other in a body of this codec, in that order.

    `order` names them by their numbers from 0, some of them perhaps several times.  What parts a
    message from the next one (a blank line, a line end, a comma) stands where it belongs.  Raises
    `ValueError` where one of them has no place but its own: the end of an array.
    """
    arranged = _ARRANGED.get(codec)
    reordered = [messages[number] for number in order]
    return reordered if arranged is None else arranged(messages, reordered)


def _rearrange_events(_: Sequence[bytes], reordered: list[bytes]) -> list[bytes]:
    """Each but the last with a blank line behind it, which the last one of a body may lack."""
    return [*map(_terminate_event, reordered[:-1]), *reordered[-1:]]


def _terminate_event(event: bytes) -> bytes:
    if _BLANK_LINE.search(event):
        return event
    return event + (b"\n" if _LINE_END.search(event) else b"\n\n")


def _rearrange_lines(_: Sequence[bytes], reordered: list[bytes]) -> list[bytes]:
    """Each but the last with a line end behind it."""
    ended = [data if _LINE_END.search(data) else data + b"\n" for data in reordered[:-1]]
    return [*ended, *reordered[-1:]]


def _rearrange_elements(messages: Sequence[bytes], reordered: list[bytes]) -> list[bytes]:
    """The bracket that opens the array stays in front, and commas stand between elements."""
    bare = [_BEFORE_ELEMENT.sub(b"", data, count=1) for data in reordered]
    if not all(data.endswith((b"}", b"]")) and data != b"]" for data in bare):
        raise ValueError("the end of the array has no other place")
    opening = messages[0].removesuffix(_BEFORE_ELEMENT.sub(b"", messages[0], count=1))
    fronts = [opening, *[b","] * (len(bare) - 1)]
    return [front + element for front, element in zip(fronts, bare, strict=True)]


_ARRANGED: Final[Mapping[str, Callable[[Sequence[bytes], list[bytes]], list[bytes]]]] = {
    "sse": _rearrange_events,
    "ndjson": _rearrange_lines,
    "json-array": _rearrange_elements,
}
"""How the messages of a codec are parted, where they are not by themselves."""
