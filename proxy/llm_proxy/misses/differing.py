"""In which places two requests differ: values, whole members, and items that one has alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice, zip_longest
from typing import Final

import orjson

from llm_proxy import matching
from llm_proxy.matching import Difference, Document
from llm_proxy.matching.leaves import step, told
from llm_proxy.turns import Json

_Parts = tuple[str | int, ...]

_ALIGNED: Final = 500
"""Items of a list, beside those that both begin and end with, that are held against each other."""
_STEPS: Final = 5_000_000
"""Steps that may go into aligning the lists of a whole document: a fraction of a second."""
_LIST: Final = 200
"""Steps that a list takes in any case."""
_MOST: Final = 10_000
"""Differences that are told of."""


@dataclass(slots=True)
class _Budget:
    """What aligning may still cost."""

    steps: int = _STEPS

    def allows(self, ours: list[bytes], theirs: list[bytes]) -> bool:
        """Whether these are aligned, which is paid for then."""
        shorter, longer = sorted((len(ours), len(theirs)))
        if longer > _ALIGNED:
            return False
        counts = Counter(theirs)
        # Each stretch that is found may be looked for among all pairs of equal items.
        cost = _LIST + shorter * sum(counts[it] for it in ours)
        if cost > self.steps:
            return False
        self.steps -= cost
        return True


@dataclass(frozen=True, slots=True)
class Found:
    """Where two documents differ."""

    told: tuple[Difference, ...]
    """In the order of the request, the first 10,000."""
    more: int = 0
    """How many there are beside those."""


class _Nothing:
    """Stands where one of the two has no value."""


_NOTHING: Final = _Nothing()


def found(asked: Document, stored: Document) -> Found:
    """Where two documents differ; nowhere where their keys are equal.

    A member or an item that only one of them has is one difference, however much it holds.  Items
    of lists are aligned, so that one that came in between is told as that; where that would take
    long, in very long or very many lists, items are held against those at their own places.
    """
    each = _each(asked, stored)
    told_of = tuple(islice(each, _MOST))
    return Found(told_of, sum(1 for _ in each))


def differences(asked: Document, stored: Document) -> tuple[Difference, ...]:
    """The first 10,000 places in which two documents differ."""
    return found(asked, stored).told


def _each(asked: Document, stored: Document) -> Iterator[Difference]:
    flat = matching.differences(matching.leaves(asked), matching.leaves(stored))
    if asked.kind != "json" or stored.kind != "json":
        yield from flat
        return
    yield from (it for it in flat if not it.path.startswith("$"))
    yield from _between((), asked.body, stored.body, _Budget())


def spelled(parts: _Parts) -> str:
    """Steps as a path: `$.messages[1].content`."""
    return "$" + "".join(f"[{it}]" if isinstance(it, int) else step(it) for it in parts)


def _between(
    parts: _Parts, asked: Json | _Nothing, stored: Json | _Nothing, budget: _Budget
) -> Iterator[Difference]:
    match asked, stored:
        case dict(), dict():
            for name in dict.fromkeys([*asked, *stored]):
                pair = asked.get(name, _NOTHING), stored.get(name, _NOTHING)
                yield from _between((*parts, name), *pair, budget)
        case list(), list():
            yield from _items(parts, asked, stored, budget)
        case _ if _key(asked) != _key(stored):
            yield Difference(spelled(parts), _said(asked), _said(stored), parts)


def _items(
    parts: _Parts, asked: list[Json], stored: list[Json], budget: _Budget
) -> Iterator[Difference]:
    ours, theirs = list(map(_key, asked)), list(map(_key, stored))
    for begin, end, start, stop in _changed(ours, theirs, budget):
        for one, other in zip_longest(range(begin, end), range(start, stop)):
            place = one if one is not None else other
            assert place is not None  # noqa: S101 # the longer of the two has one
            yield from _between(
                (*parts, place),
                _NOTHING if one is None else asked[one],
                _NOTHING if other is None else stored[other],
                budget,
            )


def _changed(
    ours: list[bytes], theirs: list[bytes], budget: _Budget
) -> Iterator[tuple[int, int, int, int]]:
    """The stretches that differ: from, to in one list, and from, to in the other."""
    first = 0
    while first < min(len(ours), len(theirs)) and ours[first] == theirs[first]:
        first += 1
    last = 0
    most = min(len(ours), len(theirs)) - first
    while last < most and ours[-1 - last] == theirs[-1 - last]:
        last += 1
    mine, other = ours[first : len(ours) - last], theirs[first : len(theirs) - last]
    if not budget.allows(mine, other):
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
