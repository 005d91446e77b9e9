"""Compares two recorded exchanges and classifies the differences.

    difference  what was found, and what of it counts in which manner of comparing
    values      values under their paths
    asking      what was asked
    answering   heads, endings, bytes and times
    saying      what was said, as the dialect reads it
    shape       kinds of events, and the fields that they have

Two takes are compared exactly: everything counts but times.  A live answer is never the same as
its recording, so there only what a client could stumble over counts; and for a watch on drift the
shape alone does, without what was said.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.cassette import Cassette
from llm_proxy.diff.difference import (
    DifferenceKind,
    ExchangeComparison,
    ExchangeDifference,
    Manner,
    is_reported,
    is_significant,
)
from llm_proxy.diff.requests import compare_requests
from llm_proxy.diff.responses import compare_bodies, compare_endings, compare_heads, compare_times
from llm_proxy.diff.shape import compare_shapes
from llm_proxy.diff.turns import compare_turns
from llm_proxy.matching import PLAIN, RuleSet

__all__ = [
    "DifferenceKind",
    "ExchangeComparison",
    "ExchangeDifference",
    "Manner",
    "compare_exchanges",
]


def compare_exchanges(
    one: Cassette, other: Cassette, strictness: Manner = "exact", rules: RuleSet = PLAIN
) -> ExchangeComparison:
    """How these two exchanges differ; `rules` are what their requests may differ in."""
    found = [
        ExchangeDifference(kind, where, before, after, is_significant(kind, strictness))
        for kind, where, before, after in _differences(one, other, rules)
        if is_reported(kind, strictness)
    ]
    return ExchangeComparison(one.file, other.file, strictness, tuple(found))


def _differences(
    one: Cassette, other: Cassette, rules: RuleSet
) -> Iterator[tuple[DifferenceKind, str, str, str]]:
    yield from compare_requests(one, other, rules)
    yield from compare_heads(one, other)
    yield from compare_endings(one, other)
    yield from compare_shapes(one, other)
    yield from compare_turns(one, other)
    yield from compare_bodies(one, other)
    yield from compare_times(one, other)
