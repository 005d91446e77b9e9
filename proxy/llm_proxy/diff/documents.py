"""Compares two key documents: values, members and list items, by their paths."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import islice, zip_longest
from typing import Any, Final

import orjson

from llm_proxy.diff.words import common_prefix_length
from llm_proxy.matching import KeyDocument
from llm_proxy.matching.value_finder import replace_large_base64
from llm_proxy.redaction import PLACEHOLDER
from llm_proxy.secret_names import is_secret_field
from llm_proxy.turns import Json

PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""A member's name that a JSONPath needs no quotes for."""
_MASKED_JSON: Final = f'"{PLACEHOLDER}"'
"""JSON shown instead of the value of a field with a secret's name."""
_MAX_DEPTH: Final = 100
"""Levels of nesting that are shown; deeper values are masked, or written as JSON."""
_MAX_ALIGNED_ITEMS: Final = 500
"""Lists with more items between common prefix and suffix are compared index by index."""
_ALIGNMENT_STEPS: Final = 5_000_000
"""Step budget for aligning all the lists of a document: a fraction of a second."""
_MIN_STEPS_PER_LIST: Final = 200
"""Minimum cost of aligning a list, in steps."""
_MAX_DIFFERENCES: Final = 10_000
"""Maximum number of reported differences; further ones are only counted."""
_ABSENT: Final = object()
"""Stands for a value that only the other document has."""


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """One value in which two requests differ."""

    path: str
    """`$.messages[1].content`, or `method`, `path`, `query`, `headers.anthropic-beta`."""
    requested: str
    """The value in the request, as JSON; empty where it has none."""
    stored: str
    """The value in the cassette, as JSON; empty where it has none."""
    path_steps: tuple[str | int, ...] = ()
    """The names and indexes of `path` within a JSON body; empty outside of the body."""


@dataclass(frozen=True, slots=True)
class DocumentDifferences:
    """Where two documents differ."""

    differences: tuple[RequestDifference, ...]
    """The first 10,000, in the order of the request."""
    further_count: int = 0
    """Number of differences beyond those."""


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


def json_leaves(document: KeyDocument) -> dict[str, str]:
    """Every value of a key document by its path, as JSON; large base64 is replaced by its hash."""
    return _head_leaves(document) | _body_leaves(document)


def displayable_leaves(document: KeyDocument) -> dict[str, str]:
    """The values of a document by path, masked in fields with a secret's name."""
    return json_leaves(replace(document, body=_mask_secrets(document.body)))


def flatten_json(
    path: str, value: Json, to_text: Callable[[Json], str], depth: int = _MAX_DEPTH
) -> Iterator[tuple[str, str]]:
    """Yields the path and the text of every leaf: values without members, and too deep ones."""
    match value:
        case dict() if value and depth:
            for name, item in value.items():
                yield from flatten_json(path + json_path_step(name), item, to_text, depth - 1)
        case list() if value and depth:
            for index, item in enumerate(value):
                yield from flatten_json(f"{path}[{index}]", item, to_text, depth - 1)
        case _:
            yield path, to_text(value)


def differing_values(
    one: Mapping[str, str], other: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yields the path and both values of each difference; a missing value is empty."""
    for path in dict.fromkeys((*one, *other)):
        if one.get(path) != other.get(path):
            yield path, one.get(path, ""), other.get(path, "")


def json_path_step(name: str) -> str:
    """A member's name as a step of a JSONPath: `.name`, or `['a name']`."""
    if PLAIN_NAME.fullmatch(name):
        return f".{name}"
    quoted = json.dumps(name, ensure_ascii=False)
    if "'" not in name:
        quoted = "'" + quoted[1:-1].replace('\\"', '"') + "'"
    return f"[{quoted}]"


def _head_leaves(document: KeyDocument) -> dict[str, str]:
    return {
        "method": document.method,
        "provider": document.provider,
        "path": document.path,
        "query": document.query,
        **{f"headers.{name}": value for name, value in document.headers},
    }


def _body_leaves(document: KeyDocument) -> dict[str, str]:
    if document.body_kind == "text":
        return {"body": document.canonical_body().decode("utf-8", "replace")}
    return dict(flatten_json("$", document.body, _json_text))


def _json_text(value: Json) -> str:
    """A value as JSON, with large base64 replaced by its hash."""
    return orjson.dumps(_hash_large_base64(value)).decode()


def _hash_large_base64(value: Json) -> Json:
    match value:
        case dict():
            return {name: _hash_large_base64(item) for name, item in value.items()}
        case list():
            return [_hash_large_base64(item) for item in value]
        case str():
            return replace_large_base64(value)
        case _:
            return value


def _iterate_differences(
    requested: KeyDocument, stored: KeyDocument
) -> Iterator[RequestDifference]:
    for path, value, other in differing_values(_head_leaves(requested), _head_leaves(stored)):
        yield RequestDifference(path, value, other)
    if requested.body_kind == stored.body_kind == "json":
        yield from _compare_values((), requested.body, stored.body, _AlignmentBudget())
        return
    masked, other_masked = displayable_leaves(requested), displayable_leaves(stored)
    for path, value, other in differing_values(_body_leaves(requested), _body_leaves(stored)):
        yield RequestDifference(
            path,
            masked.get(path, _MASKED_JSON) if value else "",
            other_masked.get(path, _MASKED_JSON) if other else "",
        )


def _compare_values(
    parts: tuple[str | int, ...],
    requested: Any,
    stored: Any,
    budget: _AlignmentBudget,
    *,
    masks: bool = False,
) -> Iterator[RequestDifference]:
    """The differences of two values of a body, each `_ABSENT` if only the other exists."""
    match requested, stored:
        case dict(), dict() if not masks:
            for name in dict.fromkeys([*requested, *stored]):
                yield from _compare_values(
                    (*parts, name),
                    requested.get(name, _ABSENT),
                    stored.get(name, _ABSENT),
                    budget,
                    masks=_is_secret_member(name, requested) or _is_secret_member(name, stored),
                )
        case list(), list() if not masks:
            for first_range, second_range in _changed_ranges(requested, stored, budget):
                for first, second in zip_longest(first_range, second_range):
                    yield from _compare_values(
                        (*parts, second if first is None else first),
                        _ABSENT if first is None else requested[first],
                        _ABSENT if second is None else stored[second],
                        budget,
                    )
        case _ if _canonical_json(requested) != _canonical_json(stored):
            masks = masks or any(isinstance(part, str) and is_secret_field(part) for part in parts)
            path = "$" + "".join(
                f"[{part}]" if isinstance(part, int) else json_path_step(part) for part in parts
            )
            first, second = (
                _MASKED_JSON if masks and value is not _ABSENT else _displayable_json(value)
                for value in (requested, stored)
            )
            yield RequestDifference(path, first, second, parts)


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


def _changed_ranges(
    requested: list[Json], stored: list[Json], budget: _AlignmentBudget
) -> Iterator[tuple[range, range]]:
    """The indexes in `requested` and `stored` of items that differ."""
    first, second = (list(map(_canonical_json, items)) for items in (requested, stored))
    begin = common_prefix_length(first, second)
    suffix_length = common_prefix_length(first[begin:][::-1], second[begin:][::-1])
    first_end, second_end = len(first) - suffix_length, len(second) - suffix_length
    first, second = first[begin:first_end], second[begin:second_end]
    if not budget.try_spend(first, second):
        yield range(begin, first_end), range(begin, second_end)
        return
    for tag, *bounds in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if tag != "equal":
            first_start, first_stop, second_start, second_stop = (begin + at for at in bounds)
            yield range(first_start, first_stop), range(second_start, second_stop)


def _displayable_json(value: Any) -> str:
    return "" if value is _ABSENT else _json_text(_mask_secrets(value))


def _canonical_json(value: Any) -> bytes:
    return b"" if value is _ABSENT else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _is_secret_member(name: str, fields: Mapping[str, Json]) -> bool:
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
                if is_secret_field(name) or _is_secret_member(name, value)
                else _mask_secrets(member, depth - 1)
                for name, member in value.items()
            }
        case list():
            return [_mask_secrets(item, depth - 1) for item in value]
        case str() if value[:1] in ("{", "["):
            try:
                parsed = orjson.loads(value)
            except ValueError:
                return value
            masked = _mask_secrets(parsed, depth - 1)
            return value if masked == parsed else orjson.dumps(masked).decode()
        case _:
            return value
