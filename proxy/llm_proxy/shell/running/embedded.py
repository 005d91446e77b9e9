"""A proxy that the process which started it controls, such as a test runner.

The requests of that process do not use the network, because tests may block it:

    parent ──▶ stdin    {"id": 1, "method": "PUT", "path": "/_proxy/sessions/NAME", "body": {…}}
    parent ◀── stdout   {"id": 1, "status": 200, "document": {…}}

The pages are those of `shell.server.control`, and in addition:

PUT    /_proxy/sessions/NAME        start a session, or with `resume` continue it: the fields of
                                    `SessionStart`
GET    /_proxy/sessions/NAME        what has happened so far: a `SessionReport`
GET    /_proxy/sessions/NAME/calls  its requests and responses: `CallDocument`s
PUT    /_proxy/sessions/NAME/faults set its fault rules: {"faults": ["reset,after=3"]}
DELETE /_proxy/sessions/NAME        end it: {"keep": true} if its recordings may replace older ones
GET    /_proxy/late                 the requests that arrived after the end of their test
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import msgspec

from llm_proxy.errors import LlmProxyError, printable_excerpt
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.pacing import parse_pace
from llm_proxy.routing import checked_name
from llm_proxy.session_documents import ReadyDocument, SessionFaults, SessionReport, SessionStart
from llm_proxy.shell.running.end_of_run import finish_library_usage
from llm_proxy.shell.running.environment import child_environment, dummy_key_variables
from llm_proxy.shell.running.proxy import RunningProxy, run_proxy
from llm_proxy.shell.running.settings import ModeName, Settings
from llm_proxy.shell.server.control import scenario_hint
from llm_proxy.shell.server.sessions import ActiveMode, RunningSession, session_report

_LIVE_DRAIN_TIMEOUT_S: Final = 5.0
"""Seconds that live responses get at the end of their session: the recordings are complete then."""
_DRAIN_TIMEOUT_S: Final = 0.2
"""Seconds that other responses get: those that are done with their last write."""
_ABORT_TIMEOUT_S: Final = 2.0
"""Seconds that aborted responses get to end."""
_FILING_TIMEOUT_S: Final = 30.0
"""Seconds that recordings get to be filed at the end of their session."""
_JOURNAL_TIMEOUT_S: Final = 5.0
"""Seconds that the calls of a session wait for a response that a client has already."""
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
                    return await self._start_session(name, body)
                case "GET", True, "" | "calls":
                    return await self._session_page(name, page)
                case "PUT", True, "faults":
                    rules = parse_rules(msgspec.json.decode(body, type=SessionFaults).faults)
                    self.proxy.fault_middleware.set_session_rules(name, rules)
                    return 200, {}
                case "DELETE", True, "":
                    return await self._end_session(name, body)
                case "GET", False, _ if path == "/_proxy/late":
                    return 200, {"late": self.proxy.sessions.late_requests}
                case _:
                    response = await self.proxy.control_pages.page_response(method, path, body)
                    return response or (404, {"error": f"no such page: {method} {path}"})
        except (LlmProxyError, msgspec.DecodeError) as error:
            return 400, {"error": str(error)}

    async def _session_page(self, name: str, page: str) -> tuple[int, Any]:
        session = self.proxy.sessions.running(name)
        if session is None:
            return 404, _not_running(name)
        with suppress(TimeoutError):
            async with asyncio.timeout(_JOURNAL_TIMEOUT_S):
                while self.proxy.server.has_unjournaled_response:  # noqa: ASYNC110 # some µs
                    await asyncio.sleep(0)
        if not page:
            return 200, self._report(session, 0)
        # A client that stops at the last event is faster than the end of the response.
        await self.proxy.wait_until_idle(_LAST_BYTES_TIMEOUT_S)
        return 200, {"calls": session.call_documents()}

    def _report(self, session: RunningSession, aborted_count: int) -> SessionReport:
        return session_report(session, self.proxy.journal, aborted_count)

    async def _start_session(self, name: str, body: bytes) -> tuple[int, Any]:
        start = msgspec.json.decode(body, type=SessionStart)
        sessions, middleware = self.proxy.sessions, self.proxy.fault_middleware
        if start.resume or start.change:
            session = sessions.running(name)
            if session is None:
                return 404, _not_running(name)
            sessions.current = session
            if start.resume:
                return 200, {}
            session.active_mode = await self._active_mode(start)
        else:
            checked_name("session", name)
            pace = parse_pace(start.pace) if start.pace else None
            rules = parse_rules(start.faults)
            active_mode = await self._active_mode(start)
            session = sessions.start(
                name, active_mode, self.proxy.journal, start.unfinished_sessions
            )
            middleware.reset_session(name)
            middleware.set_session_rules(name, rules)
            self.proxy.control_pages.paces.set_pace(pace, name)
            if active_mode.recorder is not None:
                active_mode.recorder.hold_session(name, replaces_session=start.replaces_session)
        if not start.scenario:
            return 200, {}
        if session.active_mode.choose_scenario is None:
            return await self.proxy.control_pages.choose_scenario(name, start.scenario)
        similar_ids = await session.active_mode.choose_scenario(name, start.scenario)
        if similar_ids is None:
            return 200, {}
        if not start.change:
            sessions.end(name)
        scenario = printable_excerpt(start.scenario, _MAX_NAME_CHARS)
        return 400, {"error": f"unknown scenario {scenario!r}; {scenario_hint(similar_ids)}"}

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

    async def _end_session(self, name: str, body: bytes) -> tuple[int, Any]:
        """End a session: its responses end or are aborted, and its recordings are filed."""
        keep = bool(msgspec.json.decode(body)["keep"])
        session = self.proxy.sessions.end(name)
        if session is None:
            return 404, _not_running(name)
        is_live = session.active_mode.upstream is not None
        timeout_s = _LIVE_DRAIN_TIMEOUT_S if is_live else _DRAIN_TIMEOUT_S
        await self.proxy.wait_until_idle(timeout_s)
        if aborted_count := self.proxy.server.active_request_count:
            self.proxy.server.cancel_responses()
            await self.proxy.wait_until_idle(_ABORT_TIMEOUT_S)
        if (recorder := session.active_mode.recorder) is not None:
            await recorder.settle_session(name, keep=keep, timeout_s=_FILING_TIMEOUT_S)
        self.proxy.fault_middleware.set_session_rules(name, ())
        self.proxy.control_pages.paces.set_pace(None, name)
        return 200, await asyncio.to_thread(self._report, session, aborted_count)


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
                body = msgspec.json.encode(request["body"])
                status, document = await embedded.respond(request["method"], request["path"], body)
                response = {"id": request["id"], "status": status, "document": document}
                await asyncio.to_thread(self.write, response)
        finally:
            transport.close()
