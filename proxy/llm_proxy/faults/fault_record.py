"""The record of an injected fault, for the journal and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FaultEffect(StrEnum):
    """What a fault means to the client."""

    REFUSED = "refused"
    """An HTTP error or an HTML page replaces the response."""
    UNANSWERED = "unanswered"
    """No head, or nothing after it, for as long as the client waits."""
    DISCONNECTED = "disconnected"
    """The connection is closed or reset before any response."""
    STALLED = "stalled"
    """The response stops, and the connection stays open."""
    CUT = "cut"
    """The body is cut off, detectably by HTTP."""
    TRUNCATED = "truncated"
    """The body ends cleanly by HTTP, but too early: only the missing terminator of the provider
    shows it."""
    FAILED = "failed"
    """The provider reports an error in the middle of its response."""
    MALFORMED = "malformed"
    """Something in the body, or in its framing, cannot be parsed."""
    ALTERED = "altered"
    """Everything can be parsed, but it is not what the provider sent."""
    SLOWED = "slowed"
    """Only the timing, or the chunks in which the body arrives, differ."""


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One fault in one response: injected, or skipped because it is not applicable there."""

    rule: str
    """The text of the rule, as its author wrote it."""
    fault: str
    """The name of the fault."""
    effect: FaultEffect
    at_ms: float = 0.0
    """When it was injected, in ms since the request was read in full, by the actions' due times."""
    event: int | None = None
    """How many messages of the body precede it; None where it was injected before the head."""
    byte: int | None = None
    """How many bytes of the body precede it; None where it was injected before the head."""
    skipped: str = ""
    """Why the fault was not injected; empty where it was."""
