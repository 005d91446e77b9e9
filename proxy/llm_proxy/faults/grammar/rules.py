"""Parses complete rules."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from keyword import iskeyword
from typing import Any, Final

from llm_proxy.errors import UsageError
from llm_proxy.faults.grammar.locations import PLACES, parse_stream_location, requires_messages
from llm_proxy.faults.grammar.selectors import AUDIENCES, parse_selector
from llm_proxy.faults.grammar.terms import RuleTerms, parse_mapping, parse_text
from llm_proxy.faults.grammar.triggers import OCCASIONS, parse_trigger
from llm_proxy.faults.kind import Fault, FaultKind
from llm_proxy.faults.kinds import KINDS
from llm_proxy.faults.rule import FaultRule

_COMMON: Final = (*PLACES, *OCCASIONS, *AUDIENCES)


def parse_rule(text: str | Mapping[Any, Any]) -> FaultRule:
    """The rule that a text or a mapping spells.

    Raises `UsageError` for what is no rule, and for one that has no meaning.
    """
    terms = parse_text(text) if isinstance(text, str) else parse_mapping(text)
    kind = _kind_named(terms)
    _check_argument_names(terms, kind)
    rule = FaultRule(
        terms.text,
        kind,
        _make_fault(terms, kind),
        parse_stream_location(terms, kind),
        parse_trigger(terms, kind),
        parse_selector(terms, kind),
    )
    if rule.selector.streams is False and requires_messages(kind, rule.location):
        raise terms.usage_error(
            f"{kind.name} strikes between the messages of a stream, and stream=false means bodies "
            "without any"
        )
    return rule


def parse_rules(many: Iterable[object]) -> tuple[FaultRule, ...]:
    """The rules of a list.  Raises `UsageError` as `rule_of` does."""
    return tuple(map(_check_rule, many))


def _check_rule(value: object) -> FaultRule:
    if not isinstance(value, str | Mapping):
        raise UsageError("a fault is a text such as reset,after=3, or a mapping with its name")
    return parse_rule(value)


def _kind_named(terms: RuleTerms) -> FaultKind:
    kind = KINDS.get(terms.name)
    if kind is not None:
        return kind
    near = difflib.get_close_matches(terms.name, KINDS, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(KINDS))}"
    raise terms.usage_error(f"there is no fault {terms.name}; {hint}")


def _check_argument_names(terms: RuleTerms, kind: FaultKind) -> None:
    known = (*kind.arguments, *_COMMON)
    for name in terms.arguments:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, 1)
        has = f"; {kind.name} has {', '.join(kind.arguments)}" if kind.arguments else ""
        raise terms.usage_error(
            f"there is no {name}{f'; did you mean {near[0]}?' if near else has}"
        )


def _make_fault(terms: RuleTerms, kind: FaultKind) -> Fault:
    values: dict[str, Any] = {}
    for name, argument in kind.arguments.items():
        text = terms.arguments.get(name, argument.default)
        if name not in terms.arguments and not argument.default:
            if argument.is_required:
                raise terms.usage_error(f"{kind.name} needs {name}: {argument.description}")
            continue
        try:
            values[_python_name(name)] = argument.parse(text)
        except ValueError as error:
            raise terms.usage_error(f"{name}={text} is not {error}") from None
    try:
        return kind.make_fault(**values)
    except ValueError as error:
        raise terms.usage_error(str(error)) from None


def _python_name(name: str) -> str:
    return f"{name}_" if iskeyword(name) else name.replace("-", "_")
