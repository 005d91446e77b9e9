"""Parses a rule's selector: for whom it applies."""

from __future__ import annotations

import difflib
from typing import Any, Final

from llm_proxy import dialects, unit_parsers
from llm_proxy.faults.grammar.terms import RuleTerms
from llm_proxy.faults.kind import FaultKind
from llm_proxy.faults.rule import Selector, matches_pattern

AUDIENCES: Final = ("dialect", "provider", "model", "path", "session", "stream")
"""Their words in the grammar."""
_LONGEST: Final = 200
"""Characters of a pattern."""
_STARS: Final = 8
"""Of a pattern: each makes it slower to match."""


def parse_selector(terms: RuleTerms, kind: FaultKind) -> Selector:
    """Whose requests it is meant for.  Raises `UsageError`."""
    fields = {
        name: terms.arguments[name]
        for name in AUDIENCES
        if name in terms.arguments and name not in kind.arguments
    }
    if kind.scope == "listener" and fields:
        raise terms.usage_error(
            f"{kind.name} is for all clients alike: leave {next(iter(fields))} out"
        )
    values: dict[str, Any] = {name: text for name, text in fields.items() if name != "stream"}
    for name, text in values.items():
        _check_pattern(terms, name, text)
    if "dialect" in values:
        _check_dialect(terms, values["dialect"])
    if "stream" in fields:
        try:
            values["streams"] = unit_parsers.parse_bool(fields["stream"])
        except ValueError as error:
            raise terms.usage_error(f"stream={fields['stream']} is not {error}") from None
    return Selector(**values)


def _check_pattern(terms: RuleTerms, name: str, text: str) -> None:
    if not text:
        raise terms.usage_error(f"{name} is empty: name one, or a pattern such as gpt-4*")
    if len(text) > _LONGEST:
        raise terms.usage_error(f"{name} is longer than {_LONGEST} characters")
    if text.count("*") > _STARS:
        raise terms.usage_error(f"{name} has more than {_STARS} stars")


def _check_dialect(terms: RuleTerms, pattern: str) -> None:
    names = [dialect.name for dialect in (*dialects.DIALECTS, dialects.OPAQUE)]
    if any(matches_pattern(name, pattern) for name in names):
        return
    near = difflib.get_close_matches(pattern, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    raise terms.usage_error(f"there is no dialect {pattern}; {hint}")
