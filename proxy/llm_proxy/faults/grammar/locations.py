"""Where in the stream a fault strikes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.faults.grammar.terms import Terms
from llm_proxy.faults.kind import AT_MESSAGES, STREAMS, Kind
from llm_proxy.faults.location import AfterBytes, AfterEvents, AtEvent, AtFraction, AtTime, Place


def _milliseconds(text: str) -> float:
    """A moment: `500` and `500ms` are the same, for the term is called ms."""
    stripped = text.strip()
    return unit_parsers.milliseconds(f"{stripped}ms" if stripped.isdecimal() else stripped)


def _type(text: str) -> str:
    if not text.strip():
        raise ValueError("the type of an event, such as message_stop or done")
    return text.strip()


PLACES: Final[Mapping[str, Callable[[str], Place]]] = {
    "after": lambda text: AfterEvents(unit_parsers.count(text)),
    "at": lambda text: AtEvent(_type(text)),
    "bytes": lambda text: AfterBytes(unit_parsers.size(text)),
    "ms": lambda text: AtTime(_milliseconds(text)),
    "fraction": lambda text: AtFraction(unit_parsers.share(text)),
}
"""Each place by its word in the grammar."""


def place_of(terms: Terms, kind: Kind) -> Place | None:
    """The place that is given; None where none is.  Raises `UsageError`."""
    named = [name for name in PLACES if name in terms.given and name not in kind.arguments]
    if not named:
        return None
    name, *others = named
    if others:
        raise terms.wrong(f"{name} and {others[0]} are both places in the stream: keep one of them")
    if not kind.places:
        raise terms.wrong(f"{kind.name} has no place in the stream: leave {name} out")
    if name not in kind.places:
        known = ", ".join(it for it in PLACES if it in kind.places)
        raise terms.wrong(f"{kind.name} cannot be placed by {name}: it can by {known}")
    try:
        return PLACES[name](terms.given[name])
    except ValueError as error:
        raise terms.wrong(f"{name}={terms.given[name]} is not {error}") from None


def needs_messages(kind: Kind, place: Place | None) -> bool:
    """Whether a rule has no meaning in a body that does not come message by message."""
    word = {AfterEvents: "after", AtEvent: "at"}.get(type(place), "")
    behind = place.events if isinstance(place, AfterEvents) else 1
    return kind.bodies <= STREAMS or (word in AT_MESSAGES and behind > 0)
