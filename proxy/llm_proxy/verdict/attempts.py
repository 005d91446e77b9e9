"""Parses the requests of a run from its journal document.

Fields that are unknown here are passed over, so that a journal of a later version can be judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Final

import msgspec

from llm_proxy.errors import UsageError, printable
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.miss_report import MissReport

Ms = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
"""Milliseconds, within limits that sums and differences keep finite."""
Whole = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
"""A whole number within the limits that JSON has everywhere."""

SENT: Final = "sent"
CUT: Final = "cut"
GONE: Final = "client_gone"
"""How answers end, as the journal spells it; one that is under way has no ending."""

_HARMLESS: Final = frozenset((FaultEffect.ALTERED, FaultEffect.SLOWED))
"""After these an answer can be used as it is: nobody has to ask again."""
_SCRIPTED: Final = {
    "timeout": FaultEffect.UNANSWERED,
    "invalid_response": FaultEffect.MALFORMED,
}
"""What the failures of scenarios mean to a client, where the status does not tell."""
_LONGEST: Final = 300
"""Characters of a parser's complaint."""


class InjectedFault(msgspec.Struct, frozen=True):
    """What was injected into an answer, or meant to be."""

    rule: str = ""
    """As its author spelled it."""
    fault: str = ""
    effect: str = ""
    """One of `FaultEffect`, or a word of a later version, which no rule judges."""
    at_ms: Ms = 0.0
    """Since the request was read in full."""
    event: Whole | None = None
    byte: Whole | None = None
    skipped: str = ""
    """Why nothing was injected after all."""


class SimulatedResponse(msgspec.Struct, frozen=True):
    """What a simulated answer follows."""

    source: str = ""
    failure: str = ""
    """The status of a failure that was scripted."""


class JournalAttempt(msgspec.Struct, frozen=True):
    """One request and its answer."""

    number: Whole
    session: str = ""
    method: str = ""
    path: str = ""
    provider: str = ""
    dialect: str = ""
    model: str = ""
    key: str = ""
    origin: str = ""
    status: Whole = 0
    """0 where no head was sent."""
    bytes: Whole = 0
    ms: Ms = 0.0
    late_mean_ms: Ms = 0.0
    late_worst_ms: Ms = 0.0
    timed_writes: Whole = 0
    """How many writes had a time of their own; 0 also where the journal does not say."""
    pace: str = ""
    """The pace of the answer; empty where it had none."""
    ending: str = ""
    note: str = ""
    simulated: SimulatedResponse | None = None
    at_ms: Ms = 0.0
    streams: bool = False
    retry_count: Whole | None = None
    retry_after_ms: Ms | None = None
    should_retry: bool | None = None
    faults: tuple[InjectedFault, ...] = ()
    likeness: Ms | None = None
    """How alike the request of the cassette is that answered as the nearest."""
    continues: Whole | None = None

    @property
    def is_over(self) -> bool:
        """Whether its answer has ended, in whatever way."""
        return bool(self.ending) or self.status >= HTTPStatus.BAD_REQUEST

    @property
    def ended_at_ms(self) -> float:
        """When its answer was over, since the run began."""
        return self.at_ms + self.ms

    @property
    def injected_faults(self) -> tuple[InjectedFault, ...]:
        """The faults that its client met: of scenarios too, and none that it left before."""
        return tuple(
            all_fault
            for all_fault in self._all_faults()
            if not all_fault.skipped and not self._client_left_before(all_fault)
        )

    @property
    def skipped_faults(self) -> tuple[InjectedFault, ...]:
        """The faults that had no meaning for this answer."""
        return tuple(fault for fault in self.faults if fault.skipped)

    @property
    def is_spoiled(self) -> bool:
        """Whether a client that wants the answer has to ask again."""
        broken = any(
            injected_fault.effect not in _HARMLESS for injected_fault in self.injected_faults
        )
        return broken or self.status >= HTTPStatus.BAD_REQUEST or self.ending == CUT

    def first_fault_with_effect(self, *effects: FaultEffect) -> InjectedFault | None:
        """The first fault of one of these effects that its client met."""
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
            effect = _SCRIPTED.get(failure) or self._scripted_failure_fault()
            yield InjectedFault(f"{self.simulated.source}: {failure}", failure, effect)

    def _scripted_failure_fault(self) -> FaultEffect:
        if self.status >= HTTPStatus.BAD_REQUEST:
            return FaultEffect.REFUSED
        return FaultEffect.CUT if self.status else FaultEffect.DISCONNECTED

    def _client_left_before(self, fault: InjectedFault) -> bool:
        return self.ending == GONE and self.ms < fault.at_ms


class FaultRuleCount(msgspec.Struct, frozen=True):
    """How often a fault rule of the run met a request, and struck."""

    rule: str
    seen: Whole = 0
    struck: Whole = 0


class JournalRun(msgspec.Struct, frozen=True):
    """A journal document."""

    entries: tuple[JournalAttempt, ...]
    """The latest requests."""
    requests: Whole = 0
    """All of them, also those that are kept no longer."""
    faults: tuple[FaultRuleCount, ...] = ()
    misses: tuple[MissReport, ...] = ()
    """The latest requests that no cassette answered."""


def parse_run(document: bytes, place: str) -> JournalRun:
    """The run that a journal document tells.

    Raises `UsageError` for what is none; `place` names the file or the address in it.
    """
    try:
        return msgspec.json.decode(document, type=JournalRun)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = printable(str(error), _LONGEST)
        raise UsageError(
            f"{place} is no journal ({why}): give a file that --journal wrote, or the URL of a "
            "running proxy"
        ) from None
