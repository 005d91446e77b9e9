"""Parses complete rules."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from keyword import iskeyword
from typing import Any, Final

from llm_proxy.errors import UsageError
from llm_proxy.faults.grammar.locations import (
    LOCATION_PARSERS,
    parse_location,
    requires_framed_messages,
)
from llm_proxy.faults.grammar.selectors import SELECTOR_NAMES, parse_selector
from llm_proxy.faults.grammar.terms import RuleTerms, rule_terms_from_mapping, rule_terms_from_text
from llm_proxy.faults.grammar.triggers import TRIGGER_PARSERS, parse_trigger
from llm_proxy.faults.kind import Fault, FaultKind
from llm_proxy.faults.kinds import FAULT_KINDS
from llm_proxy.faults.rule import FaultRule

_COMMON_TERM_NAMES: Final = (*LOCATION_PARSERS, *TRIGGER_PARSERS, *SELECTOR_NAMES)


def parse_rule(text: str | Mapping[Any, Any]) -> FaultRule:
    """Parses a rule from a text or a mapping.

    Raises `UsageError` for an invalid rule, and for one that could never apply.
    """
    terms = rule_terms_from_text(text) if isinstance(text, str) else rule_terms_from_mapping(text)
    kind = _find_kind(terms)
    _check_argument_names(terms, kind)
    rule = FaultRule(
        terms.text,
        kind,
        _make_fault(terms, kind),
        parse_location(terms, kind),
        parse_trigger(terms, kind),
        parse_selector(terms, kind),
    )
    if rule.selector.streams is False and requires_framed_messages(kind, rule.location):
        raise terms.usage_error(
            f"{kind.name} strikes between the messages of a stream, and stream=false means bodies "
            "without any"
        )
    return rule


def parse_rules(specs: Iterable[object]) -> tuple[FaultRule, ...]:
    """Parses a list of rules.  Raises `UsageError` as `parse_rule` does."""
    return tuple(map(_parse_rule_spec, specs))


def _parse_rule_spec(spec: object) -> FaultRule:
    if not isinstance(spec, str | Mapping):
        raise UsageError("a fault is a text such as reset,after=3, or a mapping with its name")
    return parse_rule(spec)


def _find_kind(terms: RuleTerms) -> FaultKind:
    kind = FAULT_KINDS.get(terms.fault_name)
    if kind is not None:
        return kind
    close_matches = difflib.get_close_matches(terms.fault_name, FAULT_KINDS, 1)
    hint = (
        f"did you mean {close_matches[0]}?"
        if close_matches
        else f"there are {', '.join(sorted(FAULT_KINDS))}"
    )
    raise terms.usage_error(f"there is no fault {terms.fault_name}; {hint}")


def _check_argument_names(terms: RuleTerms, kind: FaultKind) -> None:
    known_names = (*kind.arguments, *_COMMON_TERM_NAMES)
    for name in terms.arguments:
        if name in known_names:
            continue
        close_matches = difflib.get_close_matches(name, known_names, 1)
        argument_hint = f"; {kind.name} has {', '.join(kind.arguments)}" if kind.arguments else ""
        raise terms.usage_error(
            "there is no "
            f"{name}{f'; did you mean {close_matches[0]}?' if close_matches else argument_hint}"
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
