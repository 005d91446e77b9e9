"""What is tried: each fault on its own, by an example of it.

Every request meets the fault anew, and a client that asks again gets through: what keeps an answer
from coming at all strikes the first two attempts of each request, and anything else the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.grammar import rule_of
from llm_proxy.faults.kind import Instead, Kind
from llm_proxy.faults.kinds import KINDS
from llm_proxy.faults.rule import Rule

_TWICE: Final = "first=2,per=request"
"""As often as the SDKs of OpenAI and Anthropic ask again of their own accord."""
_ONCE: Final = "first=1,per=request"
_HARMLESS: Final = frozenset({Effect.SLOWED})
"""Effects of faults that can strike every answer: nothing has to be asked again."""


def plan(given: Sequence[Rule]) -> tuple[Rule, ...]:
    """The faults that are tried, one after the other: those that are given, else every kind's."""
    return tuple(given) or tuple(_tried(kind) for kind in KINDS.values() if kind.example)


def _tried(kind: Kind) -> Rule:
    rule = rule_of(kind.example)
    if kind.effect in _HARMLESS or kind.scope != "request":
        return rule
    is_instead = isinstance(rule.fault.work(rule.place), Instead)
    return rule_of(f"{kind.example},{_TWICE if is_instead else _ONCE}")
