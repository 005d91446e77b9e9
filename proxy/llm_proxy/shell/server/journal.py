"""The journal: the requests and responses of this run.

The counts cover the whole run; of the entries themselves only the latest are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from llm_proxy.actions import ActionSource, Send
from llm_proxy.journal_document import JournalEntry, SimulatedDetails
from llm_proxy.miss_report import MissReport
from llm_proxy.scenario.scripted_response import (
    FailResponse,
    ReportScriptExhausted,
    ScriptedResponse,
    SendTurns,
)
from llm_proxy.shell.server.library_usage import LibraryUsage
from llm_proxy.turns import Part, ToolCall

_MAX_ENTRIES: Final = 10_000
"""Maximum number kept of each kind but misses."""
_MAX_MISSES: Final = 1_000
"""Maximum number of misses kept: their reports are large."""


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

    def copied_entries(self) -> list[JournalEntry]:
        """The entries; a running one is copied, since it may change while a thread reads it."""
        return [entry if entry.status else replace(entry) for entry in self.entries]

    def to_json_document(self) -> dict[str, Any]:
        """The document that `GET /_proxy/journal` returns and `--journal` writes."""
        return {
            "requests": self.request_count,
            "entries": self.copied_entries(),
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


def simulated_details(
    scripted_response: ScriptedResponse, source: ActionSource
) -> SimulatedDetails:
    """The details of a scripted response and of its actions."""
    finish, failure, parts = "", "", list[Part]()
    match scripted_response.scripted_action:
        case SendTurns(response_turns=turns):
            finish = str(turns[0].finish or "")
            parts = [part for turn in turns for part in turn.parts]
        case FailResponse(failure_status=failure):
            pass
        case ReportScriptExhausted():
            pass
    actions = source if isinstance(source, tuple) else ()
    return SimulatedDetails(
        source=scripted_response.origin,
        finish=finish,
        tool_calls=tuple(part.name for part in parts if isinstance(part, ToolCall)),
        chunks=sum(isinstance(action, Send) for action in actions),
        failure=failure,
        unsuccessful=scripted_response.session_failure_reason,
        notes=scripted_response.journal_notes,
        metadata=scripted_response.reported_metadata,
    )
