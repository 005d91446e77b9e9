"""Compares two requests by the documents that their keys are computed from."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy import matching
from llm_proxy.cassette import Cassette
from llm_proxy.diff import json_leaves
from llm_proxy.diff.difference import DifferenceKind
from llm_proxy.matching import RuleSet


def compare_requests(
    one: Cassette, other: Cassette, rules: RuleSet
) -> Iterator[tuple[DifferenceKind, str, str, str]]:
    """Yields the values of the requests that differ under these rules."""
    first, second = (
        json_leaves.json_leaves(
            matching.normalized_document(cassette.meta.provider, cassette.request, rules).document
        )
        for cassette in (one, other)
    )
    for difference in json_leaves.compare_leaves(first, second):
        yield (
            DifferenceKind.REQUEST,
            difference.path,
            difference.requested,
            difference.stored,
        )
