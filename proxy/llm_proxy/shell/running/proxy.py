"""A server from start to stop."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from llm_proxy.faults.engine import Injector
from llm_proxy.modes import Mode
from llm_proxy.routing import Routing
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.recorder import Recorder
from llm_proxy.shell.running.fault_rules import check_live, conditions
from llm_proxy.shell.running.listener_gate import Doors
from llm_proxy.shell.running.listening import listen
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.sources import ModeName, Sources, mode_of, sources_of
from llm_proxy.shell.server.control import Control
from llm_proxy.shell.server.control.fault_pages import Faults
from llm_proxy.shell.server.control.pace_page import Pacing
from llm_proxy.shell.server.control.session_pages import Sessions
from llm_proxy.shell.server.control.status_pages import Told
from llm_proxy.shell.server.control.verdict_page import Judged
from llm_proxy.shell.server.fault_middleware import Injecting
from llm_proxy.shell.server.guards import Guards
from llm_proxy.shell.server.intake import Admission, ServerLimits
from llm_proxy.shell.server.journal import Journal
from llm_proxy.shell.server.library_usage import Usage
from llm_proxy.shell.server.retries import Retries
from llm_proxy.shell.server.server import Server
from llm_proxy.shell.upstream.live import LiveUpstream

log: Final = logging.getLogger("llm_proxy")

_DRAIN: Final = 30.0
"""Seconds that streams have to end in, once we are told to stop."""
_LAST_MOMENT: Final = 0.5
"""Seconds that the clients of cut streams have to take what had arrived."""
_KEEPALIVE: Final = 75.0
"""Seconds that a connection may be idle, or take for the head of a request."""
_SWITCH: Final = 0.0005
"""Seconds after which a busy thread of ours lets the event loop have its turn."""
_LARGEST_HEADER: Final = 64 * 1024


@dataclass
class RunningProxy:
    """A server that is up."""

    url: str
    server: Server
    injecting: Injecting
    journal: Journal
    upstream: LiveUpstream | None
    recorder: Recorder | None
    library: Library
    """As it was when the run began, unless this records alone."""
    stop_listening: Callable[[], Coroutine[None, None, None]]

    def busy(self) -> int:
        """Streams that are not over."""
        return max(self.server.active, self.upstream.running if self.upstream else 0)

    async def drain(self, hurry: asyncio.Event) -> None:
        """Take no more requests; let streams end, for 30 s or until `hurry`, then cut them."""
        await self.stop_listening()
        self.server.wind_down()
        await self._until_idle(_DRAIN, hurry)
        if self.upstream is not None:
            await self.upstream.cut()
            await self._until_idle(_LAST_MOMENT, asyncio.Event())
        self.server.cut()

    async def _until_idle(self, seconds: float, hurry: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.busy() and not hurry.is_set() and loop.time() < deadline:  # noqa: ASYNC110 # two counters, and only while stopping
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(mode: ModeName, settings: Settings) -> AsyncIterator[RunningProxy]:
    """A server in this mode; on the way out every recording is seen into the library.

    Raises `UsageError` where the settings do not allow it to run.
    """
    check_live(mode, settings.faults)
    sys.setswitchinterval(_SWITCH)
    journal = Journal(Usage(settings.cassettes, settings.care.max_age))
    async with AsyncExitStack() as stack:
        sources = await sources_of(mode, settings, journal, stack)
        chosen = mode_of(mode, settings, sources)
        injecting = _injecting(settings, journal)
        server = _server(chosen, settings, journal, sources, injecting)
        listener = server.listener(
            access_log=None,
            keepalive_timeout=_KEEPALIVE,
            auto_decompress=False,
            max_line_size=_LARGEST_HEADER,
            max_field_size=_LARGEST_HEADER,
        )
        runner = web.ServerRunner(listener, shutdown_timeout=_LAST_MOMENT)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        stack.callback(server.wind_down)
        url = await listen(runner, settings)
        if sources.takes is not None:
            sources.takes.indexing.begin(lambda: server.active > 0)
            stack.callback(sources.takes.indexing.stop)
        doors = Doors(runner, injecting)
        stack.push_async_callback(doors.stop)
        await doors.follow()
        upstream, recorder = sources.upstream, sources.recorder
        library = sources.library
        yield RunningProxy(url, server, injecting, journal, upstream, recorder, library, doors.stop)


def _injecting(settings: Settings, journal: Journal) -> Injecting:
    """What injects the faults of the run, of which the journal tells."""
    injector = Injector(settings.faults, conditions(settings))
    journal.tell_rules(lambda: [it.told() for it in injector.standing])
    return Injecting(injector, hears_headers=settings.fault_header)


def _server(
    mode: Mode, settings: Settings, journal: Journal, sources: Sources, injecting: Injecting
) -> Server:
    """The server of this mode, with its pages."""
    choose = None if sources.simulate is None else sources.simulate.choose
    control = Control(
        (
            Told(mode, journal),
            Judged(journal),
            Sessions(mode, choose, (injecting.reset, sources.paces.reset)),
            Faults(injecting),
            Pacing(sources.paces, mode.name),
        )
    )
    identity = sources.upstream.identity if sources.upstream is not None else ""
    guards = Guards(settings.allow_hosts, settings.allow_origins, identity)
    routing = Routing(settings.matching.session, settings.matching.rules)
    retries = Retries(collapses=settings.matching.collapse_retries)
    admission = Admission(guards, ServerLimits(settings.max_body), routing, retries)
    return Server(mode, admission, journal, control, injecting)
