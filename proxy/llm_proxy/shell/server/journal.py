"""The journal: the requests and responses of this run, and the cassettes that it used.

The counts cover the whole run; of the entries themselves only the latest are kept.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from llm_proxy.actions import ActionSource, Send
from llm_proxy.ages import MaxAge, cassette_age, format_age
from llm_proxy.display import path_as_unicode_text
from llm_proxy.errors import printable_excerpt
from llm_proxy.journal_document import JournalEntry, ListenerClosure, SimulatedDetails
from llm_proxy.miss_report import MissReport
from llm_proxy.misses.run_summary import mismatch_label, miss_label
from llm_proxy.scenario.scripted_response import (
    FailResponse,
    ScriptedResponse,
    SendTurns,
)
from llm_proxy.turns import ToolCall

log: Final = logging.getLogger("llm_proxy")

_MAX_ENTRIES: Final = 10_000
"""Maximum number kept of each kind but misses."""
_MAX_MISSES: Final = 1_000
"""Maximum number of misses kept: their reports are large."""
_MAX_PATH_CHARS: Final = 250
"""Maximum length of a path in the log."""


@dataclass(frozen=True, slots=True)
class FailedSession:
    """A session that has failed, and why."""

    session: str
    reason: str


@dataclass(slots=True)
class JournalCounts:
    """Counters of the whole run."""

    requests: int = 0
    refused: int = 0
    """Requests that were refused, such as those with an unknown `Host` header."""
    replayed: int = 0
    """Responses from a cassette."""
    passed_through: int = 0
    """Requests that were forwarded to a provider without a recording."""
    injected_faults: int = 0
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

    @property
    def incomplete_recordings(self) -> int:
        """Recordings that became a cassette and are not complete."""
        return self.recorded - self.complete_recordings


@dataclass(frozen=True, slots=True)
class TooOldCassette:
    """A cassette that was played and exceeds the maximum age."""

    file: str
    recorded: str
    days: float


class LibraryUsage:
    """Which cassettes of a library a run played and recorded; playing one again costs nothing."""

    def __init__(
        self,
        root: Path = Path(),
        max_age: MaxAge | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`root` is the library's folder; `now` returns an aware datetime."""
        self.root = root
        self._max_age = max_age
        self._now = now
        self._played_files: set[str] = set()
        self._recorded_files: set[str] = set()
        self.too_old_cassettes: list[TooOldCassette] = []
        """In the order in which they were first played, each once."""
        self.unused_files: list[str] = []
        """Files that existed at the start and were not played; set by `finish`."""

    @property
    def played_count(self) -> int:
        """The number of different files that were played."""
        return len(self._played_files)

    @property
    def played_file_names(self) -> list[str]:
        """The files that were played, relative to the library's folder."""
        return self._relative_names(self._played_files)

    def mark_played(self, file: str, recorded_at: str) -> None:
        """Add a cassette that is played; `recorded_at` is the time in its line 1."""
        if file in self._played_files:
            return
        self._played_files.add(file)
        if self._max_age is None:
            return
        age = cassette_age(recorded_at, self._now())
        if age is None or age <= self._max_age.max_age:
            return
        self.too_old_cassettes.append(
            TooOldCassette(file, recorded_at, round(age.total_seconds() / 86400, 2))
        )
        log.warning(
            "%s was recorded %s ago, which exceeds --max-age %s; record the cassette again",
            printable_excerpt(file, _MAX_PATH_CHARS),
            format_age(age),
            self._max_age,
        )

    def mark_recorded(self, file: str) -> None:
        """Add a cassette that was recorded."""
        self._recorded_files.add(file)

    def move_recorded(self, new_files: Mapping[str, str | None]) -> None:
        """Rename recorded cassettes; those whose new name is None were deleted."""
        self._recorded_files = set(_moved_files(self._recorded_files, new_files))

    def determine_unused_files(self, present_files: Iterable[str]) -> None:
        """End the run; `present_files` are those that existed when it began."""
        self.unused_files = sorted(set(present_files) - self._played_files)

    def to_json_document(self) -> dict[str, Any]:
        """The journal's `library` object, with files relative to the library's folder."""
        return {
            "played": self.played_file_names,
            "recorded": self._relative_names(self._recorded_files),
            "unused": self._relative_names(self.unused_files),
            "too_old": [
                {**asdict(too_old_cassette), "file": self._relative_name(too_old_cassette.file)}
                for too_old_cassette in self.too_old_cassettes
            ],
        }

    def _relative_names(self, files: Iterable[str]) -> list[str]:
        return sorted(map(self._relative_name, files))

    def _relative_name(self, file: str) -> str:
        return path_as_unicode_text(Path(file).relative_to(self.root))


class RepeatCounter:
    """Counts problems of the same identity, such as those of a client that repeats a request."""

    def __init__(self) -> None:
        self._labels: dict[tuple[str, ...], str] = {}
        """The label of each different problem, by its identity."""
        self.times_by_label: Counter[str] = Counter()
        """How often a problem occurred, by its label; only of those that were repeated."""

    def add(self, identity: tuple[str, ...], label: str) -> bool:
        """Count a problem; returns whether it is the first with this identity."""
        if identity not in self._labels:
            if len(self._labels) < _MAX_ENTRIES:
                self._labels[identity] = label
            return True
        label = self._labels[identity]
        self.times_by_label[label] += 1 if label in self.times_by_label else 2
        return False


class Journal:
    """The latest requests, recordings and failures, newest last, with counts of the whole run."""

    def __init__(self, usage: LibraryUsage | None = None) -> None:
        self.counts = JournalCounts()
        self.library_usage = usage or LibraryUsage()
        """Which cassettes were used."""
        self.entries: deque[JournalEntry] = deque(maxlen=_MAX_ENTRIES)
        self.recorded_files: list[str] = []
        """The files of the latest recordings that became cassettes."""
        self.incomplete_files: list[str] = []
        """Those of them whose recording is incomplete."""
        self.recording_failures: list[str] = []
        """One sentence for each of the latest recordings that were lost."""
        self.misses: list[MissReport] = []
        """The latest requests that were not answered from a cassette, and why."""
        self.repeated_misses = RepeatCounter()
        self.failed_sessions: list[FailedSession] = []
        """The session of each of the latest requests that its scenario did not expect, and why."""
        self.repeated_mismatches = RepeatCounter()
        self.listener_closures: deque[ListenerClosure] = deque(maxlen=_MAX_ENTRIES)
        """The latest times in which no client could connect."""
        self.rule_documents: Callable[[], Sequence[Mapping[str, Any]]] = list
        """Returns the run's fault rules, each with its count of injections."""

    def copied_entries(self) -> list[JournalEntry]:
        """The entries; a running one is copied, since it may change while a thread reads it."""
        return [entry if entry.status else replace(entry) for entry in self.entries]

    def to_json_document(self) -> dict[str, Any]:
        """The document that `GET /_proxy/journal` returns and `--journal` writes."""
        return {
            "requests": self.counts.requests,
            "entries": self.copied_entries(),
            "faults": self.rule_documents(),
            "listener_closures": list(self.listener_closures),
            "misses": list(self.misses),
            "library": self.library_usage.to_json_document(),
        }

    def open_entry(self, session: str, method: str, path: str) -> JournalEntry:
        """Add and return an entry for a request that has just arrived."""
        self.counts.requests += 1
        entry = JournalEntry(self.counts.requests, session, method, path)
        self.entries.append(entry)
        return entry

    def add_listener_closure(self, at_ms: float) -> None:
        """Add a time in which no client can connect, from `at_ms` of the run on."""
        self.listener_closures.append((round(at_ms, 3), None))

    def end_listener_closure(self, at_ms: float) -> None:
        """End the time in which no client can connect at `at_ms` of the run."""
        closed_at_ms, _ = self.listener_closures.pop()
        self.listener_closures.append((closed_at_ms, round(at_ms, 3)))

    def add_recorded_file(self, file: str, *, is_complete: bool) -> None:
        """Add a recording that became a cassette."""
        self.counts.recorded += 1
        self.counts.complete_recordings += is_complete
        self.library_usage.mark_recorded(file)
        self.recorded_files.append(file)
        del self.recorded_files[:-_MAX_ENTRIES]
        if not is_complete:
            self.incomplete_files.append(file)
            del self.incomplete_files[:-_MAX_ENTRIES]

    def move_recorded_files(self, new_files: Mapping[str, str | None]) -> None:
        """Rename files of recordings; those whose new name is None were deleted."""
        self.library_usage.move_recorded(new_files)
        self.recorded_files = _moved_files(self.recorded_files, new_files)
        self.incomplete_files = _moved_files(self.incomplete_files, new_files)

    def add_recording_failure(self, reason: str) -> None:
        """Add a recording that was lost; `reason` is one sentence."""
        self.counts.lost_recordings += 1
        self.recording_failures.append(reason)
        del self.recording_failures[:-_MAX_ENTRIES]

    def add_miss(self, miss_report: MissReport) -> bool:
        """Add a request that no cassette answered; returns whether it is the first such miss."""
        self.counts.missed += 1
        self.misses.append(miss_report)
        del self.misses[:-_MAX_MISSES]
        return self.repeated_misses.add(miss_report.identity, miss_label(miss_report))

    def add_failed_session(self, session: str, reason: str) -> None:
        """Add a request that its scenario did not expect, or has no response for."""
        self.counts.unsuccessful += 1
        self.failed_sessions.append(FailedSession(session, reason))
        del self.failed_sessions[:-_MAX_ENTRIES]

    def add_mismatch(self, session: str, scripted_response: ScriptedResponse) -> bool:
        """Add a request that no scenario expects; returns whether it is the first such mismatch."""
        reason = scripted_response.session_failure_reason
        self.add_failed_session(session, reason)
        identity = (session, scripted_response.failure_kind or reason)
        return self.repeated_mismatches.add(identity, mismatch_label(session, reason))


def _moved_files(files: Iterable[str], new_files: Mapping[str, str | None]) -> list[str]:
    moved_files = [new_files.get(file, file) for file in files]
    return [file for file in moved_files if file is not None]


def simulated_details(
    scripted_response: ScriptedResponse, source: ActionSource
) -> SimulatedDetails:
    """The details of a scripted response and of its actions."""
    action = scripted_response.scripted_action
    turns = action.response_turns if isinstance(action, SendTurns) else ()
    actions = source if isinstance(source, tuple) else ()
    return SimulatedDetails(
        source=scripted_response.origin,
        finish=str(turns[0].finish or "") if turns else "",
        tool_calls=tuple(
            part.name for turn in turns for part in turn.parts if isinstance(part, ToolCall)
        ),
        chunks=sum(isinstance(action, Send) for action in actions),
        failure=action.failure_status if isinstance(action, FailResponse) else "",
        unsuccessful=scripted_response.session_failure_reason,
        notes=scripted_response.journal_notes,
        metadata=scripted_response.reported_metadata,
    )
