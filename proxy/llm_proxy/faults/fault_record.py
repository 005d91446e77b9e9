"""The record of an injected fault, for the journal and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec

BoundedMs = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
"""Milliseconds, within limits that sums and differences keep finite."""
BoundedInt = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
"""An integer that every JSON implementation represents exactly."""


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

    rule: str = ""
    """The text of the rule, as its author wrote it."""
    fault: str = ""
    """The name of the fault."""
    effect: str = ""
    """A `FaultEffect`; in a journal of a later version perhaps another, which no rule judges."""
    at_ms: BoundedMs = 0.0
    """When it was injected, in ms since the request was read in full, by the actions' due times."""
    event: BoundedInt | None = None
    """How many messages of the body precede it; None where it was injected before the head."""
    byte: BoundedInt | None = None
    """How many bytes of the body precede it; None where it was injected before the head."""
    skipped: str = ""
    """Why the fault was not injected; empty where it was."""
