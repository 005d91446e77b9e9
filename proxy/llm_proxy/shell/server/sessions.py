"""The mode of each session, and the sessions that a test runner starts and ends.

A test is a session.  While it runs, requests that name no session belong to it.  A request that
arrives after its test has ended, or while no test runs, is refused: it must not affect another
test.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from llm_proxy.errors import LateRequest
from llm_proxy.exchange import Request
from llm_proxy.journal_document import JournalEntry
from llm_proxy.matching import NO_RULES, RuleSet
from llm_proxy.modes import Mode
from llm_proxy.redaction import storable_request_headers
from llm_proxy.routing import RoutedRequest
from llm_proxy.session_documents import CallDocument, SessionReport
from llm_proxy.shell.library.library import (
    CASSETTE_SUFFIX,
    Library,
    session_folder,
    walk_cassettes,
)
from llm_proxy.shell.library.library_takes import LibraryTakes
from llm_proxy.shell.recording.recorder import SpoolRecorder
from llm_proxy.shell.server.journal import Journal, JournalCounts
from llm_proxy.shell.server.response_writer import ResponseWriter
from llm_proxy.shell.upstream.live import LiveUpstream

T = TypeVar("T")

_MAX_CALLS: Final = 1_000
"""Maximum number of calls of a session that are kept, the latest."""

ChooseScenario = Callable[[str, str], Awaitable[Sequence[str] | None]]
"""Sets the scenario of a session, from the session's name and a scenario id; an empty id removes
the choice.  Returns None if that scenario is loaded now, else similar ids."""


@dataclass(frozen=True, slots=True)
class ActiveMode:
    """A mode, and the parts of the shell that it uses."""

    mode: Mode
    match_rules: RuleSet = NO_RULES
    """The rules for the keys of its requests."""
    choose_scenario: ChooseScenario | None = None
    """None if it plays no scenarios."""
    library: Library | None = None
    takes: LibraryTakes | None = None
    upstream: LiveUpstream | None = None
    recorder: SpoolRecorder | None = None


@dataclass(slots=True)
class RunningSession:
    """A session from its start to its end."""

    name: str
    active_mode: ActiveMode
    counts_at_start: JournalCounts
    unfinished_sessions: tuple[str, ...] = ()
    """Ended sessions whose tests have left threads that may still send requests."""
    _calls: deque[_Call] = field(default_factory=lambda: deque(maxlen=_MAX_CALLS))

    def add_call(self, routed: RoutedRequest, entry: JournalEntry, writer: ResponseWriter) -> None:
        """Add a request, before its response is sent."""
        writer.capture_body()
        self._calls.append(_Call(routed.decompressed_request, entry, writer))

    def call_documents(self) -> list[CallDocument]:
        """The latest calls; a response that is in progress is as long as it is now."""
        return [call.to_document() for call in self._calls]


@dataclass(frozen=True, slots=True)
class _Call:
    """A request of a session, with its journal entry and what was sent so far."""

    request: Request
    entry: JournalEntry
    writer: ResponseWriter

    def to_document(self) -> CallDocument:
        request = self.request
        return CallDocument(
            self.entry,
            request.method,
            request.path,
            request.query,
            storable_request_headers(request.headers),
            request.body,
            self.writer.written_head,
            bytes(self.writer.captured_body or b""),
        )


class SessionRegistry:
    """The mode of every session, and the sessions that are running."""

    def __init__(self, default_mode: ActiveMode) -> None:
        """`default_mode` responds to all sessions that no test runner has started."""
        self.default_mode = default_mode
        self.current: RunningSession | None = None
        """The session of requests that name none; None for the one of the settings."""
        self.late_requests: list[str] = []
        """One sentence for each request that arrived after the end of its test."""
        self._running: dict[str, RunningSession] = {}
        self._ended: set[str] = set()
        self._ended_last = ""

    def start(
        self,
        name: str,
        active_mode: ActiveMode,
        journal: Journal,
        unfinished_sessions: tuple[str, ...] = (),
    ) -> RunningSession:
        """Start a session from its first take, and make it the current one."""
        active_mode.mode.reset_session(name)
        self._ended.discard(name)
        self.current = RunningSession(
            name, active_mode, replace(journal.counts), unfinished_sessions
        )
        self._running[name] = self.current
        return self.current

    def end(self, name: str) -> RunningSession | None:
        """End a session: its requests are refused from now on.  None if it is not running."""
        session = self._running.pop(name, None)
        if session is not None:
            self._ended.add(name)
            self._ended_last = name
            if self.current is session:
                self.current = None
        return session

    def running(self, name: str) -> RunningSession | None:
        """The running session of this name."""
        return self._running.get(name)

    def mode_of(self, name: str) -> ActiveMode:
        """The mode that responds to requests of a session.

        A session that a test names itself has the mode of that test.
        """
        session = self._running.get(name) or self.current
        return self.default_mode if session is None else session.active_mode

    def check_in_time(self, routed: RoutedRequest, description: str) -> None:
        """Raise `LateRequest` for a request of a test that has ended."""
        if routed.session in self._ended:
            raise self._late_request(description, routed.session)
        if self._ended_last and self.current is None:
            raise self._late_request(description, self._ended_last)

    def late_request_of_miss(self, routed: RoutedRequest, description: str) -> LateRequest | None:
        """The error for a miss that an earlier test has probably caused.

        That test has recorded this request, and has left a thread that is still running.
        """
        session = self._running.get(routed.session)
        if session is None or (library := session.active_mode.library) is None:
            return None
        for name in session.unfinished_sessions:
            if library.take_paths(name, routed.key):
                return self._late_request(description, name)
        return None

    def _late_request(self, description: str, ended_session: str) -> LateRequest:
        error = LateRequest(description, ended_session)
        self.late_requests.append(str(error))
        return error


def session_report(session: RunningSession, journal: Journal, aborted_count: int) -> SessionReport:
    """What happened since the start of a session, in all sessions that it started."""
    start, counts = session.counts_at_start, journal.counts
    entries = [entry for entry in journal.entries if entry.number > start.requests]
    recorded_files = _last(journal.recorded_files, counts.recorded - start.recorded)
    played_files = tuple(
        dict.fromkeys(
            entry.origin
            for entry in entries
            if entry.simulated is None and entry.origin.endswith(CASSETTE_SUFFIX)
        )
    )
    return SessionReport(
        session=session.name,
        requests=len(entries),
        replayed=counts.replayed - start.replayed,
        simulated=counts.simulated - start.simulated,
        played_files=played_files,
        recorded_files=recorded_files,
        unplayed_files=tuple(_unplayed_files(session, {*played_files, *recorded_files})),
        misses=_last(journal.misses, counts.missed - start.missed),
        scenario_failures=tuple(
            failed.reason
            for failed in _last(journal.failed_sessions, counts.unsuccessful - start.unsuccessful)
        ),
        lost_recordings=_last(
            journal.recording_failures, counts.lost_recordings - start.lost_recordings
        ),
        aborted=aborted_count,
    )


def _last(values: Sequence[T], count: int) -> tuple[T, ...]:
    return tuple(values[-count:]) if count else ()


def _unplayed_files(session: RunningSession, used_files: Container[str]) -> Iterator[str]:
    library = session.active_mode.library
    if library is not None:
        for path in walk_cassettes(session_folder(library.root, session.name)):
            if str(path) not in used_files:
                yield str(path)
