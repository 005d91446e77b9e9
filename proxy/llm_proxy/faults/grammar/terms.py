r"""Splits a rule into its name and `name=value` terms.

Commas part terms, except between double quotes and within parentheses.  Double quotes around a
value are no part of it; within them `\"` stands for one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy.errors import UsageError, printable

_LONGEST: Final = 2000
"""Characters of a rule."""
_LARGEST: Final = 2**53
"""Of a whole number."""
_TERM: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"|\([^()]*\)|[^",(])*')
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_PLAIN: Final = re.compile(r'[^",()\s\\][^",()\\]*(?<!\s)')
_SHOWN: Final = 200
_WHY: Final = 1000
"""Characters of a reason."""
_FAULT: Final = "fault"
"""What the name of the fault is called in a mapping."""


@dataclass(frozen=True, slots=True)
class RuleTerms:
    """A rule in terms."""

    name: str
    """Of the fault."""
    arguments: Mapping[str, str]
    text: str
    """All of it, as text."""

    def usage_error(self, why: str) -> UsageError:
        """What is wrong with it."""
        return UsageError(f"fault '{printable(self.text, _SHOWN)}': {printable(why, _WHY)}")


def parse_text(text: str) -> RuleTerms:
    """The terms of a text.  Raises `UsageError`."""
    short = printable(text, _SHOWN)
    if len(text) > _LONGEST:
        raise UsageError(f"fault '{short}': it is longer than {_LONGEST} characters")
    if any(map(_is_surrogate, text)):
        raise UsageError(f"fault '{short}': it holds bytes that are no UTF-8")
    name, *terms = (split_at_comma.strip() for split_at_comma in _split_at_commas(text))
    if not name:
        raise UsageError(f"fault '{short}': write the name of a fault first, such as reset,after=3")
    fields: dict[str, str] = {}
    for term in terms:
        key, equals, value = term.partition("=")
        key = _normalize_name(key.strip())
        if not equals or _NAME.fullmatch(key) is None:
            raise UsageError(
                f"fault '{short}': '{printable(term, _SHOWN)}' is no term: write name=value, and "
                "put a value that holds a comma in double quotes"
            )
        if key in fields:
            raise UsageError(f"fault '{short}': {key} is given twice")
        fields[key] = _unquote(value.strip())
    return RuleTerms(_normalize_name(name), fields, text.strip())


def parse_mapping(mapping: Mapping[Any, Any]) -> RuleTerms:
    """The terms of a mapping such as `{fault: reset, after: 3}`.  Raises `UsageError`."""
    texts: dict[str, str] = {}
    for key, value in mapping.items():
        shown = printable(str(key), _SHOWN)
        if _NAME.fullmatch(_normalize_name(str(key))) is None:
            raise UsageError(f"a fault has nothing that is called '{shown}'")
        match value:
            case bool():
                texts[str(key)] = str(value).lower()
            case int() if abs(value) > _LARGEST:
                raise UsageError(f"{shown} of a fault is larger than {_LARGEST}")
            case str() | int() | float():
                texts[str(key)] = str(value)
            case _:
                raise UsageError(f"{shown} of a fault must be text or a number")
    name = texts.pop(_FAULT, "")
    if _NAME.fullmatch(_normalize_name(name)) is None:
        raise UsageError("a fault is given by its name: {fault: reset, after: 3}")
    return parse_text(terms_text(name, texts))


def terms_text(name: str, fields: Mapping[str, str]) -> str:
    """The text of these terms."""
    return ",".join([name, *(f"{key}={_quote(value)}" for key, value in fields.items())])


def _normalize_name(name: str) -> str:
    return name.lower().replace("_", "-")


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _split_at_commas(text: str) -> list[str]:
    """The text at its commas.  Raises `UsageError` where a quote or a parenthesis is open."""
    terms: list[str] = []
    at = 0
    while True:
        found = _TERM.match(text, at)
        end = found.end() if found is not None else at
        terms.append(text[at:end])
        if end == len(text):
            return terms
        if text[end] != ",":
            what = "quote" if text[end] == '"' else "parenthesis"
            raise UsageError(f"fault '{printable(text, _SHOWN)}': a {what} is not closed")
        at = end + 1


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)
    return value


def _quote(value: str) -> str:
    if _PLAIN.fullmatch(value) or re.fullmatch(r"[a-z]+\([^()\"]*\)", value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
