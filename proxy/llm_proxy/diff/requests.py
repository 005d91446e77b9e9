"""How two requests differ, in what their keys are made from."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy import matching
from llm_proxy.cassette import Cassette
from llm_proxy.diff import json_leaves
from llm_proxy.diff.difference import Kind
from llm_proxy.matching import Rules


def asked(one: Cassette, other: Cassette, rules: Rules) -> Iterator[tuple[Kind, str, str, str]]:
    """What was asked: the paths of the values that differ under these rules."""
    first, second = (
        json_leaves.leaves(matching.normalised(it.meta.provider, it.request, rules).document)
        for it in (one, other)
    )
    for it in json_leaves.differences(first, second):
        yield Kind.ASKED, it.path, it.asked, it.stored
