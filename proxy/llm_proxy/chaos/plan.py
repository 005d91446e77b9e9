"""The faults that a chaos run tries, one example of each.

Each request gets the fault, and a client that retries gets through: faults that replace the
response are injected into the first two attempts of each request, other faults into the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kind import FaultKind, ReplaceResponse
from llm_proxy.faults.kinds import FAULT_KINDS
from llm_proxy.faults.rule import FaultRule

_FIRST_TWO_ATTEMPTS: Final = "first=2,per=request"
"""As often as the SDKs of OpenAI and Anthropic retry by default."""
_FIRST_ATTEMPT: Final = "first=1,per=request"
_HARMLESS_EFFECTS: Final = frozenset({FaultEffect.SLOWED})
"""Effects of faults that can be injected into every response: no retry is needed."""


def fault_plan(rules: Sequence[FaultRule]) -> tuple[FaultRule, ...]:
    """The faults to try, in order: the given rules, else one example of every fault kind."""
    return tuple(rules) or tuple(
        _example_rule(kind) for kind in FAULT_KINDS.values() if kind.example
    )


def _example_rule(kind: FaultKind) -> FaultRule:
    rule = parse_rule(kind.example)
    if kind.effect in _HARMLESS_EFFECTS or kind.scope != "request":
        return rule
    replaces_response = isinstance(rule.mechanism, ReplaceResponse)
    return parse_rule(
        f"{kind.example},{_FIRST_TWO_ATTEMPTS if replaces_response else _FIRST_ATTEMPT}"
    )
