r"""Splits a rule into its name and `name=value` terms.

Commas separate terms, except in double quotes and in parentheses.  Double quotes around a value are
not part of it; inside them `\"` is a quote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy.errors import UsageError, printable_excerpt

_MAX_RULE_CHARS: Final = 2000
_MAX_INTEGER: Final = 2**53
_TERM_PATTERN: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"|\([^()]*\)|[^",(])*')
_NAME_PATTERN: Final = re.compile(r"[a-z][a-z0-9-]*")
_UNQUOTED_PATTERN: Final = re.compile(r'[^",()\s\\][^",()\\]*(?<!\s)')
_MAX_SHOWN_CHARS: Final = 200
_MAX_REASON_CHARS: Final = 1000
_FAULT_KEY: Final = "fault"
"""The key of the fault's name in a mapping."""


@dataclass(frozen=True, slots=True)
class RuleTerms:
    """A rule, split into the fault's name and its arguments."""

    fault_name: str
    arguments: Mapping[str, str]
    text: str
    """The whole rule as text."""

    def usage_error(self, reason: str) -> UsageError:
        """An exception that names this rule and what is wrong with it."""
        return UsageError(
            f"fault '{printable_excerpt(self.text, _MAX_SHOWN_CHARS)}': "
            f"{printable_excerpt(reason, _MAX_REASON_CHARS)}"
        )


def rule_terms_from_text(text: str) -> RuleTerms:
    """Splits a text such as `reset,after=3`.  Raises `UsageError`."""
    shown_text = printable_excerpt(text, _MAX_SHOWN_CHARS)
    if len(text) > _MAX_RULE_CHARS:
        raise UsageError(f"fault '{shown_text}': it is longer than {_MAX_RULE_CHARS} characters")
    if any(map(_is_surrogate, text)):
        raise UsageError(f"fault '{shown_text}': it holds bytes that are no UTF-8")
    name, *terms = (raw_term.strip() for raw_term in _split_at_commas(text))
    if not name:
        raise UsageError(
            f"fault '{shown_text}': write the name of a fault first, such as reset,after=3"
        )
    arguments: dict[str, str] = {}
    for term in terms:
        key, equals, value = term.partition("=")
        key = _normalize_name(key.strip())
        if not equals or _NAME_PATTERN.fullmatch(key) is None:
            raise UsageError(
                f"fault '{shown_text}': '{printable_excerpt(term, _MAX_SHOWN_CHARS)}' is no "
                "term: write name=value, and "
                "put a value that holds a comma in double quotes"
            )
        if key in arguments:
            raise UsageError(f"fault '{shown_text}': {key} is given twice")
        arguments[key] = _unquote(value.strip())
    return RuleTerms(_normalize_name(name), arguments, text.strip())


def rule_terms_from_mapping(mapping: Mapping[Any, Any]) -> RuleTerms:
    """Reads a mapping such as `{fault: reset, after: 3}`.  Raises `UsageError`."""
    arguments: dict[str, str] = {}
    for key, value in mapping.items():
        shown_key = printable_excerpt(str(key), _MAX_SHOWN_CHARS)
        if _NAME_PATTERN.fullmatch(_normalize_name(str(key))) is None:
            raise UsageError(f"a fault has nothing that is called '{shown_key}'")
        match value:
            case bool():
                arguments[str(key)] = str(value).lower()
            case int() if abs(value) > _MAX_INTEGER:
                raise UsageError(f"{shown_key} of a fault is larger than {_MAX_INTEGER}")
            case str() | int() | float():
                arguments[str(key)] = str(value)
            case _:
                raise UsageError(f"{shown_key} of a fault must be text or a number")
    name = arguments.pop(_FAULT_KEY, "")
    if _NAME_PATTERN.fullmatch(_normalize_name(name)) is None:
        raise UsageError("a fault is given by its name: {fault: reset, after: 3}")
    return rule_terms_from_text(format_rule(name, arguments))


def format_rule(fault_name: str, arguments: Mapping[str, str]) -> str:
    """The text of a rule, with quotes where values need them."""
    return ",".join([fault_name, *(f"{key}={_quote(value)}" for key, value in arguments.items())])


def _normalize_name(name: str) -> str:
    return name.lower().replace("_", "-")


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _split_at_commas(text: str) -> list[str]:
    """Raises `UsageError` where a quote or a parenthesis is not closed."""
    terms: list[str] = []
    start = 0
    while True:
        term_match = _TERM_PATTERN.match(text, start)
        end = term_match.end() if term_match is not None else start
        terms.append(text[start:end])
        if end == len(text):
            return terms
        if text[end] != ",":
            unclosed = "quote" if text[end] == '"' else "parenthesis"
            raise UsageError(
                f"fault '{printable_excerpt(text, _MAX_SHOWN_CHARS)}': a {unclosed} is not closed"
            )
        start = end + 1


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)
    return value


def _quote(value: str) -> str:
    if _UNQUOTED_PATTERN.fullmatch(value) or re.fullmatch(r"[a-z]+\([^()\"]*\)", value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
