"""The journal: the requests and responses of this run.

The counts go on for as long as the run does; what they count is kept up to a limit, the latest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from llm_proxy.actions import Send, Source
from llm_proxy.faults.fault_record import FaultRecord
from llm_proxy.miss_report import MissReport
from llm_proxy.scenario.scripted_response import (
    FailResponse,
    ReportExhausted,
    ScriptedResponse,
    SendTurns,
)
from llm_proxy.shell.server.library_usage import LibraryUsage
from llm_proxy.turns import ToolCall

_KEPT: Final = 10_000
"""Of each kind but misses."""
_MISSES: Final = 1_000
"""Of misses: each tells much of itself."""


@dataclass(frozen=True, slots=True)
class SimulatedDetails:
    """A simulated answer, as the journal tells it."""

    source: str
    finish: str
    """Why it finished, in the words that all providers share; empty where it failed."""
    tool_calls: tuple[str, ...]
    """The names of the tools that it calls."""
    chunks: int
    """The messages of its body: the events of a stream, 1 for a whole document."""
    failure: str
    """The status of a simulated failure; empty where it is none."""
    unsuccessful: str
    """Why its session has failed; empty where it has not."""
    notes: tuple[str, ...]
    metadata: Mapping[str, Any] | None
    """What the scenario reports with the turn, by provider."""

    @classmethod
    def from_scripted(cls, direction: ScriptedResponse, source: Source) -> SimulatedDetails:
        """What a direction comes to, and what is sent for it."""
        send_turns, finish, calls, failure = direction.action, "", list[str](), ""
        match send_turns:
            case SendTurns(turns=turns):
                finish = str(turns[0].finish or "")
                parts = [part for turn in turns for part in turn.parts]
                calls = [part.name for part in parts if isinstance(part, ToolCall)]
            case FailResponse(status=failure):
                pass
            case ReportExhausted():
                pass
        sent = source if isinstance(source, tuple) else ()
        chunks = sum(isinstance(action, Send) for action in sent)
        values = (direction.unsuccessful, direction.notes, direction.reported)
        return cls(direction.origin, finish, tuple(calls), chunks, failure, *values)


@dataclass(slots=True)
class JournalEntry:
    """One request and its answer, as the API gives it."""

    number: int
    session: str
    method: str
    path: str
    provider: str = ""
    dialect: str = ""
    model: str = ""
    key: str = ""
    """The first 16 digits."""
    origin: str = ""
    """`live`, a cassette's file, what simulates, `fault`, `miss`, `error` or `refused`."""
    status: int = 0
    bytes: int = 0
    """Body bytes sent."""
    ms: float = 0.0
    """From the request read in full to the last byte."""
    late_mean_ms: float = 0.0
    late_worst_ms: float = 0.0
    timed_writes: int = 0
    """Writes that had a due time: those that the lateness is of."""
    pace: str = ""
    """The pace of the answer, as the grammar spells it; empty where it had none."""
    ending: str = ""
    """`sent`, `cut` (broken off as the source said) or `client_gone`."""
    note: str = ""
    """What went wrong, in a sentence."""
    simulated: SimulatedDetails | None = None
    """What a simulated answer follows; None for any other."""
    at_ms: float = 0.0
    """When the request was read in full, since the run began."""
    streams: bool = False
    """Whether a stream was asked for."""
    retry_count: int | None = None
    """How often the client's SDK says that it has asked before; None where it says nothing."""
    retry_after_ms: float | None = None
    """How long the answer told the client to wait; None where it told nothing."""
    should_retry: bool | None = None
    """What the answer told the client of asking again; None where it told nothing."""
    faults: tuple[FaultRecord, ...] = ()
    """What was injected into the answer."""
    likeness: float | None = None
    """How alike the request of the cassette is that answered as the nearest; None for any other."""
    renamed: int = 0
    """How many values of a recording were replaced by those that this client has for them."""
    continues: int | None = None
    """The number of the entry whose answer, spoiled by a fault, this request's history holds."""


@dataclass(slots=True)
class RecordedFile:
    """What became of one recording."""

    file: str
    outcome: str
    complete: bool


@dataclass(frozen=True, slots=True)
class FailedSession:
    """A session that has failed."""

    session: str
    why: str


@dataclass(slots=True)
class JournalCounts:
    """How often it happened in this run."""

    requests: int = 0
    replayed: int = 0
    """Requests that a cassette answered."""
    recorded: int = 0
    complete: int = 0
    """Of those recorded."""
    lost: int = 0
    """Recordings that are no cassette."""
    missed: int = 0
    """Requests that no cassette answered, or none that can be used."""
    nearest: int = 0
    """Requests that a cassette answered which is not the same, only alike."""
    upstream_failed: int = 0
    """Requests that an upstream did not answer."""
    left: int = 0
    """Requests whose client left before an answer."""
    simulated: int = 0
    """Requests that a scenario, a mock or synthesis answered, or had to and could not."""
    unsuccessful: int = 0
    """Of those, the ones that were not as their scenario expects, or that nothing could answer."""


class Journal:
    """Everything that happened, newest last."""

    def __init__(self, usage: LibraryUsage | None = None) -> None:
        self.counts = JournalCounts()
        self.usage = usage or LibraryUsage()
        """What was used of the library."""
        self.entries: deque[JournalEntry] = deque(maxlen=_KEPT)
        self._recorded: deque[RecordedFile] = deque(maxlen=_KEPT)
        self._failures: deque[str] = deque(maxlen=_KEPT)
        self._misses: deque[MissReport] = deque(maxlen=_MISSES)
        self._unsuccessful: deque[FailedSession] = deque(maxlen=_KEPT)
        self._rules: Callable[[], Sequence[Mapping[str, Any]]] = list

    @property
    def requests(self) -> int:
        """How many there were."""
        return self.counts.requests

    @property
    def recorded(self) -> list[RecordedFile]:
        """The latest recordings that are cassettes."""
        return list(self._recorded)

    @property
    def failures(self) -> list[str]:
        """The latest recordings that were lost, in a sentence each."""
        return list(self._failures)

    @property
    def misses(self) -> list[MissReport]:
        """The latest requests that were not answered from a cassette, and why."""
        return list(self._misses)

    @property
    def unsuccessful(self) -> list[FailedSession]:
        """The latest requests that were not as their scenario expects."""
        return list(self._unsuccessful)

    def document(self) -> dict[str, Any]:
        """The journal as `GET /_proxy/journal` gives it, and as `--journal` writes it."""
        # Those that are not over change under the hands of a thread that writes them.
        entries = [entry if entry.status else replace(entry) for entry in self.entries]
        return {
            "requests": self.requests,
            "entries": entries,
            "faults": self._rules(),
            "misses": self.misses,
            "library": self.usage.document(),
        }

    def set_rules_provider(self, rules: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        """Ask there for the faults of the run: each rule, and how often it struck."""
        self._rules = rules

    def open_entry(self, session: str, method: str, path: str) -> JournalEntry:
        """The entry of a request that has just arrived."""
        self.counts.requests += 1
        entry = JournalEntry(self.counts.requests, session, method, path)
        self.entries.append(entry)
        return entry

    def add_recorded(self, recorded: RecordedFile) -> None:
        """A recording is a cassette."""
        self.counts.recorded += 1
        self.counts.complete += recorded.complete
        self.usage.record_recorded(recorded.file)
        self._recorded.append(recorded)

    def add_recording_failure(self, why: str) -> None:
        """A recording was lost."""
        self.counts.lost += 1
        self._failures.append(why)

    def add_miss(self, missed: MissReport) -> None:
        """A request was not answered from a cassette."""
        self.counts.missed += 1
        self._misses.append(missed)

    def add_failed_session(self, session: str, why: str) -> None:
        """A session's request was not as its scenario expects, or its script has no answer."""
        self.counts.unsuccessful += 1
        self._unsuccessful.append(FailedSession(session, why))
