"""In which places two requests differ: values, whole members, and items that one has alone."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final

import orjson

from llm_proxy import matching
from llm_proxy.matching import Difference, Document
from llm_proxy.matching.leaves import step, told
from llm_proxy.turns import Json

_Parts = tuple[str | int, ...]

_ALIGNED: Final = 500
"""Items of a list, beside those that both begin and end with, that are held against each other."""


class _Nothing:
    """Stands where one of the two has no value."""


_NOTHING: Final = _Nothing()


def differences(asked: Document, stored: Document) -> tuple[Difference, ...]:
    """Where two documents differ, in the order of the request; none where their keys are equal.

    A member or an item that only one of them has is one difference, however much it holds.  Items
    of lists are aligned, so that one that came in between is told as that.
    """
    flat = matching.differences(matching.leaves(asked), matching.leaves(stored))
    if asked.kind != "json" or stored.kind != "json":
        return tuple(flat)
    beside = [it for it in flat if not it.path.startswith("$")]
    return (*beside, *_between((), asked.body, stored.body))


def spelled(parts: _Parts) -> str:
    """Steps as a path: `$.messages[1].content`."""
    return "$" + "".join(f"[{it}]" if isinstance(it, int) else step(it) for it in parts)


def _between(
    parts: _Parts, asked: Json | _Nothing, stored: Json | _Nothing
) -> Iterator[Difference]:
    match asked, stored:
        case dict(), dict():
            for name in dict.fromkeys([*asked, *stored]):
                pair = asked.get(name, _NOTHING), stored.get(name, _NOTHING)
                yield from _between((*parts, name), *pair)
        case list(), list():
            yield from _items(parts, asked, stored)
        case _ if _key(asked) != _key(stored):
            yield Difference(spelled(parts), _said(asked), _said(stored), parts)


def _items(parts: _Parts, asked: list[Json], stored: list[Json]) -> Iterator[Difference]:
    ours, theirs = list(map(_key, asked)), list(map(_key, stored))
    for begin, end, start, stop in _changed(ours, theirs):
        for one, other in zip_longest(range(begin, end), range(start, stop)):
            place = one if one is not None else other
            assert place is not None  # noqa: S101 # the longer of the two has one
            yield from _between(
                (*parts, place),
                _NOTHING if one is None else asked[one],
                _NOTHING if other is None else stored[other],
            )


def _changed(ours: list[bytes], theirs: list[bytes]) -> Iterator[tuple[int, int, int, int]]:
    """The stretches that differ: from, to in one list, and from, to in the other."""
    first = 0
    while first < min(len(ours), len(theirs)) and ours[first] == theirs[first]:
        first += 1
    last = 0
    most = min(len(ours), len(theirs)) - first
    while last < most and ours[-1 - last] == theirs[-1 - last]:
        last += 1
    mine, other = ours[first : len(ours) - last], theirs[first : len(theirs) - last]
    if max(len(mine), len(other)) > _ALIGNED:
        yield first, len(ours) - last, first, len(theirs) - last
        return
    matcher = SequenceMatcher(None, mine, other, autojunk=False)
    for tag, *ends in matcher.get_opcodes():
        if tag != "equal":
            begin, end, start, stop = (first + it for it in ends)
            yield begin, end, start, stop


def _key(value: Json | _Nothing) -> bytes:
    """The same for what is the same."""
    return b"" if isinstance(value, _Nothing) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _said(value: Json | _Nothing) -> str:
    return "" if isinstance(value, _Nothing) else told(value)
