"""Compares two key documents: values, members, and list items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice, zip_longest
from typing import Final

import orjson

from llm_proxy.diff import json_leaves
from llm_proxy.diff.json_leaves import RequestDifference, json_value_text, path_step
from llm_proxy.matching import KeyDocument
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
class _AlignmentBudget:
    """What aligning may still cost."""

    steps: int = _STEPS

    def spend_alignment(self, ours: list[bytes], theirs: list[bytes]) -> bool:
        """Whether these are aligned, which is paid for then."""
        shorter, longer = sorted((len(ours), len(theirs)))
        if longer > _ALIGNED:
            return False
        counts = Counter(theirs)
        # Each stretch that is found may be looked for among all pairs of equal items.
        cost = _LIST + shorter * sum(counts[our] for our in ours)
        if cost > self.steps:
            return False
        self.steps -= cost
        return True


@dataclass(frozen=True, slots=True)
class DocumentDifferences:
    """Where two documents differ."""

    differences: tuple[RequestDifference, ...]
    """In the order of the request, the first 10,000."""
    further_count: int = 0
    """How many there are beside those."""


class _Absent:
    """Stands where one of the two has no value."""


_NOTHING: Final = _Absent()


def find_differences(key_document: KeyDocument, stored: KeyDocument) -> DocumentDifferences:
    """Where two documents differ; nowhere where their keys are equal.

    Of fields that are called like a secret the places are told, and no values.
    A member or an item that only one of them has is one difference, however much it holds.  Items
    of lists are aligned, so that one that came in between is told as that; where that would take
    long, in very long or very many lists, items are held against those at their own places.
    """
    item = _iterate_differences(key_document, stored)
    told_of = tuple(islice(item, _MOST))
    return DocumentDifferences(told_of, sum(1 for _ in item))


def list_differences(
    key_document: KeyDocument, stored: KeyDocument
) -> tuple[RequestDifference, ...]:
    """The first 10,000 places in which two documents differ."""
    return find_differences(key_document, stored).differences


def _iterate_differences(
    key_document: KeyDocument, stored: KeyDocument
) -> Iterator[RequestDifference]:
    flat = json_leaves.compare_documents(
        json_leaves.json_leaves(key_document), json_leaves.json_leaves(stored)
    )
    if key_document.kind != "json" or stored.kind != "json":
        ours, theirs = displayable_leaves(key_document), displayable_leaves(stored)
        yield from (
            replace(
                request_difference,
                requested=_displayable_value(
                    request_difference.path, request_difference.requested, ours
                ),
                stored=_displayable_value(
                    request_difference.path, request_difference.stored, theirs
                ),
            )
            for request_difference in flat
        )
        return
    yield from (
        request_difference
        for request_difference in flat
        if not request_difference.path.startswith("$")
    )
    yield from _compare_values((), key_document.body, stored.body, _AlignmentBudget())


def displayable_leaves(document: KeyDocument) -> dict[str, str]:
    """Every value of a document under its path, but those of fields called like a secret."""
    return json_leaves.json_leaves(replace(document, body=_mask_secrets(document.body)))


def _displayable_value(path: str, value: str, leaves: Mapping[str, str]) -> str:
    """A value as it may be shown, which is none where it is none."""
    return leaves.get(path, _SECRET) if value else ""


def path_text(parts: _Parts) -> str:
    """Steps as a path: `$.messages[1].content`."""
    return "$" + "".join(
        f"[{part}]" if isinstance(part, int) else path_step(part) for part in parts
    )


def _compare_values(
    parts: _Parts, value: Json | _Absent, stored: Json | _Absent, budget: _AlignmentBudget
) -> Iterator[RequestDifference]:
    match value, stored:
        case dict(), dict():
            for name in dict.fromkeys([*value, *stored]):
                pair = value.get(name, _NOTHING), stored.get(name, _NOTHING)
                if _is_secret_value_member(name, value) or _is_secret_value_member(name, stored):
                    yield from _hidden_difference((*parts, name), *pair)
                else:
                    yield from _compare_values((*parts, name), *pair, budget)
        case list(), list():
            yield from _compare_items(parts, value, stored, budget)
        case _ if _comparison_key(value) != _comparison_key(stored):
            if any(isinstance(part, str) and is_secret_field(part) for part in parts):
                yield from _hidden_difference(parts, value, stored)
            else:
                yield RequestDifference(path_text(parts), _json_of(value), _json_of(stored), parts)


def _hidden_difference(
    parts: _Parts, value: Json | _Absent, stored: Json | _Absent
) -> Iterator[RequestDifference]:
    if _comparison_key(value) != _comparison_key(stored):
        ours, theirs = ("" if isinstance(value, _Absent) else _SECRET for value in (value, stored))
        yield RequestDifference(path_text(parts), ours, theirs, parts)


def _is_secret_value_member(name: str, holder: Mapping[str, Json]) -> bool:
    """Whether a member is the `value` of what is called like a secret beside it."""
    called = holder.get("name", holder.get("key"))
    return name == "value" and isinstance(called, str) and is_secret_field(called)


def _mask_secrets(value: Json, depth: int = _DEEPEST) -> Json:
    """A value as it may be shown; a text that is JSON is looked into."""
    match value:
        case dict() | list() if depth == 0:
            return PLACEHOLDER
        case dict():
            return {
                name: PLACEHOLDER
                if is_secret_field(name) or _is_secret_value_member(name, value)
                else _mask_secrets(argument, depth - 1)
                for name, argument in value.items()
            }
        case list():
            return [_mask_secrets(content, depth - 1) for content in value]
        case str() if value[:1] in ("{", "[") and (inner := _parsed(value)) is not None:
            clean = _mask_secrets(inner, depth - 1)
            return value if clean == inner else orjson.dumps(clean).decode()
        case _:
            return value


def _parsed(text: str) -> Json:
    try:
        parsed: Json = orjson.loads(text)
    except ValueError:
        return None
    return parsed


def _compare_items(
    parts: _Parts, items: list[Json], stored: list[Json], budget: _AlignmentBudget
) -> Iterator[RequestDifference]:
    ours, theirs = list(map(_comparison_key, items)), list(map(_comparison_key, stored))
    for begin, end, start, stop in _changed_stretches(ours, theirs, budget):
        for one, other in zip_longest(range(begin, end), range(start, stop)):
            place = one if one is not None else other
            assert place is not None  # noqa: S101 # the longer of the two has one
            yield from _compare_values(
                (*parts, place),
                _NOTHING if one is None else items[one],
                _NOTHING if other is None else stored[other],
                budget,
            )


def _changed_stretches(
    ours: list[bytes], theirs: list[bytes], budget: _AlignmentBudget
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
    if not budget.spend_alignment(mine, other):
        yield first, len(ours) - last, first, len(theirs) - last
        return
    matcher = SequenceMatcher(None, mine, other, autojunk=False)
    for tag, *ends in matcher.get_opcodes():
        if tag != "equal":
            begin, end, start, stop = (first + number for number in ends)
            yield begin, end, start, stop


def _comparison_key(value: Json | _Absent) -> bytes:
    return b"" if isinstance(value, _Absent) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _json_of(value: Json | _Absent) -> str:
    return "" if isinstance(value, _Absent) else json_value_text(_mask_secrets(value))
