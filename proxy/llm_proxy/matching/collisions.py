"""Finds the rules that give different requests the same key."""

from __future__ import annotations

from collections.abc import Sequence

from llm_proxy.cassette import StoredRequest
from llm_proxy.matching.keys import request_key
from llm_proxy.matching.rules import MatchRule, RuleSet


def colliding_rules(
    requests: Sequence[tuple[str, StoredRequest]], rules: RuleSet
) -> tuple[MatchRule, ...]:
    """The rules without one of which these requests, each with its provider, would be told apart.

    All of them where it takes more than one; none where they are the same without any.
    """
    if not _have_different_keys(requests, RuleSet()):
        return ()
    without = (
        (match_rule, RuleSet(tuple(rule for rule in rules.rules if rule is not match_rule)))
        for match_rule in rules.rules
    )
    found = tuple(rule for rule, others in without if _have_different_keys(requests, others))
    return found or rules.rules


def _have_different_keys(requests: Sequence[tuple[str, StoredRequest]], rules: RuleSet) -> bool:
    return len({request_key(provider, request, rules) for provider, request in requests}) > 1
