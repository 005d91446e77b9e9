"""A server that answers each call as a test directs, and fails as a provider does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from aiohttp import web

from llm_proxy.dialects.decoded_request import Asked
from llm_proxy.faults.engine import Injector
from llm_proxy.modes import Answer, Mode
from llm_proxy.pacing import Pace, Recorded
from llm_proxy.routing import Call
from llm_proxy.scenario.render.actions import actions
from llm_proxy.scenario.render.failures import Limits
from llm_proxy.scenario.scripted_response import Exhausted, Fail, Say
from llm_proxy.shell.server.control import Control
from llm_proxy.shell.server.fault_middleware import Injecting
from llm_proxy.shell.server.intake import Admission
from llm_proxy.shell.server.journal import Entry, Journal
from llm_proxy.shell.server.server import Server
from speaking import DELIVERY

Direct = Callable[[Call], Say | Fail | Exhausted]


@dataclass(frozen=True, slots=True)
class Directed:
    """The mode of such a server."""

    direct: Direct
    limits: Limits = field(default_factory=Limits)
    pace: Pace = field(default_factory=Recorded)
    name: str = "directed"

    async def answer(self, call: Call) -> Answer:
        """As directed; only what is not empty says something."""
        asked = Asked(call.dialect, call.plain, replace(DELIVERY, provider=call.provider))
        burst = actions(self.direct(call), asked, _says, self.pace, self.limits)
        return Answer(burst, "directed")

    def reset(self, session: str) -> None:
        """Nothing counts here."""


def _says(_codec: str, message: bytes) -> bool:
    return b'"content":"' in message and b'"content":""' not in message


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a server is, and what happened on it."""

    url: str
    journal: Journal
    server: Server

    def entries(self, session: str = "default") -> list[Entry]:
        """The requests of a session, in the order in which they came."""
        return [it for it in self.journal.entries if it.session == session]


@asynccontextmanager
async def directed(mode: Mode) -> AsyncIterator[Stage]:
    """A running server of this mode."""
    journal = Journal()
    server = Server(mode, Admission(), journal, Control(()), Injecting(Injector()))
    runner = web.ServerRunner(server.listener(access_log=None), shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield Stage(f"http://127.0.0.1:{runner.addresses[0][1]}", journal, server)
    finally:
        await runner.cleanup()
