"""The mode of each session, and the sessions that a test runner starts and ends.

A test is a session.  While it runs, requests that name no session belong to it.  A request that
arrives after its test has ended, or while no test runs, is refused: it must not affect another
test.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final, TypeVar

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.errors import LateRequest
from llm_proxy.exchange import Request
from llm_proxy.journal_document import JournalEntry
from llm_proxy.matching import NO_RULES, RuleSet
from llm_proxy.modes import Mode
from llm_proxy.redaction import storable_request_headers
from llm_proxy.routing import RoutedRequest
from llm_proxy.session_documents import CallDocument, SessionReport, SessionStart
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
    settings: SessionStart
    """What it was started with."""
    counts_at_start: JournalCounts
    recorders: list[SpoolRecorder] = field(default_factory=list)
    """The recorders that hold its recordings."""
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    """The tasks that are sending its responses."""
    _calls: deque[_Call] = field(default_factory=lambda: deque(maxlen=_MAX_CALLS))

    def add_call(self, routed: RoutedRequest, entry: JournalEntry, writer: ResponseWriter) -> None:
        """Add a request, before its response is sent by the current task."""
        writer.capture_body()
        entry.provider, entry.dialect = routed.provider, routed.dialect.name
        self._calls.append(_Call(routed.decompressed_request, entry, writer))
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 # aiohttp runs every handler in a task
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def wait_until_idle(self, timeout_s: float) -> None:
        """Wait until no response is in progress."""
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=timeout_s)

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
        self, name: str, active_mode: ActiveMode, settings: SessionStart, journal: Journal
    ) -> RunningSession:
        """Start a session, and make it the current one."""
        self._ended.discard(name)
        self.current = RunningSession(name, active_mode, settings, replace(journal.counts))
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

    def default_session(self, configured: str) -> str:
        """The session of a request that names none; `configured` is that of the settings.

        Between two tests it is the session that ended last, whose requests are refused.
        """
        return self.current.name if self.current is not None else self._ended_last or configured

    def is_known(self, name: str) -> bool:
        """Whether a test runner has started a session of this name."""
        return name in self._running or name in self._ended

    def running(self, name: str) -> RunningSession | None:
        """The running session of this name."""
        return self._running.get(name)

    def mode_of(self, name: str) -> ActiveMode:
        """The mode that responds to requests of a session.

        A session that a test names itself has the mode of that test.
        """
        session = self._running.get(name) or self.current
        return self.default_mode if session is None else session.active_mode

    def is_late(self, routed: RoutedRequest) -> bool:
        """Whether the test of this request has ended."""
        return routed.session in self._ended

    def late_request(self, routed: RoutedRequest, description: str) -> LateRequest:
        """The error for a request whose test has ended."""
        return self._late_request(
            f"{description} arrived after the end of {routed.session}, and no running test expects "
            "the request; wait for all requests before the test ends, or mark the test that sends "
            "the request with llm_proxy"
        )

    def late_request_of_miss(self, routed: RoutedRequest, description: str) -> LateRequest | None:
        """The error for a miss that an earlier test has probably caused.

        That test has recorded this request, and has left a thread that is still running.
        """
        session = self._running.get(routed.session)
        if session is None or (library := session.active_mode.library) is None:
            return None
        for name in session.settings.unfinished_sessions:
            if library.take_paths(name, routed.key):
                return self._late_request(
                    f"{description} matches no cassette of {session.name}, but a cassette of "
                    f"{name}, which has left a running thread; wait for the thread before the test "
                    f"ends, or record {session.name}"
                )
        return None

    def _late_request(self, message: str) -> LateRequest:
        if len(self.late_requests) < _MAX_CALLS:
            self.late_requests.append(message)
        return LateRequest(message)


def session_report(
    session: RunningSession, sessions: SessionRegistry, journal: Journal, aborted_count: int = 0
) -> SessionReport:
    """What happened since the start of a session, in it and in sessions that requests named."""

    def is_own(name: str) -> bool:
        return name == session.name or not sessions.is_known(name)

    start, counts = session.counts_at_start, journal.counts
    # Only the latest entries: the journal of a run may be long.
    latest = takewhile(lambda entry: entry.number > start.requests, reversed(journal.entries))
    entries = [
        entry
        for entry in reversed([*latest])
        if is_own(entry.session) and entry.origin != "refused"
    ]
    played_files = [
        entry.origin
        for entry in entries
        if entry.simulated is None and entry.origin.endswith(CASSETTE_SUFFIX)
    ]
    missed = _last(journal.misses, counts.missed - start.missed)
    failed = _last(journal.failed_sessions, counts.unsuccessful - start.unsuccessful)
    return SessionReport(
        session=session.name,
        requests=len(entries),
        replayed=len(played_files),
        simulated=sum(entry.simulated is not None for entry in entries),
        played_files=tuple(dict.fromkeys(played_files)),
        recorded_files=_own_files(session, journal.recorded_files),
        incomplete_files=_own_files(session, journal.incomplete_files),
        misses=tuple(miss for miss in missed if is_own(miss.request.session)),
        scenario_failures=tuple(each.reason for each in failed if is_own(each.session)),
        lost_recordings=_last(
            journal.recording_failures, counts.lost_recordings - start.lost_recordings
        ),
        aborted=aborted_count,
    )


def unplayed_files(session: RunningSession, report: SessionReport) -> tuple[str, ...]:
    """The session's cassettes that were neither played nor recorded; none in `record`."""
    active_mode = session.active_mode
    if active_mode.library is None or active_mode.mode.name == "record":
        return ()
    used_files = {*report.played_files, *report.recorded_files}
    folder = session_folder(active_mode.library.root, session.name)
    files = _own_files(session, map(str, walk_cassettes(folder)))  # the default folder has others
    return tuple(file for file in files if file not in used_files)


def _own_files(session: RunningSession, files: Iterable[str]) -> tuple[str, ...]:
    """Those of these cassettes that are in the folder of the session."""
    library = session.active_mode.library
    if library is None:
        return ()
    root_chars = len(str(library.root)) + 1
    if session.name == DEFAULT_SESSION:  # its files are beside the folders of the others
        return tuple(file for file in files if not file.startswith("@", root_chars))
    folder = f"{session_folder(library.root, session.name)}{os.sep}"
    return tuple(file for file in files if file.startswith(folder))


def _last(values: Sequence[T], count: int) -> tuple[T, ...]:
    return tuple(values[-count:]) if count else ()
