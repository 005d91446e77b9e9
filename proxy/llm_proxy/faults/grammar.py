r"""Parses fault rules: `reset,after=3,nth=2,model=gpt-4*`.

Commas separate terms, except in double quotes and in parentheses.  Double quotes around a value are
not part of it; inside them `\"` is a quote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from keyword import iskeyword
from typing import Any, Final

from llm_proxy import dialects
from llm_proxy.errors import UsageError, name_hint, printable_excerpt
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
from llm_proxy.unit_parsers import (
    parse_bool,
    parse_count,
    parse_duration_ms,
    parse_fraction,
    parse_positive_count,
    parse_size_bytes,
    parse_window_ms,
)

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


def _parse_event_type(text: str) -> str:
    if not text.strip():
        raise ValueError("an event type such as message_stop or done")
    return text.strip()


def _parse_count_scope(text: str) -> str:
    if text not in _COUNT_SCOPES:
        raise ValueError(f"one of {', '.join(_COUNT_SCOPES)}")
    return text


LOCATION_PARSERS: Final[Mapping[str, Callable[[str], StreamLocation]]] = {
    "after": lambda text: AfterEvents(parse_count(text)),
    "at": lambda text: AtEvent(_parse_event_type(text)),
    "bytes": lambda text: AfterBytes(parse_size_bytes(text)),
    "ms": lambda text: AtTime(parse_duration_ms(text, "ms")),
    "fraction": lambda text: AtFraction(parse_fraction(text)),
}
"""The parser of each kind of location, by its name in rules."""
TRIGGER_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "nth": parse_positive_count,
    "first": parse_positive_count,
    "every": parse_positive_count,
    "probability": parse_fraction,
    "window": parse_window_ms,
    "times": parse_positive_count,
    "per": _parse_count_scope,
}
"""The parser of each trigger term, by its name in rules."""
SELECTOR_NAMES: Final = ("dialect", "provider", "model", "path", "session", "stream")
"""The names of the selector's terms in rules."""


def parse_rules(specs: Iterable[object]) -> tuple[FaultRule, ...]:
    """Parses a list of rules.  Raises `UsageError` as `parse_rule` does."""
    rules: list[FaultRule] = []
    for spec in specs:
        if not isinstance(spec, str | Mapping):
            raise UsageError(
                "each rule must be a string such as reset,after=3, or a mapping with the key fault"
            )
        rules.append(parse_rule(spec))
    return tuple(rules)


def parse_rule(spec: str | Mapping[Any, Any]) -> FaultRule:
    """Parses a rule from a text or a mapping.

    Raises `UsageError` for an invalid rule, and for one that could never apply.
    """
    text = (spec if isinstance(spec, str) else _mapping_as_text(spec)).strip()
    try:
        return _parse_rule_text(text)
    except UsageError as error:
        raise UsageError(
            f"fault '{printable_excerpt(text, _MAX_SHOWN_CHARS)}': "
            f"{printable_excerpt(str(error), _MAX_REASON_CHARS)}"
        ) from None


def _parse_rule_text(text: str) -> FaultRule:
    """Raises `UsageError` with the reason alone, as all functions that it calls do."""
    written_fault_name, terms = _split_terms(text)
    fault_name = _normalize_name(written_fault_name)
    kind = FAULT_KINDS.get(fault_name)
    if kind is None:
        hint = name_hint(fault_name, sorted(FAULT_KINDS))
        # As it was written: redaction would not recognise a secret in lower case.
        raise UsageError(f"unknown fault '{written_fault_name}'; {hint}")
    known_names = (*kind.arguments, *LOCATION_PARSERS, *TRIGGER_PARSERS, *SELECTOR_NAMES)
    values: dict[str, str] = {}
    for written_name, written_value in terms:
        name = _normalize_name(written_name)
        if name not in known_names:
            names = ", ".join(kind.arguments)
            hint = name_hint(name, known_names, names and f"{kind.name} takes {names}")
            raise UsageError(f"unknown term '{written_name}'{hint and '; '}{hint}")
        if name in values:
            raise UsageError(f"{name}= is set twice")
        values[name] = written_value
    arguments: dict[str, Any] = {}
    for name, argument in kind.arguments.items():
        if name in values or argument.default:
            python_name = f"{name}_" if iskeyword(name) else name.replace("-", "_")
            value = values.pop(name, argument.default)
            arguments[python_name] = _parse_value(name, value, argument.parse)
        elif argument.is_required:
            raise UsageError(f"{kind.name} requires {name}= ({argument.description})")
    rule = FaultRule(text, kind, arguments)
    location = _parse_location(kind, values)
    trigger, selector = _parse_trigger(kind, values), _parse_selector(kind, values)
    needs_messages = kind.allowed_codecs <= STREAM_CODECS or (
        isinstance(location, AfterEvents | AtEvent) and location != AfterEvents(0)
    )
    if selector.streams is False and needs_messages:
        raise UsageError(f"this {kind.name} rule applies only to streams; remove stream=false")
    return replace(rule, location=location, trigger=trigger, selector=selector)


def _parse_value(name: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{name}={text} is not {error}") from None


def _parse_location(kind: FaultKind, values: Mapping[str, str]) -> StreamLocation | None:
    names = [name for name in LOCATION_PARSERS if name in values]
    if not names:
        return None
    name, *others = names
    if others:
        raise UsageError(f"{name}= and {others[0]}= both set the fault's location; remove one")
    if not kind.allowed_locations:
        raise UsageError(f"{kind.name} does not support a location; remove {name}=")
    if name not in kind.allowed_locations:
        allowed = [f"{place}=" for place in LOCATION_PARSERS if place in kind.allowed_locations]
        raise UsageError(f"{kind.name} does not support {name}=; use {' or '.join(allowed)}")
    location: StreamLocation = _parse_value(name, values[name], LOCATION_PARSERS[name])
    return location


def _parse_trigger(kind: FaultKind, values: Mapping[str, str]) -> Trigger:
    names = [name for name in TRIGGER_PARSERS if name in values]
    if names and kind.scope != "request":
        raise UsageError(f"{kind.name} does not support {names[0]}=; remove it")
    conditions = {name: _parse_value(name, values[name], TRIGGER_PARSERS[name]) for name in names}
    count_names = [name for name in ("nth", "first", "every") if name in conditions]
    if len(count_names) > 1:
        raise UsageError(
            f"{count_names[0]}= and {count_names[1]}= cannot be combined; remove one of them"
        )
    if "per" in conditions and not count_names:
        raise UsageError("per= requires nth=, first= or every=")
    return Trigger(**conditions)


def _parse_selector(kind: FaultKind, values: Mapping[str, str]) -> Selector:
    patterns = {name: values[name] for name in SELECTOR_NAMES if name in values}
    if patterns and kind.scope == "listener":
        raise UsageError(f"{kind.name} affects all clients; remove {next(iter(patterns))}=")
    streams = patterns.pop("stream", None)
    for name, pattern in patterns.items():
        if not pattern:
            raise UsageError(f"{name}= is empty; set a value or pattern, such as model=gpt-4*")
        if len(pattern) > _MAX_PATTERN_CHARS:
            raise UsageError(f"the value of {name}= is longer than {_MAX_PATTERN_CHARS} characters")
        if pattern.count("*") > _MAX_STARS:
            raise UsageError(f"the value of {name}= contains more than {_MAX_STARS} asterisks")
    if "dialect" in patterns:
        pattern = patterns["dialect"]
        dialect_names = [dialect.name for dialect in (*dialects.DIALECTS, dialects.OPAQUE)]
        if not any(matches_pattern(name, pattern) for name in dialect_names):
            hint = name_hint(pattern, dialect_names, f"known: {', '.join(dialect_names)}")
            raise UsageError(f"unknown dialect '{pattern}'; {hint}")
    return Selector(
        **patterns,
        streams=streams if streams is None else _parse_value("stream", streams, parse_bool),
    )


def _split_terms(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The fault's name and the terms, as (name, value), of a text such as `reset,after=3`."""
    if len(text) > _MAX_RULE_CHARS:
        raise UsageError(f"the rule is longer than {_MAX_RULE_CHARS} characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError("the rule contains bytes that are not valid UTF-8")
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
            raise UsageError(f"a {unclosed} is not closed")
        start = end + 1
    fault_name, *terms = raw_terms
    if not fault_name:
        raise UsageError(
            "the fault name is missing; begin the rule with a name, as in reset,after=3"
        )
    named_values: list[tuple[str, str]] = []
    for term in terms:
        name, equals, value = (part.strip() for part in term.partition("="))
        if not equals or _NAME_PATTERN.fullmatch(_normalize_name(name)) is None:
            raise UsageError(
                f"'{printable_excerpt(term, _MAX_SHOWN_CHARS)}' is not a valid term; write "
                "name=value, and put a value that contains a comma in double quotes"
            )
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)
        named_values.append((name, value))
    return fault_name, named_values


def _mapping_as_text(mapping: Mapping[Any, Any]) -> str:
    """The text of a rule such as `{fault: reset, after: 3}`, with quotes where values need them."""
    values: dict[str, str] = {}
    for key, value in mapping.items():
        shown_key = printable_excerpt(str(key), _MAX_SHOWN_CHARS)
        if _NAME_PATTERN.fullmatch(_normalize_name(str(key))) is None:
            raise UsageError(f"'{shown_key}' is not a valid term name")
        match value:
            case bool():
                values[str(key)] = str(value).lower()
            case int() if abs(value) > _MAX_INTEGER:
                raise UsageError(f"the value of '{shown_key}' is larger than {_MAX_INTEGER}")
            case str() | int() | float():
                values[str(key)] = str(value)
            case _:
                raise UsageError(
                    f"the value of '{shown_key}' must be a string, a number or a boolean"
                )
    fault_name = values.pop(_FAULT_KEY, "")
    if _NAME_PATTERN.fullmatch(_normalize_name(fault_name)) is None:
        raise UsageError(
            "the fault name is missing; add the key fault, as in {fault: reset, after: 3}"
        )
    return ",".join([fault_name, *(f"{key}={_quote(value)}" for key, value in values.items())])


def _normalize_name(name: str) -> str:
    return name.lower().replace("_", "-")


def _quote(value: str) -> str:
    if _UNQUOTED_PATTERN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
