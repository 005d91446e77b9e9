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
from llm_proxy.shell.running.fault_rules import check_live_rules, fault_engine_config
from llm_proxy.shell.running.listener_gate import ListenerGate
from llm_proxy.shell.running.listening import listen
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.sources import ModeName, ModeSources, make_mode, open_mode_sources
from llm_proxy.shell.server.control import ControlPages
from llm_proxy.shell.server.control.fault_page import FaultPage
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

_DRAIN_TIMEOUT_S: Final = 30.0
"""Seconds that running streams get to end when the proxy stops."""
_SHUTDOWN_TIMEOUT_S: Final = 0.5
"""Seconds that the clients of cut streams get to read what had arrived."""
_KEEPALIVE_TIMEOUT_S: Final = 75.0
"""Maximum seconds that a connection may be idle, or take to send a request head."""
_SWITCH_INTERVAL_S: Final = 0.0005
"""Thread switch interval in seconds: a busy thread yields to the event loop after it."""
_MAX_HEADER_BYTES: Final = 64 * 1024


@dataclass
class RunningProxy:
    """A proxy server that is running."""

    url: str
    server: ProxyServer
    fault_middleware: FaultMiddleware
    journal: Journal
    upstream: LiveUpstream | None
    recorder: SpoolRecorder | None
    library: Library
    """The library as it was when the run began, except in `record`, which adds to it."""
    stop_listening: Callable[[], Coroutine[None, None, None]]

    def active_stream_count(self) -> int:
        """The number of responses that are in progress, to clients or from upstreams."""
        return max(
            self.server.active_request_count,
            self.upstream.active_response_count if self.upstream else 0,
        )

    async def drain(self, stop_now_event: asyncio.Event) -> None:
        """Stop listening, let streams end for 30 s or until `stop_now_event`, then cut them."""
        await self.stop_listening()
        self.server.disable_keep_alive()
        await self._wait_until_idle(_DRAIN_TIMEOUT_S, stop_now_event)
        if self.upstream is not None:
            await self.upstream.stop_all()
            await self._wait_until_idle(_SHUTDOWN_TIMEOUT_S, asyncio.Event())
        self.server.cancel_responses()

    async def _wait_until_idle(self, timeout_s: float, stop_now_event: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while self.active_stream_count() and not stop_now_event.is_set() and loop.time() < deadline:  # noqa: ASYNC110 # two counters, and only while stopping
            await asyncio.sleep(0.02)


@asynccontextmanager
async def run_proxy(mode: ModeName, settings: Settings) -> AsyncIterator[RunningProxy]:
    """A running server in this mode; on exit every recording is filed in the library.

    Raises `UsageError` if the settings do not allow it to run.
    """
    check_live_rules(mode, settings.faults)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    journal = Journal(LibraryUsage(settings.cassettes, settings.library_checks.max_age))
    async with AsyncExitStack() as stack:
        sources = await open_mode_sources(mode, settings, journal, stack)
        active_mode = make_mode(mode, settings, sources)
        fault_middleware = _make_fault_middleware(settings, journal)
        server = _make_server(active_mode, settings, journal, sources, fault_middleware)
        connection_factory = server.connection_factory(
            access_log=None,
            keepalive_timeout=_KEEPALIVE_TIMEOUT_S,
            auto_decompress=False,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
        )
        runner = web.ServerRunner(connection_factory, shutdown_timeout=_SHUTDOWN_TIMEOUT_S)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        stack.callback(server.disable_keep_alive)
        url = await listen(runner, settings)
        if sources.takes is not None:
            sources.takes.index.start_in_background(lambda: server.active_request_count > 0)
            stack.callback(sources.takes.index.stop_background)
        listener_gate = ListenerGate(runner, fault_middleware)
        stack.push_async_callback(listener_gate.stop)
        await listener_gate.start()
        upstream, recorder = sources.upstream, sources.recorder
        library = sources.library
        yield RunningProxy(
            url, server, fault_middleware, journal, upstream, recorder, library, listener_gate.stop
        )


def _make_fault_middleware(settings: Settings, journal: Journal) -> FaultMiddleware:
    engine = FaultEngine(settings.faults, fault_engine_config(settings))
    journal.set_rules_provider(
        lambda: [active_rule.to_json_fields() for active_rule in engine.active_rules]
    )
    return FaultMiddleware(engine, allows_header=settings.fault_header)


def _make_server(
    mode: Mode,
    settings: Settings,
    journal: Journal,
    sources: ModeSources,
    fault_middleware: FaultMiddleware,
) -> ProxyServer:
    choose_scenario = (
        None if sources.simulate_mode is None else sources.simulate_mode.set_session_scenario
    )
    control_pages = ControlPages(
        (
            StatusPages(mode, journal),
            VerdictPage(journal),
            SessionPages(
                mode,
                choose_scenario,
                (fault_middleware.reset_session, sources.pace_registry.remove_session_pace),
            ),
            FaultPage(fault_middleware),
            PacePage(sources.pace_registry, mode.name),
        )
    )
    via_pseudonym = sources.upstream.via_pseudonym if sources.upstream is not None else ""
    guards = RequestGuards(settings.allow_hosts, settings.allow_origins, via_pseudonym)
    routing = RoutingSettings(settings.matching.session, settings.matching.rules)
    retry_tracker = RetryTracker(collapses_retries=settings.matching.collapse_retries)
    admission = RequestAdmission(guards, RequestLimits(settings.max_body), routing, retry_tracker)
    return ProxyServer(mode, admission, journal, control_pages, fault_middleware)
