"""When a rule strikes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from llm_proxy import unit_parsers
from llm_proxy.faults.grammar.terms import Terms
from llm_proxy.faults.kind import Kind
from llm_proxy.faults.rule import Occasion

_PER: Final = ("run", "session", "request")


def _from_one(text: str) -> int:
    number = unit_parsers.count(text)
    if number == 0:
        raise ValueError("a whole number from 1 on")
    return number


def _per(text: str) -> str:
    if text not in _PER:
        raise ValueError(f"one of {', '.join(_PER)}")
    return text


OCCASIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "nth": _from_one,
    "first": _from_one,
    "every": _from_one,
    "probability": unit_parsers.share,
    "window": unit_parsers.window,
    "times": _from_one,
    "per": _per,
}
"""How each is read, by its word in the grammar."""


def occasion_of(terms: Terms, kind: Kind) -> Occasion:
    """When it strikes.  Raises `UsageError`."""
    values: dict[str, Any] = {}
    for name, read in OCCASIONS.items():
        if name not in terms.given or name in kind.arguments:
            continue
        if kind.scope != "request":
            raise terms.wrong(f"{kind.name} has occasions of its own: leave {name} out")
        try:
            values[name] = read(terms.given[name])
        except ValueError as error:
            raise terms.wrong(f"{name}={terms.given[name]} is not {error}") from None
    counting = [name for name in ("nth", "first", "every") if name in values]
    if len(counting) > 1:
        raise terms.wrong(f"{counting[0]} and {counting[1]} both count: keep one of them")
    if "per" in values and not counting:
        raise terms.wrong("per says what nth, first and every count: give one of them, too")
    return Occasion(**values)
