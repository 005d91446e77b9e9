"""Builds a proxy from its settings, starts and stops it: mode, library, faults, server, listener.

`shell.server.server` handles its requests.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from llm_proxy.faults.engine import FaultEngine, FaultEngineConfig
from llm_proxy.pacing import PaceRegistry
from llm_proxy.redaction import environment_secret_spellings
from llm_proxy.routing import RoutingSettings
from llm_proxy.shell.running.active_modes import ModeStarter, epoch_clock
from llm_proxy.shell.running.environment import key_variables_of_public_providers
from llm_proxy.shell.running.listener import ListenerGate, listen
from llm_proxy.shell.running.settings import ModeName, Settings
from llm_proxy.shell.server.control import ControlPages
from llm_proxy.shell.server.fault_middleware import FaultMiddleware
from llm_proxy.shell.server.intake import (
    RequestAdmission,
    RequestGuards,
    RetryTracker,
)
from llm_proxy.shell.server.journal import Journal, LibraryUsage
from llm_proxy.shell.server.server import ProxyServer
from llm_proxy.shell.server.sessions import ActiveMode, SessionRegistry
from llm_proxy.shell.upstream.live import LiveUpstream

_DRAIN_TIMEOUT_S: Final = 30.0
"""Seconds that running streams get to end when the proxy stops."""
_POLL_INTERVAL_S: Final = 0.005
"""Seconds between two checks whether all streams have ended."""
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
    active_mode: ActiveMode
    """The mode of the run."""
    sessions: SessionRegistry
    control_pages: ControlPages
    mode_starter: ModeStarter
    stop_listening: Callable[[], Coroutine[None, None, None]]

    def active_stream_count(self) -> int:
        """The number of responses that are in progress, to clients or from upstreams."""
        from_upstreams = sum(upstream.active_response_count for upstream in self._upstreams)
        return max(self.server.active_request_count, from_upstreams)

    async def drain(self, stop_now_event: asyncio.Event) -> None:
        """Stop listening, let streams end for 30 s or until `stop_now_event`, then cut them."""
        await self.stop_listening()
        self.server.disable_keep_alive()
        await self.wait_until_idle(_DRAIN_TIMEOUT_S, stop_now_event)
        for upstream in self._upstreams:
            await upstream.stop_all()
        if self._upstreams:
            await self.wait_until_idle(_SHUTDOWN_TIMEOUT_S)
        self.server.cancel_responses()

    @property
    def _upstreams(self) -> list[LiveUpstream]:
        modes = self.mode_starter.active_modes
        return [mode.upstream for mode in modes if mode.upstream is not None]

    async def wait_until_idle(
        self, timeout_s: float, stop_now_event: asyncio.Event | None = None
    ) -> None:
        """Wait until no response is in progress, for `timeout_s` or until `stop_now_event`."""
        stop_now_event = stop_now_event or asyncio.Event()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while self.active_stream_count() and not stop_now_event.is_set() and loop.time() < deadline:  # noqa: ASYNC110 # two counters, and only at the end
            await asyncio.sleep(_POLL_INTERVAL_S)


@asynccontextmanager
async def run_proxy(mode: ModeName, settings: Settings) -> AsyncIterator[RunningProxy]:
    """A running server in this mode; on exit every recording is filed in the library.

    Raises `UsageError` if the settings do not allow it to run.
    """
    journal = Journal(LibraryUsage(settings.cassettes, settings.max_age))
    paces = PaceRegistry(settings.pace, settings.seed)
    async with AsyncExitStack() as stack:  # it stops the server before it files the recordings
        stack.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        mode_stack = await stack.enter_async_context(AsyncExitStack())
        starter = ModeStarter(mode_stack, journal, paces, lambda: server.active_request_count > 0)
        active_mode = await starter.start(mode, settings)
        sessions = SessionRegistry(active_mode)
        engine = FaultEngine(
            settings.faults,
            FaultEngineConfig(settings.seed, settings.silence * 1000, epoch_clock(settings.clock)),
        )
        journal.rule_documents = lambda: [
            active_rule.to_json_fields() for active_rule in engine.active_rules
        ]
        fault_middleware = FaultMiddleware(engine, allows_header=settings.fault_header)
        control_pages = ControlPages(sessions, journal, paces, fault_middleware, settings.session)
        upstream = active_mode.upstream
        via_pseudonym = upstream.via_pseudonym if upstream is not None else ""
        admission = RequestAdmission(
            RequestGuards(settings.allow_hosts, settings.allow_origins, via_pseudonym),
            settings.max_body,
            routing_settings=RoutingSettings(
                settings.session, settings.match_rules, environment_secret_spellings(os.environ)
            ),
            retry_tracker=RetryTracker() if settings.collapse_retries else None,
        )
        server = ProxyServer(
            sessions,
            admission,
            journal,
            control_pages,
            fault_middleware,
            key_variables_of_public_providers(settings),
        )
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
        starter.start_indexing(active_mode)
        listener_gate = ListenerGate(runner, fault_middleware, journal)
        stack.push_async_callback(listener_gate.stop)
        await listener_gate.start()
        yield RunningProxy(
            url,
            server,
            fault_middleware,
            journal,
            active_mode,
            sessions,
            control_pages,
            starter,
            listener_gate.stop,
        )
