"""Compares two recorded exchanges and classifies the differences.

    difference   differences, and which are significant at which strictness
    flatten      values by path
    json_leaves  the values of a request by path
    requests     requests
    responses    heads, endings, bytes and times
    turns        turns, as the dialect decodes them
    shape        event types, and the fields of each
    word_diff    two texts, word by word

Two takes are compared exactly: everything is significant but times.  A live response is never equal
to its recording, so there only differences that could break a client are significant; to detect
drift, the shape is compared without the contents.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.cassette import Cassette
from llm_proxy.diff.difference import (
    DifferenceKind,
    ExchangeComparison,
    ExchangeDifference,
    Strictness,
    is_reported,
    is_significant,
)
from llm_proxy.diff.requests import compare_requests
from llm_proxy.diff.responses import compare_bodies, compare_endings, compare_heads, compare_times
from llm_proxy.diff.shape import compare_shapes
from llm_proxy.diff.turns import compare_turns
from llm_proxy.matching import NO_RULES, RuleSet

__all__ = [
    "DifferenceKind",
    "ExchangeComparison",
    "ExchangeDifference",
    "Strictness",
    "compare_exchanges",
]


def compare_exchanges(
    one: Cassette, other: Cassette, strictness: Strictness = "exact", rules: RuleSet = NO_RULES
) -> ExchangeComparison:
    """Compares two exchanges; `rules` define which differences of the requests are ignored."""
    differences = [
        ExchangeDifference(kind, path, first_value, second_value, is_significant(kind, strictness))
        for kind, path, first_value, second_value in _all_differences(one, other, rules)
        if is_reported(kind, strictness)
    ]
    return ExchangeComparison(one.file, other.file, strictness, tuple(differences))


def _all_differences(
    one: Cassette, other: Cassette, rules: RuleSet
) -> Iterator[tuple[DifferenceKind, str, str, str]]:
    yield from compare_requests(one, other, rules)
    yield from compare_heads(one, other)
    yield from compare_endings(one, other)
    yield from compare_shapes(one, other)
    yield from compare_turns(one, other)
    yield from compare_bodies(one, other)
    yield from compare_times(one, other)
