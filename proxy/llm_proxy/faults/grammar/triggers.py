"""Parses a rule's trigger: when it applies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from llm_proxy import unit_parsers
from llm_proxy.faults.grammar.terms import RuleTerms
from llm_proxy.faults.kind import FaultKind
from llm_proxy.faults.rule import Trigger

_PER: Final = ("run", "session", "request")


def _parse_positive_count(text: str) -> int:
    number = unit_parsers.parse_count(text)
    if number == 0:
        raise ValueError("a whole number from 1 on")
    return number


def _parse_scope(text: str) -> str:
    if text not in _PER:
        raise ValueError(f"one of {', '.join(_PER)}")
    return text


OCCASIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "nth": _parse_positive_count,
    "first": _parse_positive_count,
    "every": _parse_positive_count,
    "probability": unit_parsers.parse_share,
    "window": unit_parsers.parse_window,
    "times": _parse_positive_count,
    "per": _parse_scope,
}
"""How each is read, by its word in the grammar."""


def parse_trigger(terms: RuleTerms, kind: FaultKind) -> Trigger:
    """When it strikes.  Raises `UsageError`."""
    values: dict[str, Any] = {}
    for name, read in OCCASIONS.items():
        if name not in terms.arguments or name in kind.arguments:
            continue
        if kind.scope != "request":
            raise terms.usage_error(f"{kind.name} has occasions of its own: leave {name} out")
        try:
            values[name] = read(terms.arguments[name])
        except ValueError as error:
            raise terms.usage_error(f"{name}={terms.arguments[name]} is not {error}") from None
    counting = [name for name in ("nth", "first", "every") if name in values]
    if len(counting) > 1:
        raise terms.usage_error(f"{counting[0]} and {counting[1]} both count: keep one of them")
    if "per" in values and not counting:
        raise terms.usage_error("per says what nth, first and every count: give one of them, too")
    return Trigger(**values)
