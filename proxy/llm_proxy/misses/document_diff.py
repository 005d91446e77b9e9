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
from llm_proxy.diff.json_leaves import RequestDifference, json_path_step, json_value_text
from llm_proxy.matching import KeyDocument
from llm_proxy.redaction import PLACEHOLDER
from llm_proxy.secret_names import is_secret_field
from llm_proxy.turns import Json

_PathParts = tuple[str | int, ...]

_MASKED_JSON: Final = f'"{PLACEHOLDER}"'
"""JSON shown instead of the value of a field with a secret's name."""
_MAX_DEPTH: Final = 100
"""Levels of nesting that are shown; deeper values are masked."""
_MAX_ALIGNED_ITEMS: Final = 500
"""Lists with more items between common prefix and suffix are compared index by index."""
_ALIGNMENT_STEPS: Final = 5_000_000
"""Step budget for aligning all the lists of a document: a fraction of a second."""
_MIN_STEPS_PER_LIST: Final = 200
"""Minimum cost of aligning a list, in steps."""
_MAX_DIFFERENCES: Final = 10_000
"""Maximum number of reported differences; further ones are only counted."""


@dataclass(slots=True)
class _AlignmentBudget:
    """The steps left for aligning lists."""

    steps_left: int = _ALIGNMENT_STEPS

    def try_spend(self, requested: list[bytes], stored: list[bytes]) -> bool:
        """Deducts the cost of aligning two lists; False, deducting nothing, if it is too high."""
        shorter, longer = sorted((len(requested), len(stored)))
        if longer > _MAX_ALIGNED_ITEMS:
            return False
        counts = Counter(stored)
        # The search for each matching block may visit all pairs of equal items.
        cost = _MIN_STEPS_PER_LIST + shorter * sum(counts[item] for item in requested)
        if cost > self.steps_left:
            return False
        self.steps_left -= cost
        return True


@dataclass(frozen=True, slots=True)
class DocumentDifferences:
    """Where two documents differ."""

    differences: tuple[RequestDifference, ...]
    """The first 10,000, in the order of the request."""
    further_count: int = 0
    """Number of differences beyond those."""


class _Absent:
    """Marks a value that only the other document has."""


_ABSENT: Final = _Absent()


def find_differences(requested: KeyDocument, stored: KeyDocument) -> DocumentDifferences:
    """Where two documents differ; no differences if their keys are equal.

    Fields with a secret's name are reported without their values.
    A member or an item that only one document has is one difference, whatever its size.  List
    items are aligned, so that an inserted item is one difference; very long or very many lists,
    where that would be slow, are compared index by index.
    """
    all_differences = _iterate_differences(requested, stored)
    kept = tuple(islice(all_differences, _MAX_DIFFERENCES))
    return DocumentDifferences(kept, sum(1 for _ in all_differences))


def list_differences(requested: KeyDocument, stored: KeyDocument) -> tuple[RequestDifference, ...]:
    """The first 10,000 differences of two documents."""
    return find_differences(requested, stored).differences


def _iterate_differences(
    requested: KeyDocument, stored: KeyDocument
) -> Iterator[RequestDifference]:
    leaf_differences = json_leaves.compare_leaves(
        json_leaves.json_leaves(requested), json_leaves.json_leaves(stored)
    )
    if requested.body_kind != "json" or stored.body_kind != "json":
        requested_leaves, stored_leaves = displayable_leaves(requested), displayable_leaves(stored)
        yield from (
            replace(
                difference,
                requested=_displayable_value(
                    difference.path, difference.requested, requested_leaves
                ),
                stored=_displayable_value(difference.path, difference.stored, stored_leaves),
            )
            for difference in leaf_differences
        )
        return
    yield from (
        difference for difference in leaf_differences if not difference.path.startswith("$")
    )
    yield from _compare_values((), requested.body, stored.body, _AlignmentBudget())


def displayable_leaves(document: KeyDocument) -> dict[str, str]:
    """The values of a document by path, masked in fields with a secret's name."""
    return json_leaves.json_leaves(replace(document, body=_mask_secrets(document.body)))


def _displayable_value(path: str, value: str, leaves: Mapping[str, str]) -> str:
    """The masked value of this path; empty if the document has none."""
    return leaves.get(path, _MASKED_JSON) if value else ""


def path_text(parts: _PathParts) -> str:
    """A path as text: `$.messages[1].content`."""
    return "$" + "".join(
        f"[{part}]" if isinstance(part, int) else json_path_step(part) for part in parts
    )


def _compare_values(
    parts: _PathParts, requested: Json | _Absent, stored: Json | _Absent, budget: _AlignmentBudget
) -> Iterator[RequestDifference]:
    match requested, stored:
        case dict(), dict():
            for name in dict.fromkeys([*requested, *stored]):
                values = requested.get(name, _ABSENT), stored.get(name, _ABSENT)
                if _is_secret_value_member(name, requested) or _is_secret_value_member(
                    name, stored
                ):
                    yield from _masked_difference((*parts, name), *values)
                else:
                    yield from _compare_values((*parts, name), *values, budget)
        case list(), list():
            yield from _compare_items(parts, requested, stored, budget)
        case _ if _canonical_json(requested) != _canonical_json(stored):
            if any(isinstance(part, str) and is_secret_field(part) for part in parts):
                yield from _masked_difference(parts, requested, stored)
            else:
                yield RequestDifference(
                    path_text(parts), _displayable_json(requested), _displayable_json(stored), parts
                )


def _masked_difference(
    parts: _PathParts, requested: Json | _Absent, stored: Json | _Absent
) -> Iterator[RequestDifference]:
    if _canonical_json(requested) != _canonical_json(stored):
        requested_mask, stored_mask = (
            "" if isinstance(value, _Absent) else _MASKED_JSON for value in (requested, stored)
        )
        yield RequestDifference(path_text(parts), requested_mask, stored_mask, parts)


def _is_secret_value_member(name: str, fields: Mapping[str, Json]) -> bool:
    """Whether this is the `value` of an object whose `name` or `key` is a secret's name."""
    field_name = fields.get("name", fields.get("key"))
    return name == "value" and isinstance(field_name, str) and is_secret_field(field_name)


def _mask_secrets(value: Json, depth: int = _MAX_DEPTH) -> Json:
    """A value with its secrets masked, also within strings that hold JSON."""
    match value:
        case dict() | list() if depth == 0:
            return PLACEHOLDER
        case dict():
            return {
                name: PLACEHOLDER
                if is_secret_field(name) or _is_secret_value_member(name, value)
                else _mask_secrets(member, depth - 1)
                for name, member in value.items()
            }
        case list():
            return [_mask_secrets(item, depth - 1) for item in value]
        case str() if value[:1] in ("{", "[") and (parsed := _parse_json(value)) is not None:
            masked = _mask_secrets(parsed, depth - 1)
            return value if masked == parsed else orjson.dumps(masked).decode()
        case _:
            return value


def _parse_json(text: str) -> Json:
    try:
        parsed: Json = orjson.loads(text)
    except ValueError:
        return None
    return parsed


def _compare_items(
    parts: _PathParts, requested: list[Json], stored: list[Json], budget: _AlignmentBudget
) -> Iterator[RequestDifference]:
    requested_keys, stored_keys = (
        list(map(_canonical_json, requested)),
        list(map(_canonical_json, stored)),
    )
    for requested_start, requested_end, stored_start, stored_end in _changed_ranges(
        requested_keys, stored_keys, budget
    ):
        for requested_index, stored_index in zip_longest(
            range(requested_start, requested_end), range(stored_start, stored_end)
        ):
            index = requested_index if requested_index is not None else stored_index
            assert index is not None  # noqa: S101 # the longer range has an index
            yield from _compare_values(
                (*parts, index),
                _ABSENT if requested_index is None else requested[requested_index],
                _ABSENT if stored_index is None else stored[stored_index],
                budget,
            )


def _changed_ranges(
    requested: list[bytes], stored: list[bytes], budget: _AlignmentBudget
) -> Iterator[tuple[int, int, int, int]]:
    """Ranges that differ: start and end in `requested`, start and end in `stored`."""
    prefix_length = 0
    while (
        prefix_length < min(len(requested), len(stored))
        and requested[prefix_length] == stored[prefix_length]
    ):
        prefix_length += 1
    suffix_length = 0
    max_suffix_length = min(len(requested), len(stored)) - prefix_length
    while (
        suffix_length < max_suffix_length
        and requested[-1 - suffix_length] == stored[-1 - suffix_length]
    ):
        suffix_length += 1
    requested_middle, stored_middle = (
        requested[prefix_length : len(requested) - suffix_length],
        stored[prefix_length : len(stored) - suffix_length],
    )
    if not budget.try_spend(requested_middle, stored_middle):
        yield (
            prefix_length,
            len(requested) - suffix_length,
            prefix_length,
            len(stored) - suffix_length,
        )
        return
    matcher = SequenceMatcher(None, requested_middle, stored_middle, autojunk=False)
    for tag, *bounds in matcher.get_opcodes():
        if tag != "equal":
            requested_start, requested_end, stored_start, stored_end = (
                prefix_length + bound for bound in bounds
            )
            yield requested_start, requested_end, stored_start, stored_end


def _canonical_json(value: Json | _Absent) -> bytes:
    return b"" if isinstance(value, _Absent) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _displayable_json(value: Json | _Absent) -> str:
    return "" if isinstance(value, _Absent) else json_value_text(_mask_secrets(value))
