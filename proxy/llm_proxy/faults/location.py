"""Locations in the stream of a response."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AfterEvents:
    """Behind so many messages of the body."""

    events: int


@dataclass(frozen=True, slots=True)
class AfterBytes:
    """Behind so many bytes of the body, wherever that is: within a character, too."""

    size: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """So many ms after the request was read in full."""

    ms: float


@dataclass(frozen=True, slots=True)
class AtFraction:
    """Behind this share of the body's bytes."""

    share: float


@dataclass(frozen=True, slots=True)
class AtEvent:
    """Before the first message of this type."""

    type: str


Place = AfterEvents | AfterBytes | AtTime | AtFraction | AtEvent
"""Where in a stream a fault strikes."""
