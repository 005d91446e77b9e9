"""A proxy that the process which started it controls, such as a test runner.

The requests of that process do not use the network, because tests may block it:

    parent ──▶ stdin    {"id": 1, "method": "PUT", "path": "/_proxy/sessions/NAME", "body": {…}}
    parent ◀── stdout   {"id": 1, "status": 200, "document": {…}}

The pages are those of `shell.server.control`, and in addition:

PUT    /_proxy/sessions/NAME        start a session, or with `resume` continue it: the fields of
                                    `SessionStart`
GET    /_proxy/sessions/NAME        what has happened so far: a `SessionReport`
GET    /_proxy/sessions/NAME/unplayed  the same with the cassettes that were not played
GET    /_proxy/sessions/NAME/calls  its requests and responses: `CallDocument`s
PUT    /_proxy/sessions/NAME/faults set its fault rules: {"faults": ["reset,after=3"]}
DELETE /_proxy/sessions/NAME        end it: {"keep": true} if its recordings may replace older ones
POST   /_proxy/sessions/NAME/reset  start again with its first takes, turns and attempts
GET    /_proxy/late                 the requests that arrived after the end of their test
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import msgspec

from llm_proxy.errors import LlmProxyError, UsageError, printable_excerpt
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.pacing import parse_pace
from llm_proxy.routing import checked_name
from llm_proxy.session_documents import (
    STOP_PATH,
    ReadyDocument,
    SessionFaults,
    SessionReport,
    SessionStart,
)
from llm_proxy.shell.running.end_of_run import finish_library_usage
from llm_proxy.shell.running.environment import child_environment, dummy_key_variables
from llm_proxy.shell.running.proxy import RunningProxy, run_proxy
from llm_proxy.shell.running.settings import ModeName, Settings
from llm_proxy.shell.server.control import scenario_hint
from llm_proxy.shell.server.sessions import (
    ActiveMode,
    RunningSession,
    session_report,
    unplayed_files,
)

log: Final = logging.getLogger("llm_proxy")

_LIVE_DRAIN_TIMEOUT_S: Final = 5.0
"""Seconds that live responses get at the end of their session: the recordings are complete then."""
_DRAIN_TIMEOUT_S: Final = 0.2
"""Seconds that other responses get: those that are done with their last write."""
_ABORT_TIMEOUT_S: Final = 2.0
"""Seconds that aborted responses get to end."""
_FILING_TIMEOUT_S: Final = 10.0
"""Seconds that recordings get to be filed at the end of their session."""
_LAST_BYTES_TIMEOUT_S: Final = 0.25
"""Seconds that the calls of a session wait for the end of responses that are in progress."""
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_MAX_NAME_CHARS: Final = 100
"""Maximum length of a name in an error."""
_SESSIONS_PATH: Final = "/_proxy/sessions/"

SettingsParser = Callable[[str, Sequence[tuple[str, str]]], tuple[ModeName, Settings]]
"""Parses a mode, and its options as names and values.  Raises `UsageError`."""


@dataclass(slots=True)
class EmbeddedProxy:
    """Responds to the requests of the process that started this proxy."""

    proxy: RunningProxy
    parse_settings: SettingsParser
    _started_modes: dict[tuple[str, tuple[tuple[str, str], ...]], ActiveMode] = field(
        default_factory=dict
    )

    async def respond(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """The status, and the document, of a page."""
        try:
            name, _, page = path.removeprefix(_SESSIONS_PATH).partition("/")
            match method, path.startswith(_SESSIONS_PATH), page:
                case "PUT", True, "":
                    start = msgspec.json.decode(body, type=SessionStart)
                    return await self._put_session(name, start)
                case "DELETE", True, "":
                    return await self._end_session(name, keep=msgspec.json.decode(body)["keep"])
                case _, True, "" | "calls" | "unplayed" | "faults" | "reset":
                    session = self.proxy.sessions.running(name)
                    if session is None:
                        return 404, _not_running(name)
                    return 200, await self._session_page(session, page, body)
                case "GET", False, _ if path == "/_proxy/late":
                    return 200, {"late": self.proxy.sessions.late_requests}
                case _:
                    response = await self.proxy.control_pages.page_response(method, path, body)
                    return response or (404, {"error": f"no such page: {method} {path}"})
        except (LlmProxyError, msgspec.DecodeError) as error:
            return 400, {"error": str(error)}
        except Exception as error:  # the outermost frame: the proxy must not end in a test run
            log.exception("internal error in llm-proxy; please report it")
            return 500, {"error": f"internal error; please report it: {error!r}"}

    async def _session_page(self, session: RunningSession, page: str, body: bytes) -> Any:
        match page:
            case "faults":
                rules = parse_rules(msgspec.json.decode(body, type=SessionFaults).faults)
                self.proxy.fault_middleware.set_session_rules(session.name, rules)
                return {}
            case "reset":
                session.active_mode.mode.reset_session(session.name)
                self.proxy.fault_middleware.reset_session(session.name)
                await _choose_scenario(session.active_mode, session.name, session.settings.scenario)
                return {}
            case "calls":
                # A client may have its response before the response is in the journal.
                await session.wait_until_idle(_LAST_BYTES_TIMEOUT_S)
                return {"calls": session.call_documents()}
            case "unplayed":
                return await _with_unplayed_files(session, self._report(session))
            case _:
                return self._report(session)

    def _report(self, session: RunningSession, aborted_count: int = 0) -> SessionReport:
        return session_report(session, self.proxy.sessions, self.proxy.journal, aborted_count)

    async def _put_session(self, name: str, start: SessionStart) -> tuple[int, Any]:
        sessions = self.proxy.sessions
        session = sessions.running(name)
        if start.resume or start.change:
            if session is None:
                return 404, _not_running(name)
            if start.change:
                await self._change_session(session, start)
            sessions.current = session
        elif session is not None:
            return 409, {"error": f"the session {name} is already running"}
        else:
            await self._start_session(name, start)
        return 200, {}

    async def _start_session(self, name: str, start: SessionStart) -> None:
        checked_name("session", name)
        pace = parse_pace(start.pace) if start.pace else None
        rules = parse_rules(start.faults)
        active_mode = await self._active_mode(start)
        active_mode.mode.reset_session(name)
        await _choose_scenario(active_mode, name, start.scenario)
        session = self.proxy.sessions.start(name, active_mode, start, self.proxy.journal)
        self.proxy.fault_middleware.reset_session(name)
        self.proxy.fault_middleware.set_session_rules(name, rules)
        self.proxy.control_pages.paces.set_pace(pace, name)
        _hold_recordings(session)

    async def _change_session(self, session: RunningSession, change: SessionStart) -> None:
        """Set the mode and the scenario of a session; its `scenarios` option stays."""
        own_options = session.settings.options
        scenario_options = tuple(pair for pair in own_options if pair[0] == "scenarios")
        settings = msgspec.structs.replace(change, options=scenario_options)
        active_mode = await self._active_mode(settings)
        await _choose_scenario(active_mode, session.name, settings.scenario)
        session.active_mode = active_mode
        session.settings = msgspec.structs.replace(
            session.settings, mode=settings.mode, scenario=settings.scenario
        )
        _hold_recordings(session)

    async def _active_mode(self, start: SessionStart) -> ActiveMode:
        """The mode that a session asks for; modes are started once."""
        if not start.mode and not start.options:
            return self.proxy.active_mode
        active_mode = self._started_modes.get((start.mode, start.options))
        if active_mode is None:
            mode, settings = self.parse_settings(start.mode, start.options)
            active_mode = await self.proxy.mode_starter.start(mode, settings)
            self.proxy.mode_starter.start_indexing(active_mode)
            self._started_modes[start.mode, start.options] = active_mode
        return active_mode

    async def _end_session(self, name: str, *, keep: bool) -> tuple[int, Any]:
        """End a session: its responses end or are aborted, and its recordings are filed."""
        session = self.proxy.sessions.end(name)
        if session is None:
            return 404, _not_running(name)
        is_live = session.active_mode.upstream is not None
        await session.wait_until_idle(_LIVE_DRAIN_TIMEOUT_S if is_live else _DRAIN_TIMEOUT_S)
        aborted_count = len(session.tasks)
        for task in session.tasks:
            task.cancel()
        await session.wait_until_idle(_ABORT_TIMEOUT_S)
        for recorder in session.recorders:
            if not await recorder.settle_session(name, keep=keep, timeout_s=_FILING_TIMEOUT_S):
                log.warning("session %s: a response was still being recorded at its end", name)
        self.proxy.fault_middleware.set_session_rules(name, ())
        self.proxy.control_pages.paces.set_pace(None, name)
        report = self._report(session, aborted_count)
        return 200, await _with_unplayed_files(session, report)


async def _with_unplayed_files(session: RunningSession, report: SessionReport) -> SessionReport:
    """The report with the files that were not played; they are listed in a thread."""
    files = await asyncio.to_thread(unplayed_files, session, report)
    return msgspec.structs.replace(report, unplayed_files=files)


def _hold_recordings(session: RunningSession) -> None:
    """Let the recordings of a session replace none before its end."""
    recorder = session.active_mode.recorder
    if recorder is not None and recorder not in session.recorders:
        recorder.hold_session(session.name, replaces_session=session.settings.replaces_session)
        session.recorders.append(recorder)


async def _choose_scenario(active_mode: ActiveMode, session: str, scenario: str) -> None:
    """Let a scenario respond to all requests of a session; empty for none.

    Raises `UsageError` if there is no such scenario.
    """
    if active_mode.choose_scenario is None:
        if scenario:
            raise UsageError(
                f"scenario {printable_excerpt(scenario, _MAX_NAME_CHARS)!r}: the mode "
                f"{active_mode.mode.name} does not use scenarios; use simulate"
            )
        return
    similar_ids = await active_mode.choose_scenario(session, scenario)
    if similar_ids is not None:
        await active_mode.choose_scenario(session, "")
        shown = printable_excerpt(scenario, _MAX_NAME_CHARS)
        raise UsageError(f"unknown scenario {shown!r}; {scenario_hint(similar_ids)}")


def _not_running(name: str) -> Mapping[str, str]:
    return {"error": f"the session {name} is not running"}


def _ready_document(mode: ModeName, settings: Settings, proxy: RunningProxy) -> ReadyDocument:
    dummy_keys = dummy_key_variables(mode, settings, os.environ)
    environment = child_environment(os.environ, proxy.url, dummy_keys)
    changed = {name: value for name, value in environment.items() if os.environ.get(name) != value}
    return ReadyDocument(mode, proxy.url, changed)


async def run_embedded(
    mode: ModeName,
    settings: Settings,
    parse_settings: SettingsParser,
    serve: Callable[[ReadyDocument, EmbeddedProxy], Awaitable[None]],
) -> bool:
    """Run a proxy until `serve` returns, which gets the ready document.

    Returns whether the disk hangs.  Raises `UsageError` if the proxy cannot run.
    """
    async with run_proxy(mode, settings) as proxy:
        await serve(_ready_document(mode, settings, proxy), EmbeddedProxy(proxy, parse_settings))
        stop_now_event = asyncio.Event()
        stop_now_event.set()
        await proxy.drain(stop_now_event)
        await asyncio.to_thread(finish_library_usage, settings, proxy)
    recorders = [each.recorder for each in proxy.mode_starter.active_modes]
    return any(recorder is not None and recorder.is_disk_hanging for recorder in recorders)


class ParentPipes:
    """The pipes to the parent process.

    They are taken from stdin and stdout, which other code in this process may use: it reads
    nothing, and what it prints goes to stderr.
    """

    def __init__(self) -> None:
        self._requests: BinaryIO = os.fdopen(os.dup(0), "rb")
        self._responses: BinaryIO = os.fdopen(os.dup(1), "wb")
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        sys.stdout = sys.stderr

    def read_line(self) -> bytes:
        """The next request; empty at the end."""
        return self._requests.readline()

    def write(self, document: Any) -> None:
        """Send a document to the parent; one that has gone gets none."""
        line = msgspec.json.encode(document) + b"\n"
        try:
            self._responses.write(line)
            self._responses.flush()
        except BrokenPipeError:
            return

    async def serve(self, ready: ReadyDocument, embedded: EmbeddedProxy) -> None:
        """Respond to the parent's requests until it closes the pipe or ends."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(_MAX_LINE_BYTES)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), self._requests
        )
        await asyncio.to_thread(self.write, ready)
        try:
            while line := await reader.readline():  # without a limit: until the parent ends
                request = msgspec.json.decode(line)
                if request["path"] == STOP_PATH:
                    break
                body = msgspec.json.encode(request["body"])
                status, document = await embedded.respond(request["method"], request["path"], body)
                response = {"id": request["id"], "status": status, "document": document}
                await asyncio.to_thread(self.write, response)
        finally:
            transport.close()
