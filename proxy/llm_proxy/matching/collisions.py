"""Finds the rules that give different requests the same key."""

from __future__ import annotations

from collections.abc import Sequence

from llm_proxy.cassette import StoredRequest
from llm_proxy.matching.keys import request_key
from llm_proxy.matching.rules import NormaliserRule, RuleSet


def colliding_rules(
    requests: Sequence[tuple[str, StoredRequest]], rules: RuleSet
) -> tuple[NormaliserRule, ...]:
    """The rules that make the keys of these (provider, request) pairs equal.

    A rule counts if the keys differ without it.  All rules if no single one is the cause; none if
    the keys are equal without any rules.
    """
    if not _have_different_keys(requests, RuleSet()):
        return ()
    rule_sets_without_one = (
        (match_rule, RuleSet(tuple(rule for rule in rules.rules if rule is not match_rule)))
        for match_rule in rules.rules
    )
    colliding = tuple(
        rule for rule, others in rule_sets_without_one if _have_different_keys(requests, others)
    )
    return colliding or rules.rules


def _have_different_keys(requests: Sequence[tuple[str, StoredRequest]], rules: RuleSet) -> bool:
    return len({request_key(provider, request, rules) for provider, request in requests}) > 1
