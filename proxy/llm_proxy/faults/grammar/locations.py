"""Parses a rule's location: where in the stream its fault is injected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.faults.grammar.terms import RuleTerms
from llm_proxy.faults.kind import MESSAGE_LOCATIONS, STREAM_CODECS, FaultKind
from llm_proxy.faults.location import (
    AfterBytes,
    AfterEvents,
    AtEvent,
    AtFraction,
    AtTime,
    StreamLocation,
)


def _parse_offset_ms(text: str) -> float:
    """Parses a time in ms; the unit may be left out (`ms=500`), since the term is called `ms`."""
    stripped = text.strip()
    return unit_parsers.parse_duration_ms(f"{stripped}ms" if stripped.isdecimal() else stripped)


def _parse_event_type(text: str) -> str:
    if not text.strip():
        raise ValueError("the type of an event, such as message_stop or done")
    return text.strip()


LOCATION_PARSERS: Final[Mapping[str, Callable[[str], StreamLocation]]] = {
    "after": lambda text: AfterEvents(unit_parsers.parse_count(text)),
    "at": lambda text: AtEvent(_parse_event_type(text)),
    "bytes": lambda text: AfterBytes(unit_parsers.parse_size_bytes(text)),
    "ms": lambda text: AtTime(_parse_offset_ms(text)),
    "fraction": lambda text: AtFraction(unit_parsers.parse_fraction(text)),
}
"""The parser of each kind of location, by its name in rules."""


def parse_location(terms: RuleTerms, kind: FaultKind) -> StreamLocation | None:
    """The location in a rule's terms; None without one.  Raises `UsageError`."""
    given_names = [
        name for name in LOCATION_PARSERS if name in terms.arguments and name not in kind.arguments
    ]
    if not given_names:
        return None
    name, *others = given_names
    if others:
        raise terms.usage_error(
            f"{name} and {others[0]} are both places in the stream: keep one of them"
        )
    if not kind.allowed_locations:
        raise terms.usage_error(f"{kind.name} has no place in the stream: leave {name} out")
    if name not in kind.allowed_locations:
        allowed_names = ", ".join(
            place for place in LOCATION_PARSERS if place in kind.allowed_locations
        )
        raise terms.usage_error(
            f"{kind.name} cannot be placed by {name}: it can by {allowed_names}"
        )
    try:
        return LOCATION_PARSERS[name](terms.arguments[name])
    except ValueError as error:
        raise terms.usage_error(f"{name}={terms.arguments[name]} is not {error}") from None


def requires_framed_messages(kind: FaultKind, location: StreamLocation | None) -> bool:
    """Whether a fault at this location applies only to bodies that consist of messages."""
    location_name = {AfterEvents: "after", AtEvent: "at"}.get(type(location), "")
    event_count = location.event_count if isinstance(location, AfterEvents) else 1
    return kind.allowed_codecs <= STREAM_CODECS or (
        location_name in MESSAGE_LOCATIONS and event_count > 0
    )
