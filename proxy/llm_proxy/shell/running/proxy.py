"""Starts and stops a proxy server, with everything that its mode responds from."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal

from aiohttp import web

from llm_proxy.faults.engine import FaultEngine
from llm_proxy.modes import AutoMode, Mode, RecordMode, ReplayMode, SimulateMode, TakePlayer
from llm_proxy.pacing import PaceRegistry
from llm_proxy.routing import RoutingSettings
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.library_takes import LibraryTakes
from llm_proxy.shell.recording.cassette_filer import FiledCassette
from llm_proxy.shell.recording.recorder import RecorderEvents, SpoolRecorder
from llm_proxy.shell.running.fault_rules import check_live_rules, fault_engine_config
from llm_proxy.shell.running.listener import ListenerGate, listen
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.settings_checks import auto_may_go_live, check_folders, may_record
from llm_proxy.shell.running.simulation import SequentialOffload, is_simulating, make_simulate_mode
from llm_proxy.shell.server.control import ControlPages
from llm_proxy.shell.server.fault_middleware import FaultMiddleware
from llm_proxy.shell.server.intake import RequestAdmission, RequestGuards, RequestLimits
from llm_proxy.shell.server.journal import Journal, LibraryUsage
from llm_proxy.shell.server.retries import RetryTracker
from llm_proxy.shell.server.server import ProxyServer
from llm_proxy.shell.upstream.live import LiveUpstream, UpstreamSettings

log: Final = logging.getLogger("llm_proxy")

ModeName = Literal["record", "replay", "auto", "simulate"]

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
    paces = PaceRegistry(settings.pace, settings.seed)
    library = Library(settings.cassettes)
    recorder: SpoolRecorder | None = None
    upstream: LiveUpstream | None = None
    takes: LibraryTakes | None = None
    async with AsyncExitStack() as stack:  # it stops the server before it files the recordings
        if may_record(mode, settings):
            await asyncio.to_thread(check_folders, settings)
        simulate_mode: SimulateMode | None = None
        if is_simulating(mode, settings):
            simulate_mode = await make_simulate_mode(mode, settings, paces)
        if mode != "simulate":
            await asyncio.to_thread(library.refresh)
        if mode in {"record", "auto"}:
            recorder = await _make_recorder(mode, settings, library, journal)
            stack.push_async_callback(recorder.close)
            upstream_settings = UpstreamSettings(
                base_urls=settings.upstreams,
                replacing_v1=settings.client_chosen_upstreams,
                idle_timeout_s=settings.idle_timeout,
                proxy_url=settings.upstream_proxy,
                finish_on_disconnect=settings.finish_on_disconnect,
                signs_requests=settings.sign is not None
                and (mode == "record" or auto_may_go_live(settings)),
            )
            upstream = await stack.enter_async_context(LiveUpstream(upstream_settings))
        if mode in {"replay", "auto"}:
            takes = LibraryTakes(
                library, allow_partial=settings.allow_partial, rules=settings.matching.rules
            )
        active_mode = _make_mode(mode, settings, paces, takes, upstream, recorder, simulate_mode)

        engine = FaultEngine(settings.faults, fault_engine_config(settings))
        journal.rule_documents = lambda: [
            active_rule.to_json_fields() for active_rule in engine.active_rules
        ]
        fault_middleware = FaultMiddleware(engine, allows_header=settings.fault_header)
        control_pages = ControlPages(
            active_mode,
            journal,
            paces,
            fault_middleware,
            None if simulate_mode is None else simulate_mode.set_session_scenario,
        )
        via_pseudonym = upstream.via_pseudonym if upstream is not None else ""
        admission = RequestAdmission(
            RequestGuards(settings.allow_hosts, settings.allow_origins, via_pseudonym),
            RequestLimits(settings.max_body),
            RoutingSettings(settings.matching.session, settings.matching.rules),
            RetryTracker() if settings.matching.collapse_retries else None,
        )
        server = ProxyServer(active_mode, admission, journal, control_pages, fault_middleware)
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
        if takes is not None:
            takes.index.start_in_background(lambda: server.active_request_count > 0)
            stack.callback(takes.index.stop_background)
        listener_gate = ListenerGate(runner, fault_middleware)
        stack.push_async_callback(listener_gate.stop)
        await listener_gate.start()
        yield RunningProxy(
            url, server, fault_middleware, journal, upstream, recorder, library, listener_gate.stop
        )


def _make_mode(
    name: ModeName,
    settings: Settings,
    paces: PaceRegistry,
    takes: LibraryTakes | None,
    upstream: LiveUpstream | None,
    recorder: SpoolRecorder | None,
    simulate_mode: SimulateMode | None,
) -> Mode:
    if takes is not None:
        player = TakePlayer(paces, SequentialOffload(), settings.matching.nearest)
        if upstream is None or recorder is None:
            return ReplayMode(takes, player, settings.after_last, simulate_mode)
        on_miss = "fail" if settings.on_miss == "scenario" else settings.on_miss
        return AutoMode(takes, upstream, recorder, player, simulate_mode or on_miss)
    if upstream is not None and recorder is not None:
        return RecordMode(upstream, recorder)
    if simulate_mode is not None:
        return simulate_mode
    raise AssertionError(f"{name} lacks what it answers with")


async def _make_recorder(
    mode: ModeName, settings: Settings, library: Library, journal: Journal
) -> SpoolRecorder:
    """The recorder; in `auto` with its own copy of the library's index, which it adds to."""

    def on_filed(request_description: str, filed_cassette: FiledCassette) -> None:
        journal.add_recorded_file(
            str(filed_cassette.path), is_complete=filed_cassette.outcome.is_complete
        )
        log.info("%s: %s (%s)", filed_cassette.path, filed_cassette.outcome, request_description)

    def on_failed(request_description: str, reason: str) -> None:
        journal.add_recording_failure(reason)
        log.error("not recorded: %s: %s", request_description, reason)

    recorder_library = library if mode == "record" else library.with_copied_index()
    events = RecorderEvents(on_filed, on_failed)
    recorder = SpoolRecorder(
        recorder_library, settings.spool, events, replaces_older=mode == "record"
    )
    await recorder.wait_until_scanned()
    return recorder
