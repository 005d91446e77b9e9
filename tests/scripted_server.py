"""A server that answers each call as a test directs, and fails as a provider does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from aiohttp import web

from dialect_manners import DELIVERY
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.faults.engine import FaultEngine
from llm_proxy.modes import Mode, ModeResponse
from llm_proxy.pacing import Pace, RecordedPace
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.render.actions import response_actions
from llm_proxy.scenario.render.failures import FailureLimits
from llm_proxy.scenario.scripted_response import FailResponse, ReportExhausted, SendTurns
from llm_proxy.shell.server.control import ControlPages
from llm_proxy.shell.server.fault_middleware import FaultMiddleware
from llm_proxy.shell.server.intake import RequestAdmission
from llm_proxy.shell.server.journal import Journal, JournalEntry
from llm_proxy.shell.server.server import ProxyServer

Direct = Callable[[RoutedRequest], SendTurns | FailResponse | ReportExhausted]


@dataclass(frozen=True, slots=True)
class Directed:
    """The mode of such a server."""

    direct: Direct
    limits: FailureLimits = field(default_factory=FailureLimits)
    pace: Pace = field(default_factory=RecordedPace)
    name: str = "directed"

    async def respond(self, call: RoutedRequest) -> ModeResponse:
        """As directed; only what is not empty says something."""
        asked = DecodedRequest(
            call.dialect, call.decompressed, replace(DELIVERY, provider=call.provider)
        )
        burst = response_actions(self.direct(call), asked, _says, self.pace, self.limits)
        return ModeResponse(burst, "directed")

    def reset(self, session: str) -> None:
        """Nothing counts here."""


def _says(_codec: str, message: bytes) -> bool:
    return b'"content":"' in message and b'"content":""' not in message


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a server is, and what happened on it."""

    url: str
    journal: Journal
    server: ProxyServer

    def entries(self, session: str = "default") -> list[JournalEntry]:
        """The requests of a session, in the order in which they came."""
        return [entry for entry in self.journal.entries if entry.session == session]


@asynccontextmanager
async def directed(mode: Mode) -> AsyncIterator[Stage]:
    """A running server of this mode."""
    journal = Journal()
    server = ProxyServer(
        mode, RequestAdmission(), journal, ControlPages(()), FaultMiddleware(FaultEngine())
    )
    runner = web.ServerRunner(server.listener(access_log=None), shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield Stage(f"http://127.0.0.1:{runner.addresses[0][1]}", journal, server)
    finally:
        await runner.cleanup()
