"""The journal of a run as one JSON document: its entries, and its parser.

Unknown fields are ignored, and nearly every field has a default, so that a journal of another
version can be judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import msgspec

from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.faults.fault_record import BoundedInt, BoundedMs, FaultEffect, FaultRecord
from llm_proxy.miss_report import MissReport

ENDING_SENT: Final = "sent"
ENDING_CUT: Final = "cut"
ENDING_CLIENT_GONE: Final = "client_gone"
"""The endings of responses in the journal; a response that is not over has an empty one."""

_HARMLESS_EFFECTS: Final = frozenset((FaultEffect.ALTERED, FaultEffect.SLOWED))
"""The effects after which a response is usable, so that no retry is needed."""
_SCRIPTED_FAILURE_EFFECTS: Final = {
    "timeout": FaultEffect.UNANSWERED,
    "invalid_response": FaultEffect.MALFORMED,
}
"""The effects of scripted failures, where the status does not show them."""
_MAX_ERROR_CHARS: Final = 300
"""The most characters of a parser's error in a message."""


@dataclass(frozen=True, slots=True)
class SimulatedDetails:
    """The journal's details of a simulated response."""

    source: str = ""
    finish: str = ""
    """The provider-independent finish reason; empty for a failure."""
    tool_calls: tuple[str, ...] = ()
    """The names of the tools in its tool calls."""
    chunks: int = 0
    """The messages of its body: the events of a stream, 1 for a single document."""
    failure: str = ""
    """The status, or the name, of a scripted failure; empty if it is none."""
    unsuccessful: str = ""
    """Why its session has failed; empty if it has not."""
    notes: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    """The scenario's metadata for the turn, by provider."""


@dataclass(slots=True)
class JournalEntry:
    """One request and its response: an attempt of a client, to the verdict."""

    number: BoundedInt
    session: str = ""
    method: str = ""
    path: str = ""
    provider: str = ""
    dialect: str = ""
    model: str = ""
    key: str = ""
    """The first 16 hex digits of the request's key."""
    origin: str = ""
    """`live`, a cassette's file, the simulation's source, `fault`, `miss`, `error` or `refused`."""
    status: BoundedInt = 0
    """0 where no head was sent."""
    bytes: BoundedInt = 0
    """Body bytes sent."""
    ms: BoundedMs = 0.0
    """Time from the request read in full to the last byte, in ms."""
    late_mean_ms: BoundedMs = 0.0
    late_worst_ms: BoundedMs = 0.0
    timed_writes: BoundedInt = 0
    """Writes that had a due time, which the lateness refers to; 0 also where that is unknown."""
    pace: str = ""
    """The pace of the response in the pace grammar; empty if it had none."""
    ending: str = ""
    """`sent`, `cut` (by an `Abort`, an internal error or a stop) or `client_gone`; empty before."""
    note: str = ""
    """A sentence on what went wrong."""
    simulated: SimulatedDetails | None = None
    """Details of a simulated response; None for any other."""
    at_ms: BoundedMs = 0.0
    """When the request was read in full, in ms since the run began."""
    streams: bool = False
    """Whether the client requested a stream."""
    retry_count: BoundedInt | None = None
    """The SDK's count of previous attempts; None if it sends none."""
    retry_after_ms: BoundedMs | None = None
    """The wait that the response's headers request; None if they request none."""
    should_retry: bool | None = None
    """The response's `x-should-retry`; None if it has none."""
    faults: tuple[FaultRecord, ...] = ()
    """The faults that were injected or skipped."""
    similarity: BoundedMs | None = None
    """Similarity from 0 to 1 of the nearest cassette, if it was replayed; None otherwise."""
    replaced_values: BoundedInt = 0
    """How many recorded values were replaced by this client's values."""
    continues: BoundedInt | None = None
    """The number of the entry whose response, spoiled by a fault, is in this request's history."""

    @property
    def is_over(self) -> bool:
        """Whether its response has ended, in any way."""
        return bool(self.ending) or self.status >= HTTPStatus.BAD_REQUEST

    @property
    def ended_at_ms(self) -> float:
        """When its response ended, in ms since the run began."""
        return self.at_ms + self.ms

    @property
    def injected_faults(self) -> tuple[FaultRecord, ...]:
        """The faults that the client received, scripted failures included.

        Without skipped faults, and without those before which the client had disconnected.
        """
        faults = [*self.faults]
        if self.simulated is not None and (failure := self.simulated.failure):
            effect = _SCRIPTED_FAILURE_EFFECTS.get(failure)
            if effect is None and self.status >= HTTPStatus.BAD_REQUEST:
                effect = FaultEffect.REFUSED
            effect = effect or (FaultEffect.CUT if self.status else FaultEffect.DISCONNECTED)
            faults.append(FaultRecord(f"{self.simulated.source}: {failure}", failure, effect))
        left_at_ms = self.ms if self.ending == ENDING_CLIENT_GONE else float("inf")
        return tuple(fault for fault in faults if not fault.skipped and fault.at_ms <= left_at_ms)

    @property
    def skipped_faults(self) -> tuple[FaultRecord, ...]:
        """The faults that were not applicable to this response."""
        return tuple(fault for fault in self.faults if fault.skipped)

    @property
    def needs_retry(self) -> bool:
        """Whether a client has to retry to get a usable response."""
        return (
            any(fault.effect not in _HARMLESS_EFFECTS for fault in self.injected_faults)
            or self.status >= HTTPStatus.BAD_REQUEST
            or self.ending == ENDING_CUT
        )

    def first_fault_with_effect(self, *effects: FaultEffect) -> FaultRecord | None:
        """The first fault with one of these effects that the client received."""
        return next((fault for fault in self.injected_faults if fault.effect in effects), None)


ListenerClosure = tuple[BoundedMs, BoundedMs | None]
"""When the fault `refuse` closed the listener and when it was reopened, in ms since the run began.

The second is None while it is closed."""


@dataclass(frozen=True, slots=True)
class FaultRuleCount:
    """How often a fault rule of the run matched a request, and injected its fault."""

    rule: str
    matched: BoundedInt = 0
    injected: BoundedInt = 0


class JournalDocument(msgspec.Struct, frozen=True, rename={"request_count": "requests"}):
    """A journal document."""

    entries: tuple[JournalEntry, ...]
    """The latest requests."""
    request_count: BoundedInt = 0
    """The number of all requests, including those that the journal no longer contains."""
    faults: tuple[FaultRuleCount, ...] = ()
    listener_closures: tuple[ListenerClosure, ...] = ()
    """While the listener is closed, requests are refused without an entry."""
    misses: tuple[MissReport, ...] = ()
    """The latest requests without a matching cassette."""


def parse_journal(document: bytes, source_name: str) -> JournalDocument:
    """Parses a journal document.

    Raises `UsageError` for invalid documents; `source_name` is the file or URL for its message.
    """
    try:
        return msgspec.json.decode(document, type=JournalDocument)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = printable_excerpt(str(error), _MAX_ERROR_CHARS)
        raise UsageError(
            f"{source_name} is not a valid journal ({reason}); use a file that --journal wrote, or "
            "the URL of a running proxy"
        ) from None
