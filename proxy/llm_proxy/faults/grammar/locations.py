"""Parses a rule's location: where in the stream it applies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.faults.grammar.terms import RuleTerms
from llm_proxy.faults.kind import AT_MESSAGES, STREAMS, FaultKind
from llm_proxy.faults.location import AfterBytes, AfterEvents, AtEvent, AtFraction, AtTime, Place


def _parse_offset_ms(text: str) -> float:
    """A moment: `500` and `500ms` are the same, for the term is called ms."""
    stripped = text.strip()
    return unit_parsers.parse_milliseconds(f"{stripped}ms" if stripped.isdecimal() else stripped)


def _parse_event_type(text: str) -> str:
    if not text.strip():
        raise ValueError("the type of an event, such as message_stop or done")
    return text.strip()


PLACES: Final[Mapping[str, Callable[[str], Place]]] = {
    "after": lambda text: AfterEvents(unit_parsers.parse_count(text)),
    "at": lambda text: AtEvent(_parse_event_type(text)),
    "bytes": lambda text: AfterBytes(unit_parsers.parse_size(text)),
    "ms": lambda text: AtTime(_parse_offset_ms(text)),
    "fraction": lambda text: AtFraction(unit_parsers.parse_share(text)),
}
"""Each place by its word in the grammar."""


def parse_stream_location(terms: RuleTerms, kind: FaultKind) -> Place | None:
    """The place that is given; None where none is.  Raises `UsageError`."""
    named = [name for name in PLACES if name in terms.arguments and name not in kind.arguments]
    if not named:
        return None
    name, *others = named
    if others:
        raise terms.usage_error(
            f"{name} and {others[0]} are both places in the stream: keep one of them"
        )
    if not kind.allowed_locations:
        raise terms.usage_error(f"{kind.name} has no place in the stream: leave {name} out")
    if name not in kind.allowed_locations:
        known = ", ".join(place for place in PLACES if place in kind.allowed_locations)
        raise terms.usage_error(f"{kind.name} cannot be placed by {name}: it can by {known}")
    try:
        return PLACES[name](terms.arguments[name])
    except ValueError as error:
        raise terms.usage_error(f"{name}={terms.arguments[name]} is not {error}") from None


def requires_messages(kind: FaultKind, place: Place | None) -> bool:
    """Whether a rule has no meaning in a body that does not come message by message."""
    word = {AfterEvents: "after", AtEvent: "at"}.get(type(place), "")
    behind = place.events if isinstance(place, AfterEvents) else 1
    return kind.allowed_bodies <= STREAMS or (word in AT_MESSAGES and behind > 0)
