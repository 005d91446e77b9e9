"""The faults that a chaos run tries, one example of each.

Every request meets the fault anew, and a client that asks again gets through: what keeps an answer
from coming at all strikes the first two attempts of each request, and anything else the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kind import FaultKind, ReplaceResponse
from llm_proxy.faults.kinds import KINDS
from llm_proxy.faults.rule import FaultRule

_TWICE: Final = "first=2,per=request"
"""As often as the SDKs of OpenAI and Anthropic ask again of their own accord."""
_ONCE: Final = "first=1,per=request"
_HARMLESS: Final = frozenset({FaultEffect.SLOWED})
"""Effects of faults that can strike every answer: nothing has to be asked again."""


def fault_plan(items: Sequence[FaultRule]) -> tuple[FaultRule, ...]:
    """The faults that are tried, one after the other: those that are given, else every kind's."""
    return tuple(items) or tuple(_example_rule(kind) for kind in KINDS.values() if kind.example)


def _example_rule(kind: FaultKind) -> FaultRule:
    rule = parse_rule(kind.example)
    if kind.effect in _HARMLESS or kind.scope != "request":
        return rule
    is_instead = isinstance(rule.fault.mechanism(rule.location), ReplaceResponse)
    return parse_rule(f"{kind.example},{_TWICE if is_instead else _ONCE}")
