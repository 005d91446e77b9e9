"""The requests of a run, as its journal document tells them: `GET /_proxy/journal`, or a file.

Fields that are unknown here are passed over, so that a journal of a later version can be judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Final

import msgspec

from llm_proxy.errors import UsageError, printable
from llm_proxy.faults.fault_record import Effect
from llm_proxy.miss_report import Missed

Ms = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
"""Milliseconds, within limits that sums and differences keep finite."""
Whole = Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]
"""A whole number within the limits that JSON has everywhere."""

SENT: Final = "sent"
CUT: Final = "cut"
GONE: Final = "client_gone"
"""How answers end, as the journal spells it; one that is under way has no ending."""

_HARMLESS: Final = frozenset((Effect.ALTERED, Effect.SLOWED))
"""After these an answer can be used as it is: nobody has to ask again."""
_SCRIPTED: Final = {
    "timeout": Effect.UNANSWERED,
    "invalid_response": Effect.MALFORMED,
}
"""What the failures of scenarios mean to a client, where the status does not tell."""
_LONGEST: Final = 300
"""Characters of a parser's complaint."""


class Fault(msgspec.Struct, frozen=True):
    """What was injected into an answer, or meant to be."""

    rule: str = ""
    """As its author spelled it."""
    fault: str = ""
    effect: str = ""
    """One of `Effect`, or a word of a later version, which no rule judges."""
    at_ms: Ms = 0.0
    """Since the request was read in full."""
    event: Whole | None = None
    byte: Whole | None = None
    skipped: str = ""
    """Why nothing was injected after all."""


class Scripted(msgspec.Struct, frozen=True):
    """What a simulated answer follows."""

    source: str = ""
    failure: str = ""
    """The status of a failure that was scripted."""


class Attempt(msgspec.Struct, frozen=True):
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
    simulated: Scripted | None = None
    at_ms: Ms = 0.0
    streams: bool = False
    retry_count: Whole | None = None
    retry_after_ms: Ms | None = None
    should_retry: bool | None = None
    faults: tuple[Fault, ...] = ()
    likeness: Ms | None = None
    """How alike the request of the cassette is that answered as the nearest."""
    continues: Whole | None = None

    @property
    def is_over(self) -> bool:
        """Whether its answer has ended, in whatever way."""
        return bool(self.ending) or self.status >= HTTPStatus.BAD_REQUEST

    @property
    def over_ms(self) -> float:
        """When its answer was over, since the run began."""
        return self.at_ms + self.ms

    @property
    def struck(self) -> tuple[Fault, ...]:
        """The faults that its client met: of scenarios too, and none that it left before."""
        return tuple(it for it in self._all() if not it.skipped and not self._left_before(it))

    @property
    def skipped(self) -> tuple[Fault, ...]:
        """The faults that had no meaning for this answer."""
        return tuple(it for it in self.faults if it.skipped)

    @property
    def is_spoiled(self) -> bool:
        """Whether a client that wants the answer has to ask again."""
        broken = any(it.effect not in _HARMLESS for it in self.struck)
        return broken or self.status >= HTTPStatus.BAD_REQUEST or self.ending == CUT

    def met(self, *effects: Effect) -> Fault | None:
        """The first fault of one of these effects that its client met."""
        return next((it for it in self.struck if it.effect in effects), None)

    def _all(self) -> Iterator[Fault]:
        yield from self.faults
        if self.simulated is not None and (failure := self.simulated.failure):
            effect = _SCRIPTED.get(failure) or self._seen()
            yield Fault(f"{self.simulated.source}: {failure}", failure, effect)

    def _seen(self) -> Effect:
        """What a scripted failure came to, by what was sent."""
        if self.status >= HTTPStatus.BAD_REQUEST:
            return Effect.REFUSED
        return Effect.CUT if self.status else Effect.DISCONNECTED

    def _left_before(self, fault: Fault) -> bool:
        return self.ending == GONE and self.ms < fault.at_ms


class RuleCount(msgspec.Struct, frozen=True):
    """How often a fault rule of the run met a request, and struck."""

    rule: str
    seen: Whole = 0
    struck: Whole = 0


class Run(msgspec.Struct, frozen=True):
    """A journal document."""

    entries: tuple[Attempt, ...]
    """The latest requests."""
    requests: Whole = 0
    """All of them, also those that are kept no longer."""
    faults: tuple[RuleCount, ...] = ()
    misses: tuple[Missed, ...] = ()
    """The latest requests that no cassette answered."""


def read_run(document: bytes, place: str) -> Run:
    """The run that a journal document tells.

    Raises `UsageError` for what is none; `place` names the file or the address in it.
    """
    try:
        return msgspec.json.decode(document, type=Run)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = printable(str(error), _LONGEST)
        raise UsageError(
            f"{place} is no journal ({why}): give a file that --journal wrote, or the URL of a "
            "running proxy"
        ) from None
