"""Rules, read whole."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from keyword import iskeyword
from typing import Any, Final

from llm_proxy.errors import UsageError
from llm_proxy.faults.grammar.locations import PLACES, needs_messages, place_of
from llm_proxy.faults.grammar.selectors import AUDIENCES, audience_of
from llm_proxy.faults.grammar.terms import Terms, of_mapping, of_text
from llm_proxy.faults.grammar.triggers import OCCASIONS, occasion_of
from llm_proxy.faults.kind import Fault, Kind
from llm_proxy.faults.kinds import KINDS
from llm_proxy.faults.rule import Rule

_COMMON: Final = (*PLACES, *OCCASIONS, *AUDIENCES)


def rule_of(given: str | Mapping[Any, Any]) -> Rule:
    """The rule that a text or a mapping spells.

    Raises `UsageError` for what is no rule, and for one that has no meaning.
    """
    terms = of_text(given) if isinstance(given, str) else of_mapping(given)
    kind = _kind(terms)
    _check_names(terms, kind)
    rule = Rule(
        terms.text,
        kind,
        _fault(terms, kind),
        place_of(terms, kind),
        occasion_of(terms, kind),
        audience_of(terms, kind),
    )
    if rule.audience.streams is False and needs_messages(kind, rule.place):
        raise terms.wrong(
            f"{kind.name} strikes between the messages of a stream, and stream=false means bodies "
            "without any"
        )
    return rule


def rules_of(many: Iterable[object]) -> tuple[Rule, ...]:
    """The rules of a list.  Raises `UsageError` as `rule_of` does."""
    return tuple(map(_checked, many))


def _checked(given: object) -> Rule:
    if not isinstance(given, str | Mapping):
        raise UsageError("a fault is a text such as reset,after=3, or a mapping with its name")
    return rule_of(given)


def _kind(terms: Terms) -> Kind:
    kind = KINDS.get(terms.name)
    if kind is not None:
        return kind
    near = difflib.get_close_matches(terms.name, KINDS, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(KINDS))}"
    raise terms.wrong(f"there is no fault {terms.name}; {hint}")


def _check_names(terms: Terms, kind: Kind) -> None:
    known = (*kind.arguments, *_COMMON)
    for name in terms.given:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, 1)
        has = f"; {kind.name} has {', '.join(kind.arguments)}" if kind.arguments else ""
        raise terms.wrong(f"there is no {name}{f'; did you mean {near[0]}?' if near else has}")


def _fault(terms: Terms, kind: Kind) -> Fault:
    """The fault with its arguments."""
    values: dict[str, Any] = {}
    for name, argument in kind.arguments.items():
        text = terms.given.get(name, argument.default)
        if name not in terms.given and not argument.default:
            if argument.needed:
                raise terms.wrong(f"{kind.name} needs {name}: {argument.meaning}")
            continue
        try:
            values[_field(name)] = argument.read(text)
        except ValueError as error:
            raise terms.wrong(f"{name}={text} is not {error}") from None
    try:
        return kind.make(**values)
    except ValueError as error:
        raise terms.wrong(str(error)) from None


def _field(name: str) -> str:
    """The name of an argument in Python."""
    return f"{name}_" if iskeyword(name) else name.replace("-", "_")
