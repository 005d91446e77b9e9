"""In which places two requests differ: values, whole members, and items that one has alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice, zip_longest
from typing import Final

import orjson

from llm_proxy.diff import json_leaves
from llm_proxy.diff.json_leaves import Difference, step, told
from llm_proxy.matching import Document
from llm_proxy.redaction import PLACEHOLDER
from llm_proxy.secret_names import is_secret_field
from llm_proxy.turns import Json

_Parts = tuple[str | int, ...]

_SECRET: Final = f'"{PLACEHOLDER}"'
"""What is shown of a field that is called like a secret, as JSON."""
_DEEPEST: Final = 100
"""Levels of a value that are shown."""
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

    Of fields that are called like a secret the places are told, and no values.
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
    flat = json_leaves.differences(json_leaves.leaves(asked), json_leaves.leaves(stored))
    if asked.kind != "json" or stored.kind != "json":
        ours, theirs = shown_leaves(asked), shown_leaves(stored)
        yield from (
            replace(
                it, asked=_shown(it.path, it.asked, ours), stored=_shown(it.path, it.stored, theirs)
            )
            for it in flat
        )
        return
    yield from (it for it in flat if not it.path.startswith("$"))
    yield from _between((), asked.body, stored.body, _Budget())


def shown_leaves(document: Document) -> dict[str, str]:
    """Every value of a document under its path, but those of fields called like a secret."""
    return json_leaves.leaves(replace(document, body=_without_secrets(document.body)))


def _shown(path: str, value: str, leaves: Mapping[str, str]) -> str:
    """A value as it may be shown, which is none where it is none."""
    return leaves.get(path, _SECRET) if value else ""


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
                if _is_named_secret(name, asked) or _is_named_secret(name, stored):
                    yield from _hidden((*parts, name), *pair)
                else:
                    yield from _between((*parts, name), *pair, budget)
        case list(), list():
            yield from _items(parts, asked, stored, budget)
        case _ if _key(asked) != _key(stored):
            if any(isinstance(it, str) and is_secret_field(it) for it in parts):
                yield from _hidden(parts, asked, stored)
            else:
                yield Difference(spelled(parts), _said(asked), _said(stored), parts)


def _hidden(parts: _Parts, asked: Json | _Nothing, stored: Json | _Nothing) -> Iterator[Difference]:
    """The same place, without what it holds."""
    if _key(asked) != _key(stored):
        ours, theirs = ("" if isinstance(it, _Nothing) else _SECRET for it in (asked, stored))
        yield Difference(spelled(parts), ours, theirs, parts)


def _is_named_secret(name: str, holder: Mapping[str, Json]) -> bool:
    """Whether a member is the `value` of what is called like a secret beside it."""
    called = holder.get("name", holder.get("key"))
    return name == "value" and isinstance(called, str) and is_secret_field(called)


def _without_secrets(value: Json, depth: int = _DEEPEST) -> Json:
    """A value as it may be shown; a text that is JSON is looked into."""
    match value:
        case dict() | list() if depth == 0:
            return PLACEHOLDER
        case dict():
            return {
                name: PLACEHOLDER
                if is_secret_field(name) or _is_named_secret(name, value)
                else _without_secrets(it, depth - 1)
                for name, it in value.items()
            }
        case list():
            return [_without_secrets(it, depth - 1) for it in value]
        case str() if value[:1] in ("{", "[") and (inner := _parsed(value)) is not None:
            clean = _without_secrets(inner, depth - 1)
            return value if clean == inner else orjson.dumps(clean).decode()
        case _:
            return value


def _parsed(text: str) -> Json:
    try:
        parsed: Json = orjson.loads(text)
    except ValueError:
        return None
    return parsed


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
    return "" if isinstance(value, _Nothing) else told(_without_secrets(value))
