"""Parses a rule's selector: which requests it applies to."""

from __future__ import annotations

import difflib
from typing import Any, Final

from llm_proxy import dialects, unit_parsers
from llm_proxy.faults.grammar.terms import RuleTerms
from llm_proxy.faults.kind import FaultKind
from llm_proxy.faults.rule import Selector, matches_pattern

SELECTOR_NAMES: Final = ("dialect", "provider", "model", "path", "session", "stream")
"""The names of the selector's terms in rules."""
_MAX_PATTERN_CHARS: Final = 200
_MAX_STARS: Final = 8
"""Per pattern: each star makes it slower to match."""


def parse_selector(terms: RuleTerms, kind: FaultKind) -> Selector:
    """The selector in a rule's terms.  Raises `UsageError`."""
    selector_terms = {
        name: terms.arguments[name]
        for name in SELECTOR_NAMES
        if name in terms.arguments and name not in kind.arguments
    }
    if kind.scope == "listener" and selector_terms:
        raise terms.usage_error(
            f"{kind.name} is for all clients alike: leave {next(iter(selector_terms))} out"
        )
    values: dict[str, Any] = {
        name: text for name, text in selector_terms.items() if name != "stream"
    }
    for name, text in values.items():
        _check_pattern(terms, name, text)
    if "dialect" in values:
        _check_dialect(terms, values["dialect"])
    if "stream" in selector_terms:
        try:
            values["streams"] = unit_parsers.parse_bool(selector_terms["stream"])
        except ValueError as error:
            raise terms.usage_error(f"stream={selector_terms['stream']} is not {error}") from None
    return Selector(**values)


def _check_pattern(terms: RuleTerms, name: str, pattern: str) -> None:
    if not pattern:
        raise terms.usage_error(f"{name} is empty: name one, or a pattern such as gpt-4*")
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise terms.usage_error(f"{name} is longer than {_MAX_PATTERN_CHARS} characters")
    if pattern.count("*") > _MAX_STARS:
        raise terms.usage_error(f"{name} has more than {_MAX_STARS} stars")


def _check_dialect(terms: RuleTerms, pattern: str) -> None:
    names = [dialect.name for dialect in (*dialects.DIALECTS, dialects.OPAQUE)]
    if any(matches_pattern(name, pattern) for name in names):
        return
    close_matches = difflib.get_close_matches(pattern, names, 1)
    hint = f"did you mean {close_matches[0]}?" if close_matches else f"there are {', '.join(names)}"
    raise terms.usage_error(f"there is no dialect {pattern}; {hint}")
