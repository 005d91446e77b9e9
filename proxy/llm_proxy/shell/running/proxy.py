"""Starts and stops a proxy server."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from llm_proxy.faults.engine import FaultEngine
from llm_proxy.modes import Mode
from llm_proxy.routing import RoutingSettings
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.recorder import SpoolRecorder
from llm_proxy.shell.running.fault_rules import check_live_rules, fault_conditions
from llm_proxy.shell.running.listener_gate import ListenerGate
from llm_proxy.shell.running.listening import listen
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.sources import ModeName, ModeSources, make_mode, mode_sources
from llm_proxy.shell.server.control import ControlPages
from llm_proxy.shell.server.control.fault_page import FaultPages
from llm_proxy.shell.server.control.pace_page import PacePage
from llm_proxy.shell.server.control.session_pages import SessionPages
from llm_proxy.shell.server.control.status_pages import StatusPages
from llm_proxy.shell.server.control.verdict_page import VerdictPage
from llm_proxy.shell.server.fault_middleware import FaultMiddleware
from llm_proxy.shell.server.guards import RequestGuards
from llm_proxy.shell.server.intake import RequestAdmission, RequestLimits
from llm_proxy.shell.server.journal import Journal
from llm_proxy.shell.server.library_usage import LibraryUsage
from llm_proxy.shell.server.retries import RetryTracker
from llm_proxy.shell.server.server import ProxyServer
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
    server: ProxyServer
    fault_middleware: FaultMiddleware
    journal: Journal
    upstream: LiveUpstream | None
    recorder: SpoolRecorder | None
    library: Library
    """As it was when the run began, unless this records alone."""
    stop_listening: Callable[[], Coroutine[None, None, None]]

    def active_streams(self) -> int:
        """Streams that are not over."""
        return max(self.server.active_count, self.upstream.active_count if self.upstream else 0)

    async def drain(self, hurry: asyncio.Event) -> None:
        """Take no more requests; let streams end, for 30 s or until `hurry`, then cut them."""
        await self.stop_listening()
        self.server.wind_down()
        await self._wait_until_idle(_DRAIN, hurry)
        if self.upstream is not None:
            await self.upstream.stop_all()
            await self._wait_until_idle(_LAST_MOMENT, asyncio.Event())
        self.server.abort_all()

    async def _wait_until_idle(self, seconds: float, hurry: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.active_streams() and not hurry.is_set() and loop.time() < deadline:  # noqa: ASYNC110 # two counters, and only while stopping
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(mode: ModeName, settings: Settings) -> AsyncIterator[RunningProxy]:
    """A server in this mode; on the way out every recording is seen into the library.

    Raises `UsageError` where the settings do not allow it to run.
    """
    check_live_rules(mode, settings.faults)
    sys.setswitchinterval(_SWITCH)
    journal = Journal(LibraryUsage(settings.cassettes, settings.care.max_age))
    async with AsyncExitStack() as stack:
        sources = await mode_sources(mode, settings, journal, stack)
        chosen = make_mode(mode, settings, sources)
        injecting = _make_fault_middleware(settings, journal)
        server = _make_server(chosen, settings, journal, sources, injecting)
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
            sources.takes.indexing.start(lambda: server.active_count > 0)
            stack.callback(sources.takes.indexing.stop)
        doors = ListenerGate(runner, injecting)
        stack.push_async_callback(doors.stop)
        await doors.start()
        upstream, recorder = sources.upstream, sources.recorder
        library = sources.library
        yield RunningProxy(url, server, injecting, journal, upstream, recorder, library, doors.stop)


def _make_fault_middleware(settings: Settings, journal: Journal) -> FaultMiddleware:
    injector = FaultEngine(settings.faults, fault_conditions(settings))
    journal.set_rules_provider(
        lambda: [active_rule.to_document() for active_rule in injector.active_rules]
    )
    return FaultMiddleware(injector, hears_headers=settings.fault_header)


def _make_server(
    mode: Mode,
    settings: Settings,
    journal: Journal,
    sources: ModeSources,
    injecting: FaultMiddleware,
) -> ProxyServer:
    choose = None if sources.simulate is None else sources.simulate.choose_scenario
    control = ControlPages(
        (
            StatusPages(mode, journal),
            VerdictPage(journal),
            SessionPages(mode, choose, (injecting.reset_session, sources.paces.reset)),
            FaultPages(injecting),
            PacePage(sources.paces, mode.name),
        )
    )
    identity = sources.upstream.identity if sources.upstream is not None else ""
    guards = RequestGuards(settings.allow_hosts, settings.allow_origins, identity)
    routing = RoutingSettings(settings.matching.session, settings.matching.rules)
    retries = RetryTracker(collapses=settings.matching.collapse_retries)
    admission = RequestAdmission(guards, RequestLimits(settings.max_body), routing, retries)
    return ProxyServer(mode, admission, journal, control, injecting)
