"""Neighbours of a stream, in another order or number, in a framing that is still right."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_BEFORE_ELEMENT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_BLANK_LINE: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}\Z")
_LINE_END: Final = re.compile(rb"(?:\r\n?|\n)\Z")


def rearranged(codec: str, messages: Sequence[bytes], order: Sequence[int]) -> list[bytes]:
    """These messages, which follow each other in a body of this codec, in that order.

    `order` names them by their numbers from 0, some of them perhaps several times.  What parts a
    message from the next one (a blank line, a line end, a comma) stands where it belongs.  Raises
    `ValueError` where one of them has no place but its own: the end of an array.
    """
    arranged = _ARRANGED.get(codec)
    moved = [messages[it] for it in order]
    return moved if arranged is None else arranged(messages, moved)


def _events(_: Sequence[bytes], moved: list[bytes]) -> list[bytes]:
    """Each but the last with a blank line behind it, which the last one of a body may lack."""
    return [*map(_ended_event, moved[:-1]), *moved[-1:]]


def _ended_event(event: bytes) -> bytes:
    if _BLANK_LINE.search(event):
        return event
    return event + (b"\n" if _LINE_END.search(event) else b"\n\n")


def _lines(_: Sequence[bytes], moved: list[bytes]) -> list[bytes]:
    """Each but the last with a line end behind it."""
    ended = [it if _LINE_END.search(it) else it + b"\n" for it in moved[:-1]]
    return [*ended, *moved[-1:]]


def _elements(messages: Sequence[bytes], moved: list[bytes]) -> list[bytes]:
    """The bracket that opens the array stays in front, and commas stand between elements."""
    bare = [_BEFORE_ELEMENT.sub(b"", it, count=1) for it in moved]
    if not all(it.endswith((b"}", b"]")) and it != b"]" for it in bare):
        raise ValueError("the end of the array has no other place")
    opening = messages[0].removesuffix(_BEFORE_ELEMENT.sub(b"", messages[0], count=1))
    fronts = [opening, *[b","] * (len(bare) - 1)]
    return [front + element for front, element in zip(fronts, bare, strict=True)]


_ARRANGED: Final[Mapping[str, Callable[[Sequence[bytes], list[bytes]], list[bytes]]]] = {
    "sse": _events,
    "ndjson": _lines,
    "json-array": _elements,
}
"""How the messages of a codec are parted, where they are not by themselves."""
