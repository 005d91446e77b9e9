"""For whom a rule is meant."""

from __future__ import annotations

import difflib
from typing import Any, Final

from llm_proxy import dialects, unit_parsers
from llm_proxy.faults.grammar.terms import Terms
from llm_proxy.faults.kind import Kind
from llm_proxy.faults.rule import Audience, fits

AUDIENCES: Final = ("dialect", "provider", "model", "path", "session", "stream")
"""Their words in the grammar."""
_LONGEST: Final = 200
"""Characters of a pattern."""
_STARS: Final = 8
"""Of a pattern: each makes it slower to match."""


def audience_of(terms: Terms, kind: Kind) -> Audience:
    """Whose requests it is meant for.  Raises `UsageError`."""
    given = {
        name: terms.given[name]
        for name in AUDIENCES
        if name in terms.given and name not in kind.arguments
    }
    if kind.scope == "listener" and given:
        raise terms.wrong(f"{kind.name} is for all clients alike: leave {next(iter(given))} out")
    values: dict[str, Any] = {name: text for name, text in given.items() if name != "stream"}
    for name, text in values.items():
        _check_pattern(terms, name, text)
    if "dialect" in values:
        _check_dialect(terms, values["dialect"])
    if "stream" in given:
        try:
            values["streams"] = unit_parsers.truth(given["stream"])
        except ValueError as error:
            raise terms.wrong(f"stream={given['stream']} is not {error}") from None
    return Audience(**values)


def _check_pattern(terms: Terms, name: str, text: str) -> None:
    if not text:
        raise terms.wrong(f"{name} is empty: name one, or a pattern such as gpt-4*")
    if len(text) > _LONGEST:
        raise terms.wrong(f"{name} is longer than {_LONGEST} characters")
    if text.count("*") > _STARS:
        raise terms.wrong(f"{name} has more than {_STARS} stars")


def _check_dialect(terms: Terms, pattern: str) -> None:
    names = [it.name for it in (*dialects.DIALECTS, dialects.OPAQUE)]
    if any(fits(name, pattern) for name in names):
        return
    near = difflib.get_close_matches(pattern, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    raise terms.wrong(f"there is no dialect {pattern}; {hint}")
