"""The record of an injected fault, for the journal and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FaultEffect(StrEnum):
    """What a fault means to the client that meets it."""

    REFUSED = "refused"
    """An HTTP error, or a page, in place of the answer."""
    UNANSWERED = "unanswered"
    """No head, or nothing behind it, for as long as the client waits."""
    DISCONNECTED = "disconnected"
    """The connection is closed or reset before any answer."""
    STALLED = "stalled"
    """The answer stops, and the connection stays open."""
    CUT = "cut"
    """The body is broken off, and HTTP tells so."""
    TRUNCATED = "truncated"
    """The body ends as HTTP has it, and what it says does not: only the provider's own terminator
    tells."""
    FAILED = "failed"
    """The provider says amid its answer that it failed."""
    MALFORMED = "malformed"
    """Something in the body, or about it, cannot be read."""
    ALTERED = "altered"
    """All can be read, and it is not what the provider said."""
    SLOWED = "slowed"
    """Nothing is wrong but the time that it takes, or the pieces that it comes in."""


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One fault in one answer; also one that was meant for it and has no meaning there."""

    rule: str
    """The rule, as its author spelled it."""
    fault: str
    """The name of the fault."""
    effect: FaultEffect
    at_ms: float = 0.0
    """When it struck, in ms since the request was read in full, as the actions have it."""
    event: int | None = None
    """How many messages of the body came before it; None where it struck before the head."""
    byte: int | None = None
    """How many bytes of the body came before it."""
    skipped: str = ""
    """Why nothing was injected after all; empty where it was."""
