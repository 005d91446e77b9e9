"""Parses the requests of a run from its journal document.

Unknown fields are ignored, so that a journal of a later version can be judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Final

import msgspec

from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.miss_report import MissReport

BoundedMs = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
"""Milliseconds, within limits that sums and differences keep finite."""
BoundedInt = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
"""An integer that every JSON implementation represents exactly."""

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


class InjectedFault(msgspec.Struct, frozen=True):
    """A fault that was injected into a response, or skipped."""

    rule: str = ""
    """The text of the rule, as its author wrote it."""
    fault: str = ""
    effect: str = ""
    """A value of `FaultEffect`, or one of a later version, which no rule judges."""
    at_ms: BoundedMs = 0.0
    """Since the request was read in full."""
    event: BoundedInt | None = None
    byte: BoundedInt | None = None
    skipped: str = ""
    """Why the fault was not injected; empty where it was."""


class SimulatedResponse(msgspec.Struct, frozen=True):
    """The origin of a simulated response."""

    source: str = ""
    failure: str = ""
    """The status, or the name, of a scripted failure; empty without one."""


class JournalAttempt(msgspec.Struct, frozen=True):
    """One request and its response, as an entry of the journal."""

    number: BoundedInt
    session: str = ""
    method: str = ""
    path: str = ""
    provider: str = ""
    dialect: str = ""
    model: str = ""
    key: str = ""
    origin: str = ""
    status: BoundedInt = 0
    """0 where no head was sent."""
    bytes: BoundedInt = 0
    ms: BoundedMs = 0.0
    late_mean_ms: BoundedMs = 0.0
    late_worst_ms: BoundedMs = 0.0
    timed_writes: BoundedInt = 0
    """How many writes had a due time; 0 also where the journal does not contain it."""
    pace: str = ""
    """The pace of the response; empty where it had none."""
    ending: str = ""
    note: str = ""
    simulated: SimulatedResponse | None = None
    at_ms: BoundedMs = 0.0
    streams: bool = False
    retry_count: BoundedInt | None = None
    retry_after_ms: BoundedMs | None = None
    should_retry: bool | None = None
    faults: tuple[InjectedFault, ...] = ()
    likeness: BoundedMs | None = None
    """The similarity of the request in the nearest cassette, if that was replayed."""
    continues: BoundedInt | None = None

    @property
    def is_over(self) -> bool:
        """Whether its response has ended, in any way."""
        return bool(self.ending) or self.status >= HTTPStatus.BAD_REQUEST

    @property
    def ended_at_ms(self) -> float:
        """When its response ended, in ms since the run began."""
        return self.at_ms + self.ms

    @property
    def injected_faults(self) -> tuple[InjectedFault, ...]:
        """The faults that the client received, scripted failures included.

        Without skipped faults, and without those before which the client had disconnected.
        """
        return tuple(
            fault
            for fault in self._all_faults()
            if not fault.skipped and not self._client_left_before(fault)
        )

    @property
    def skipped_faults(self) -> tuple[InjectedFault, ...]:
        """The faults that were not applicable to this response."""
        return tuple(fault for fault in self.faults if fault.skipped)

    @property
    def needs_retry(self) -> bool:
        """Whether a client has to retry to get a usable response."""
        has_breaking_fault = any(
            injected_fault.effect not in _HARMLESS_EFFECTS
            for injected_fault in self.injected_faults
        )
        return (
            has_breaking_fault or self.status >= HTTPStatus.BAD_REQUEST or self.ending == ENDING_CUT
        )

    def first_fault_with_effect(self, *effects: FaultEffect) -> InjectedFault | None:
        """The first fault with one of these effects that the client received."""
        return next(
            (
                injected_fault
                for injected_fault in self.injected_faults
                if injected_fault.effect in effects
            ),
            None,
        )

    def _all_faults(self) -> Iterator[InjectedFault]:
        yield from self.faults
        if self.simulated is not None and (failure := self.simulated.failure):
            effect = _SCRIPTED_FAILURE_EFFECTS.get(failure) or self._scripted_failure_effect()
            yield InjectedFault(f"{self.simulated.source}: {failure}", failure, effect)

    def _scripted_failure_effect(self) -> FaultEffect:
        if self.status >= HTTPStatus.BAD_REQUEST:
            return FaultEffect.REFUSED
        return FaultEffect.CUT if self.status else FaultEffect.DISCONNECTED

    def _client_left_before(self, fault: InjectedFault) -> bool:
        return self.ending == ENDING_CLIENT_GONE and self.ms < fault.at_ms


class FaultRuleCount(msgspec.Struct, frozen=True):
    """How often a fault rule of the run matched a request, and injected its fault."""

    rule: str
    seen: BoundedInt = 0
    struck: BoundedInt = 0


class JournalDocument(msgspec.Struct, frozen=True):
    """A journal document."""

    entries: tuple[JournalAttempt, ...]
    """The latest requests."""
    requests: BoundedInt = 0
    """The number of all requests, including those that the journal no longer contains."""
    faults: tuple[FaultRuleCount, ...] = ()
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
            f"{source_name} is no journal ({reason}): give a file that --journal wrote, or the "
            "URL of a "
            "running proxy"
        ) from None
