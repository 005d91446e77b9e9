"""The journal: the requests and responses of this run.

The counts cover the whole run; of the entries themselves only the latest are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from llm_proxy.actions import ActionSource, Send
from llm_proxy.faults.fault_record import FaultRecord
from llm_proxy.miss_report import MissReport
from llm_proxy.scenario.scripted_response import (
    FailResponse,
    ReportScriptExhausted,
    ScriptedResponse,
    SendTurns,
)
from llm_proxy.shell.server.library_usage import LibraryUsage
from llm_proxy.turns import ToolCall

_MAX_ENTRIES: Final = 10_000
"""Maximum number kept of each kind but misses."""
_MAX_MISSES: Final = 1_000
"""Maximum number of misses kept: their reports are large."""


@dataclass(frozen=True, slots=True)
class SimulatedDetails:
    """The journal's details of a simulated response."""

    source: str
    finish: str
    """The provider-independent finish reason; empty for a failure."""
    tool_calls: tuple[str, ...]
    """The names of the tools in its tool calls."""
    chunks: int
    """The messages of its body: the events of a stream, 1 for a single document."""
    failure: str
    """The status of a simulated failure; empty if it is none."""
    unsuccessful: str
    """Why its session has failed; empty if it has not."""
    notes: tuple[str, ...]
    metadata: Mapping[str, Any] | None
    """The scenario's metadata for the turn, by provider."""

    @classmethod
    def from_scripted(
        cls, scripted_response: ScriptedResponse, source: ActionSource
    ) -> SimulatedDetails:
        """The details of a scripted response and of its actions."""
        scripted_action, finish, calls, failure = (
            scripted_response.scripted_action,
            "",
            list[str](),
            "",
        )
        match scripted_action:
            case SendTurns(response_turns=turns):
                finish = str(turns[0].finish or "")
                parts = [part for turn in turns for part in turn.parts]
                calls = [part.name for part in parts if isinstance(part, ToolCall)]
            case FailResponse(failure_status=failure):
                pass
            case ReportScriptExhausted():
                pass
        actions = source if isinstance(source, tuple) else ()
        chunks = sum(isinstance(action, Send) for action in actions)
        other_fields = (
            scripted_response.session_failure_reason,
            scripted_response.journal_notes,
            scripted_response.reported_metadata,
        )
        return cls(scripted_response.origin, finish, tuple(calls), chunks, failure, *other_fields)


@dataclass(slots=True)
class JournalEntry:
    """One request and its response, as the control API returns them."""

    number: int
    session: str
    method: str
    path: str
    provider: str = ""
    dialect: str = ""
    model: str = ""
    key: str = ""
    """The first 16 hex digits of the request's key."""
    origin: str = ""
    """`live`, a cassette's file, the simulation's source, `fault`, `miss`, `error` or `refused`."""
    status: int = 0
    bytes: int = 0
    """Body bytes sent."""
    ms: float = 0.0
    """Time from the request read in full to the last byte, in ms."""
    late_mean_ms: float = 0.0
    late_worst_ms: float = 0.0
    timed_writes: int = 0
    """Writes that had a due time, which the lateness refers to."""
    pace: str = ""
    """The pace of the response in the pace grammar; empty if it had none."""
    ending: str = ""
    """`sent`, `cut` (by an `Abort`, an internal error or a stop) or `client_gone`."""
    note: str = ""
    """A sentence on what went wrong."""
    simulated: SimulatedDetails | None = None
    """Details of a simulated response; None for any other."""
    at_ms: float = 0.0
    """When the request was read in full, in ms since the run began."""
    streams: bool = False
    """Whether the client requested a stream."""
    retry_count: int | None = None
    """The SDK's count of previous attempts; None if it sends none."""
    retry_after_ms: float | None = None
    """The wait that the response's headers request; None if they request none."""
    should_retry: bool | None = None
    """The response's `x-should-retry`; None if it has none."""
    faults: tuple[FaultRecord, ...] = ()
    """The faults that were injected or skipped."""
    likeness: float | None = None
    """Similarity from 0 to 1 of the nearest cassette, if it was replayed; None otherwise."""
    renamed: int = 0
    """How many recorded values were replaced by this client's values."""
    continues: int | None = None
    """The number of the entry whose response, spoiled by a fault, is in this request's history."""


@dataclass(slots=True)
class RecordedFile:
    """A recording that became a cassette."""

    file: str
    outcome: str
    complete: bool


@dataclass(frozen=True, slots=True)
class FailedSession:
    """A session that has failed, and why."""

    session: str
    why: str


@dataclass(slots=True)
class JournalCounts:
    """Counters of the whole run."""

    requests: int = 0
    replayed: int = 0
    """Responses from a cassette."""
    recorded: int = 0
    complete_recordings: int = 0
    """Recordings that are complete."""
    lost_recordings: int = 0
    """Recordings that did not become a cassette."""
    missed: int = 0
    """Requests that no usable cassette answered."""
    answered_by_nearest: int = 0
    """Requests that were answered by the nearest cassette instead of a match."""
    upstream_failed: int = 0
    """Requests whose upstream failed."""
    clients_left: int = 0
    """Requests whose client disconnected before a response."""
    simulated: int = 0
    """Requests for a scenario, a mock or synthesis, answered or not."""
    unsuccessful: int = 0
    """Simulated requests that their scenario did not expect, or that nothing could answer."""


class Journal:
    """The latest requests, recordings and failures, newest last, with counts of the whole run."""

    def __init__(self, usage: LibraryUsage | None = None) -> None:
        self.counts = JournalCounts()
        self.library_usage = usage or LibraryUsage()
        """Which cassettes were used."""
        self.entries: deque[JournalEntry] = deque(maxlen=_MAX_ENTRIES)
        self._recorded_files: deque[RecordedFile] = deque(maxlen=_MAX_ENTRIES)
        self._recording_failures: deque[str] = deque(maxlen=_MAX_ENTRIES)
        self._misses: deque[MissReport] = deque(maxlen=_MAX_MISSES)
        self._failed_sessions: deque[FailedSession] = deque(maxlen=_MAX_ENTRIES)
        self._rule_documents: Callable[[], Sequence[Mapping[str, Any]]] = list

    @property
    def request_count(self) -> int:
        """The number of requests in this run."""
        return self.counts.requests

    @property
    def recorded_files(self) -> list[RecordedFile]:
        """The latest recordings that became cassettes."""
        return list(self._recorded_files)

    @property
    def recording_failures(self) -> list[str]:
        """One sentence for each of the latest recordings that were lost."""
        return list(self._recording_failures)

    @property
    def misses(self) -> list[MissReport]:
        """The latest requests that were not answered from a cassette, and why."""
        return list(self._misses)

    @property
    def failed_sessions(self) -> list[FailedSession]:
        """The session of each of the latest requests that its scenario did not expect, and why."""
        return list(self._failed_sessions)

    def to_json_document(self) -> dict[str, Any]:
        """The document that `GET /_proxy/journal` returns and `--journal` writes."""
        # Copied if still running: a thread may serialise the document while the entry changes.
        entries = [entry if entry.status else replace(entry) for entry in self.entries]
        return {
            "requests": self.request_count,
            "entries": entries,
            "faults": self._rule_documents(),
            "misses": self.misses,
            "library": self.library_usage.to_json_document(),
        }

    def set_rules_provider(self, rule_documents: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        """Set the source of the run's fault rules, each with its count of injections."""
        self._rule_documents = rule_documents

    def open_entry(self, session: str, method: str, path: str) -> JournalEntry:
        """Add and return an entry for a request that has just arrived."""
        self.counts.requests += 1
        entry = JournalEntry(self.counts.requests, session, method, path)
        self.entries.append(entry)
        return entry

    def add_recorded_file(self, recorded_file: RecordedFile) -> None:
        """Add a recording that became a cassette."""
        self.counts.recorded += 1
        self.counts.complete_recordings += recorded_file.complete
        self.library_usage.mark_recorded(recorded_file.file)
        self._recorded_files.append(recorded_file)

    def add_recording_failure(self, reason: str) -> None:
        """Add a recording that was lost; `reason` is one sentence."""
        self.counts.lost_recordings += 1
        self._recording_failures.append(reason)

    def add_miss(self, miss_report: MissReport) -> None:
        """Add a request that was not answered from a cassette."""
        self.counts.missed += 1
        self._misses.append(miss_report)

    def add_failed_session(self, session: str, reason: str) -> None:
        """Add a request that its scenario did not expect, or has no response for."""
        self.counts.unsuccessful += 1
        self._failed_sessions.append(FailedSession(session, reason))
