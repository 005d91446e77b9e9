"""Which rules give one key to requests that would have different ones without."""

from __future__ import annotations

from collections.abc import Sequence

from llm_proxy.cassette import StoredRequest
from llm_proxy.matching.keys import key
from llm_proxy.matching.rules import Rule, Rules


def causes(requests: Sequence[tuple[str, StoredRequest]], rules: Rules) -> tuple[Rule, ...]:
    """The rules without one of which these requests, each with its provider, would be told apart.

    All of them where it takes more than one; none where they are the same without any.
    """
    if not _are_apart(requests, Rules()):
        return ()
    without = (
        (it, Rules(tuple(rule for rule in rules.each if rule is not it))) for it in rules.each
    )
    found = tuple(rule for rule, others in without if _are_apart(requests, others))
    return found or rules.each


def _are_apart(requests: Sequence[tuple[str, StoredRequest]], rules: Rules) -> bool:
    return len({key(provider, request, rules) for provider, request in requests}) > 1
