"""How two recorded exchanges differ, and which of that matters.

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
from llm_proxy.diff.difference import Comparison, Difference, Kind, Manner, counts, is_shown
from llm_proxy.diff.requests import asked
from llm_proxy.diff.responses import endings, first_bytes, heads, times
from llm_proxy.diff.shape import shapes
from llm_proxy.diff.turns import said
from llm_proxy.matching import PLAIN, Rules

__all__ = ["Comparison", "Difference", "Kind", "Manner", "compare"]


def compare(
    one: Cassette, other: Cassette, manner: Manner = "exact", rules: Rules = PLAIN
) -> Comparison:
    """How these two exchanges differ; `rules` are what their requests may differ in."""
    found = [
        Difference(kind, where, before, after, counts(kind, manner))
        for kind, where, before, after in _found(one, other, rules)
        if is_shown(kind, manner)
    ]
    return Comparison(one.file, other.file, manner, tuple(found))


def _found(one: Cassette, other: Cassette, rules: Rules) -> Iterator[tuple[Kind, str, str, str]]:
    yield from asked(one, other, rules)
    yield from heads(one, other)
    yield from endings(one, other)
    yield from shapes(one, other)
    yield from said(one, other)
    yield from first_bytes(one, other)
    yield from times(one, other)
