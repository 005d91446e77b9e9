"""A server that responds to each request as a test decides, also with provider failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from aiohttp import web

from dialect_manners import ENCODE_CONTEXT
from llm_proxy.dialects.base import DecodedRequest
from llm_proxy.faults.engine import FaultEngine
from llm_proxy.journal_document import JournalEntry
from llm_proxy.modes import Mode, ModeResponse
from llm_proxy.pacing import Pace, PaceRegistry, RecordedPace
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.scripted_response import ScriptedAction, response_actions
from llm_proxy.shell.server.control import ControlPages
from llm_proxy.shell.server.fault_middleware import FaultMiddleware
from llm_proxy.shell.server.intake import RequestAdmission
from llm_proxy.shell.server.journal import Journal
from llm_proxy.shell.server.server import ProxyServer
from llm_proxy.shell.server.sessions import ActiveMode, SessionRegistry

ResponseChooser = Callable[[RoutedRequest], ScriptedAction]


@dataclass(frozen=True, slots=True)
class ScriptedMode:
    """A mode that renders the response that a test's function chooses."""

    choose_response: ResponseChooser
    max_silence_ms: float = 660_000.0
    pace: Pace = field(default_factory=RecordedPace)
    name: str = "directed"

    async def respond(self, call: RoutedRequest) -> ModeResponse:
        """Render the chosen response."""
        decoded_request = DecodedRequest(
            call.dialect, call.decompressed_request, replace(ENCODE_CONTEXT, provider=call.provider)
        )
        burst = response_actions(
            self.choose_response(call), decoded_request, self.pace, self.max_silence_ms
        )
        return ModeResponse(burst, "directed")

    def reset_session(self, session: str) -> None:
        """Do nothing: this mode keeps no state."""


@dataclass(frozen=True, slots=True)
class ModeServer:
    """A running server, its URL and its journal."""

    url: str
    journal: Journal
    server: ProxyServer

    def entries(self, session: str = "default") -> list[JournalEntry]:
        """The journal entries of a session, in order of arrival."""
        return [entry for entry in self.journal.entries if entry.session == session]


@asynccontextmanager
async def serve_mode(mode: Mode) -> AsyncIterator[ModeServer]:
    """Run a server with this mode."""
    journal = Journal()
    faults = FaultMiddleware(FaultEngine())
    sessions = SessionRegistry(ActiveMode(mode))
    pages = ControlPages(sessions, journal, PaceRegistry(RecordedPace()), faults)
    server = ProxyServer(sessions, RequestAdmission(), journal, pages, faults)
    runner = web.ServerRunner(server.connection_factory(access_log=None), shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield ModeServer(f"http://127.0.0.1:{runner.addresses[0][1]}", journal, server)
    finally:
        await runner.cleanup()
