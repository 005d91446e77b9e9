r"""Parses fault rules: `reset,after=3,nth=2,model=gpt-4*`.

Commas separate terms, except in double quotes and in parentheses.  Double quotes around a value are
not part of it; inside them `\"` is a quote.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from keyword import iskeyword
from typing import Any, Final

from llm_proxy import dialects, unit_parsers
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.faults.kind import (
    STREAM_CODECS,
    AfterBytes,
    AfterEvents,
    AtEvent,
    AtFraction,
    AtTime,
    FaultKind,
    StreamLocation,
)
from llm_proxy.faults.kinds import FAULT_KINDS
from llm_proxy.faults.rule import FaultRule, Selector, Trigger, matches_pattern

_MAX_RULE_CHARS: Final = 2000
_MAX_PATTERN_CHARS: Final = 200
_MAX_STARS: Final = 8
"""Per pattern: each star makes it slower to match."""
_MAX_INTEGER: Final = 2**53
_MAX_SHOWN_CHARS: Final = 200
_MAX_REASON_CHARS: Final = 1000
_TERM_PATTERN: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"|\([^()]*\)|[^",(])*')
_NAME_PATTERN: Final = re.compile(r"[a-z][a-z0-9-]*")
_UNQUOTED_PATTERN: Final = re.compile(r'[^",()\s\\][^",()\\]*(?<!\s)|[a-z]+\([^()\"]*\)')
_FAULT_KEY: Final = "fault"
"""The key of the fault's name in a mapping."""
_COUNT_SCOPES: Final = ("run", "session", "request")


def _parse_offset_ms(text: str) -> float:
    """Parses a time in ms; the unit may be left out (`ms=500`), since the term is called `ms`."""
    stripped = text.strip()
    return unit_parsers.parse_duration_ms(f"{stripped}ms" if stripped.isdecimal() else stripped)


def _parse_event_type(text: str) -> str:
    if not text.strip():
        raise ValueError("the type of an event, such as message_stop or done")
    return text.strip()


def _parse_positive_count(text: str) -> int:
    number = unit_parsers.parse_count(text)
    if number == 0:
        raise ValueError("a whole number from 1 on")
    return number


def _parse_count_scope(text: str) -> str:
    if text not in _COUNT_SCOPES:
        raise ValueError(f"one of {', '.join(_COUNT_SCOPES)}")
    return text


LOCATION_PARSERS: Final[Mapping[str, Callable[[str], StreamLocation]]] = {
    "after": lambda text: AfterEvents(unit_parsers.parse_count(text)),
    "at": lambda text: AtEvent(_parse_event_type(text)),
    "bytes": lambda text: AfterBytes(unit_parsers.parse_size_bytes(text)),
    "ms": lambda text: AtTime(_parse_offset_ms(text)),
    "fraction": lambda text: AtFraction(unit_parsers.parse_fraction(text)),
}
"""The parser of each kind of location, by its name in rules."""
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
SELECTOR_NAMES: Final = ("dialect", "provider", "model", "path", "session", "stream")
"""The names of the selector's terms in rules."""


def _usage_error(rule_text: str, reason: str) -> UsageError:
    """An exception that names a rule and what is wrong with it."""
    return UsageError(
        f"fault '{printable_excerpt(rule_text, _MAX_SHOWN_CHARS)}': "
        f"{printable_excerpt(reason, _MAX_REASON_CHARS)}"
    )


@dataclass(frozen=True, slots=True)
class _RuleTerms:
    """A rule, split into the fault's name and its terms."""

    fault_name: str
    values: Mapping[str, str]
    """The values of the terms, by name."""
    text: str
    """The whole rule."""

    def error(self, reason: str) -> UsageError:
        return _usage_error(self.text, reason)

    def given(self, names: Iterable[str], kind: FaultKind) -> list[str]:
        """Those of these names that the rule gives, and that are no arguments of the fault."""
        return [name for name in names if name in self.values and name not in kind.arguments]

    def parse(self, name: str, parser: Callable[[str], Any], default: str = "") -> Any:
        text = self.values.get(name, default)
        try:
            return parser(text)
        except ValueError as error:
            raise self.error(f"{name}={text} is not {error}") from None


def parse_rules(specs: Iterable[object]) -> tuple[FaultRule, ...]:
    """Parses a list of rules.  Raises `UsageError` as `parse_rule` does."""
    rules: list[FaultRule] = []
    for spec in specs:
        if not isinstance(spec, str | Mapping):
            raise UsageError("a fault is a text such as reset,after=3, or a mapping with its name")
        rules.append(parse_rule(spec))
    return tuple(rules)


def parse_rule(spec: str | Mapping[Any, Any]) -> FaultRule:
    """Parses a rule from a text or a mapping.

    Raises `UsageError` for an invalid rule, and for one that could never apply.
    """
    terms = _split_terms(spec if isinstance(spec, str) else _mapping_as_text(spec))
    kind = FAULT_KINDS.get(terms.fault_name)
    if kind is None:
        hint = _hint(terms.fault_name, FAULT_KINDS, f"there are {', '.join(sorted(FAULT_KINDS))}")
        raise terms.error(f"there is no fault {terms.fault_name}; {hint}")
    known_names = (*kind.arguments, *LOCATION_PARSERS, *TRIGGER_PARSERS, *SELECTOR_NAMES)
    for name in terms.values:
        if name not in known_names:
            names = ", ".join(kind.arguments)
            hint = _hint(name, known_names, names and f"{kind.name} has {names}")
            raise terms.error(f"there is no {name}{hint and '; '}{hint}")
    arguments: dict[str, Any] = {}
    for name, argument in kind.arguments.items():
        if name in terms.values or argument.default:
            python_name = f"{name}_" if iskeyword(name) else name.replace("-", "_")
            arguments[python_name] = terms.parse(name, argument.parse, argument.default)
        elif argument.is_required:
            raise terms.error(f"{kind.name} needs {name}: {argument.description}")
    try:
        rule = FaultRule(terms.text, kind, arguments)
    except ValueError as error:
        raise terms.error(str(error)) from None
    location = _parse_location(terms, kind)
    trigger, selector = _parse_trigger(terms, kind), _parse_selector(terms, kind)
    needs_messages = kind.allowed_codecs <= STREAM_CODECS or (
        isinstance(location, AfterEvents | AtEvent) and location != AfterEvents(0)
    )
    if selector.streams is False and needs_messages:
        raise terms.error(
            f"{kind.name} strikes between the messages of a stream, and stream=false means bodies "
            "without any"
        )
    return replace(rule, location=location, trigger=trigger, selector=selector)


def _hint(name: str, known_names: Iterable[str], otherwise: str) -> str:
    close_matches = difflib.get_close_matches(name, known_names, 1)
    return f"did you mean {close_matches[0]}?" if close_matches else otherwise


def _parse_location(terms: _RuleTerms, kind: FaultKind) -> StreamLocation | None:
    names = terms.given(LOCATION_PARSERS, kind)
    if not names:
        return None
    name, *others = names
    if others:
        raise terms.error(f"{name} and {others[0]} are both places in the stream: keep one of them")
    if not kind.allowed_locations:
        raise terms.error(f"{kind.name} has no place in the stream: leave {name} out")
    if name not in kind.allowed_locations:
        allowed = [place for place in LOCATION_PARSERS if place in kind.allowed_locations]
        raise terms.error(f"{kind.name} cannot be placed by {name}: it can by {', '.join(allowed)}")
    location: StreamLocation = terms.parse(name, LOCATION_PARSERS[name])
    return location


def _parse_trigger(terms: _RuleTerms, kind: FaultKind) -> Trigger:
    names = terms.given(TRIGGER_PARSERS, kind)
    if names and kind.scope != "request":
        raise terms.error(f"{kind.name} has occasions of its own: leave {names[0]} out")
    values = {name: terms.parse(name, TRIGGER_PARSERS[name]) for name in names}
    count_names = [name for name in ("nth", "first", "every") if name in values]
    if len(count_names) > 1:
        raise terms.error(f"{count_names[0]} and {count_names[1]} both count: keep one of them")
    if "per" in values and not count_names:
        raise terms.error("per says what nth, first and every count: give one of them, too")
    return Trigger(**values)


def _parse_selector(terms: _RuleTerms, kind: FaultKind) -> Selector:
    names = terms.given(SELECTOR_NAMES, kind)
    if names and kind.scope == "listener":
        raise terms.error(f"{kind.name} is for all clients alike: leave {names[0]} out")
    patterns = {name: terms.values[name] for name in names if name != "stream"}
    for name, pattern in patterns.items():
        if not pattern:
            raise terms.error(f"{name} is empty: name one, or a pattern such as gpt-4*")
        if len(pattern) > _MAX_PATTERN_CHARS:
            raise terms.error(f"{name} is longer than {_MAX_PATTERN_CHARS} characters")
        if pattern.count("*") > _MAX_STARS:
            raise terms.error(f"{name} has more than {_MAX_STARS} stars")
    if "dialect" in patterns:
        pattern = patterns["dialect"]
        dialect_names = [dialect.name for dialect in (*dialects.DIALECTS, dialects.OPAQUE)]
        if not any(matches_pattern(name, pattern) for name in dialect_names):
            hint = _hint(pattern, dialect_names, f"there are {', '.join(dialect_names)}")
            raise terms.error(f"there is no dialect {pattern}; {hint}")
    streams = terms.parse("stream", unit_parsers.parse_bool) if "stream" in names else None
    return Selector(**patterns, streams=streams)


def _split_terms(text: str) -> _RuleTerms:
    """Splits a text such as `reset,after=3`."""
    if len(text) > _MAX_RULE_CHARS:
        raise _usage_error(text, f"it is longer than {_MAX_RULE_CHARS} characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _usage_error(text, "it holds bytes that are no UTF-8")
    raw_terms: list[str] = []
    start = 0
    while True:
        term_match = _TERM_PATTERN.match(text, start)
        end = term_match.end() if term_match is not None else start
        raw_terms.append(text[start:end].strip())
        if end == len(text):
            break
        if text[end] != ",":
            unclosed = "quote" if text[end] == '"' else "parenthesis"
            raise _usage_error(text, f"a {unclosed} is not closed")
        start = end + 1
    fault_name, *terms = raw_terms
    if not fault_name:
        raise _usage_error(text, "write the name of a fault first, such as reset,after=3")
    values: dict[str, str] = {}
    for term in terms:
        raw_name, equals, value = term.partition("=")
        name, value = _normalize_name(raw_name.strip()), value.strip()
        if not equals or _NAME_PATTERN.fullmatch(name) is None:
            raise _usage_error(
                text,
                f"'{printable_excerpt(term, _MAX_SHOWN_CHARS)}' is no term: write name=value, and "
                "put a value that holds a comma in double quotes",
            )
        if name in values:
            raise _usage_error(text, f"{name} is given twice")
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)
        values[name] = value
    return _RuleTerms(_normalize_name(fault_name), values, text.strip())


def _mapping_as_text(mapping: Mapping[Any, Any]) -> str:
    """The text of a rule such as `{fault: reset, after: 3}`, with quotes where values need them."""
    values: dict[str, str] = {}
    for key, value in mapping.items():
        shown_key = printable_excerpt(str(key), _MAX_SHOWN_CHARS)
        if _NAME_PATTERN.fullmatch(_normalize_name(str(key))) is None:
            raise UsageError(f"a fault has nothing that is called '{shown_key}'")
        match value:
            case bool():
                values[str(key)] = str(value).lower()
            case int() if abs(value) > _MAX_INTEGER:
                raise UsageError(f"{shown_key} of a fault is larger than {_MAX_INTEGER}")
            case str() | int() | float():
                values[str(key)] = str(value)
            case _:
                raise UsageError(f"{shown_key} of a fault must be text or a number")
    fault_name = values.pop(_FAULT_KEY, "")
    if _NAME_PATTERN.fullmatch(_normalize_name(fault_name)) is None:
        raise UsageError("a fault is given by its name: {fault: reset, after: 3}")
    return ",".join([fault_name, *(f"{key}={_quote(value)}" for key, value in values.items())])


def _normalize_name(name: str) -> str:
    return name.lower().replace("_", "-")


def _quote(value: str) -> str:
    if _UNQUOTED_PATTERN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
