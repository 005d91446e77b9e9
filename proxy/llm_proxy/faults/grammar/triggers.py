"""Parses a rule's trigger: when it applies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from llm_proxy import unit_parsers
from llm_proxy.faults.grammar.terms import RuleTerms
from llm_proxy.faults.kind import FaultKind
from llm_proxy.faults.rule import Trigger

_COUNT_SCOPES: Final = ("run", "session", "request")


def _parse_positive_count(text: str) -> int:
    number = unit_parsers.parse_count(text)
    if number == 0:
        raise ValueError("a whole number from 1 on")
    return number


def _parse_count_scope(text: str) -> str:
    if text not in _COUNT_SCOPES:
        raise ValueError(f"one of {', '.join(_COUNT_SCOPES)}")
    return text


TRIGGER_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "nth": _parse_positive_count,
    "first": _parse_positive_count,
    "every": _parse_positive_count,
    "probability": unit_parsers.parse_fraction,
    "window": unit_parsers.parse_window_ms,
    "times": _parse_positive_count,
    "per": _parse_count_scope,
}
"""The parser of each trigger term, by its name in rules."""


def parse_trigger(terms: RuleTerms, kind: FaultKind) -> Trigger:
    """The trigger in a rule's terms.  Raises `UsageError`."""
    values: dict[str, Any] = {}
    for name, parse in TRIGGER_PARSERS.items():
        if name not in terms.arguments or name in kind.arguments:
            continue
        if kind.scope != "request":
            raise terms.usage_error(f"{kind.name} has occasions of its own: leave {name} out")
        try:
            values[name] = parse(terms.arguments[name])
        except ValueError as error:
            raise terms.usage_error(f"{name}={terms.arguments[name]} is not {error}") from None
    count_names = [name for name in ("nth", "first", "every") if name in values]
    if len(count_names) > 1:
        raise terms.usage_error(
            f"{count_names[0]} and {count_names[1]} both count: keep one of them"
        )
    if "per" in values and not count_names:
        raise terms.usage_error("per says what nth, first and every count: give one of them, too")
    return Trigger(**values)
