"""Locations in the stream of a response."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AfterEvents:
    """After this many messages of the body."""

    event_count: int


@dataclass(frozen=True, slots=True)
class AfterBytes:
    """After this many bytes of the body, even within a message or a character."""

    byte_count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """At this time, in ms since the request was read in full."""

    ms: float


@dataclass(frozen=True, slots=True)
class AtFraction:
    """After this fraction (0 to 1) of the body's bytes."""

    fraction: float


@dataclass(frozen=True, slots=True)
class AtEvent:
    """Before the first message of this event type."""

    type: str


StreamLocation = AfterEvents | AfterBytes | AtTime | AtFraction | AtEvent
"""Where in the stream of a response a fault is injected."""
