"""Builds a proxy from its settings, starts and stops it: mode, library, faults, server, listener.

`shell.server.server` handles its requests.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Final, Literal, TypeVar, cast

from aiohttp import web

from llm_proxy.errors import UsageError
from llm_proxy.faults.engine import FaultEngine, FaultEngineConfig
from llm_proxy.faults.kind import AtFraction
from llm_proxy.modes import (
    AutoMode,
    Mode,
    RecordMode,
    ReplayMode,
    SimulateMode,
    SimulationSettings,
    TakePlayer,
)
from llm_proxy.modes.simulate import RespondFunction
from llm_proxy.pacing import PaceRegistry
from llm_proxy.redaction import environment_secret_spellings
from llm_proxy.routing import RoutingSettings
from llm_proxy.scenario.choosing import ScenarioSet
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockSpec
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.library_takes import LibraryTakes
from llm_proxy.shell.recording.cassette_filer import FiledCassette
from llm_proxy.shell.recording.recorder import RecorderEvents, SpoolRecorder
from llm_proxy.shell.running.environment import key_variables_of_public_providers
from llm_proxy.shell.running.listener import ListenerGate, listen
from llm_proxy.shell.running.settings import ClockKind, Settings, check_folders
from llm_proxy.shell.scenarios import ScenarioLibrary
from llm_proxy.shell.server.control import ControlPages
from llm_proxy.shell.server.fault_middleware import FaultMiddleware
from llm_proxy.shell.server.intake import (
    RequestAdmission,
    RequestGuards,
    RetryTracker,
)
from llm_proxy.shell.server.journal import Journal, LibraryUsage
from llm_proxy.shell.server.server import ProxyServer
from llm_proxy.shell.upstream.live import LiveUpstream, UpstreamSettings

T = TypeVar("T")

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
_FIXED_EPOCH_S: Final = 1_767_225_600
"""The time of the fixed clock, in s since 1970: the first of January 2026, UTC."""


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
    for rule in settings.faults:
        if mode == "record" and isinstance(rule.location, AtFraction):
            raise UsageError(
                f"fault '{rule.text}': record cannot use fraction=, because the length of a live "
                "stream is unknown; use after=, bytes=, ms= or at="
            )
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    settings.match_rules.redaction.finder()  # compiled now: the first request does not wait for it
    journal = Journal(LibraryUsage(settings.cassettes, settings.max_age))
    paces = PaceRegistry(settings.pace, settings.seed)
    library = Library(settings.cassettes, is_shared=settings.shared_library)
    recorder: SpoolRecorder | None = None
    upstream: LiveUpstream | None = None
    takes: LibraryTakes | None = None
    async with AsyncExitStack() as stack:  # it stops the server before it files the recordings
        if settings.may_record(mode):
            await asyncio.to_thread(check_folders, settings)
        simulate_mode: SimulateMode | None = None
        if settings.simulates(mode):
            simulate_mode = await _make_simulate_mode(mode, settings, paces)
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
                signs_requests=settings.sign is not None and settings.may_go_live(mode),
            )
            upstream = await stack.enter_async_context(LiveUpstream(upstream_settings))
        if mode in {"replay", "auto"}:
            takes = LibraryTakes(
                library, allow_partial=settings.allow_partial, rules=settings.match_rules
            )
        active_mode: Mode
        if takes is not None:
            player = TakePlayer(paces, SequentialOffload(), settings.nearest)
            if upstream is None or recorder is None:
                active_mode = ReplayMode(takes, player, settings.after_last, simulate_mode)
            else:
                on_miss = "fail" if settings.on_miss == "scenario" else settings.on_miss
                active_mode = AutoMode(takes, upstream, recorder, player, simulate_mode or on_miss)
        elif upstream is not None and recorder is not None:
            active_mode = RecordMode(upstream, recorder)
        elif simulate_mode is not None:
            active_mode = simulate_mode
        else:
            raise AssertionError(f"{mode} has no source of responses")

        engine = FaultEngine(
            settings.faults,
            FaultEngineConfig(settings.seed, settings.silence * 1000, _epoch_clock(settings.clock)),
        )
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
            settings.max_body,
            routing_settings=RoutingSettings(
                settings.session, settings.match_rules, environment_secret_spellings(os.environ)
            ),
            retry_tracker=RetryTracker() if settings.collapse_retries else None,
        )
        server = ProxyServer(
            active_mode,
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
        if takes is not None:
            takes.index.start_in_background(lambda: server.active_request_count > 0)
            stack.callback(takes.index.stop_background)
        listener_gate = ListenerGate(runner, fault_middleware)
        stack.push_async_callback(listener_gate.stop)
        await listener_gate.start()
        yield RunningProxy(
            url, server, fault_middleware, journal, upstream, recorder, library, listener_gate.stop
        )


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


async def _make_simulate_mode(mode: str, settings: Settings, paces: PaceRegistry) -> SimulateMode:
    """The simulate mode, used by itself or as the fallback of `mode`.

    Raises `UsageError` for scenario files with mistakes, an invalid mock, and a function that
    cannot be imported.
    """
    mock = loading.parse_struct(MockSpec, "--mock", settings.mock) if settings.mock else None

    async def without_files() -> ScenarioSet:
        return ScenarioSet(mock=mock)

    scenario_source = without_files
    if settings.scenarios is not None:
        library = ScenarioLibrary(settings.scenarios, mock=mock)
        await asyncio.to_thread(library.load)
        scenario_source = library.current_scenarios
    simulation_settings = SimulationSettings(
        seed=settings.seed,
        get_unix_time=_epoch_clock(settings.clock),
        get_cpu_time_s=time.thread_time,
        pace_source=paces,
        max_silence_ms=settings.silence * 1000,
        synthesizes_unmatched=settings.on_unknown == "synthesis",
        offload=run_in_thread,
        is_fallback=mode != "simulate",
        respond_function=await asyncio.to_thread(_import_function, settings.respond)
        if settings.respond
        else None,
    )
    return SimulateMode(scenario_source, simulation_settings)


def _epoch_clock(clock: ClockKind) -> Callable[[], int]:
    """The clock for times in responses: it returns s since 1970."""
    if clock == "fixed":
        return lambda: _FIXED_EPOCH_S
    return lambda: int(datetime.now(UTC).timestamp())


def _import_function(function_path: str) -> RespondFunction:
    """Import `module:function`; modules in the working folder are found too."""
    module, colon, attribute = function_path.partition(":")
    if not colon or not module or not attribute:
        raise UsageError(
            f"--respond {function_path}: expected MODULE:FUNCTION, such as answers:respond"
        )
    working_folder = str(Path.cwd())
    if working_folder not in sys.path:
        sys.path.insert(0, working_folder)
    try:
        imported = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise UsageError(f"--respond {function_path}: no such module: {error.name}") from None
    except AttributeError:
        raise UsageError(
            f"--respond {function_path}: module {module} has no function {attribute}"
        ) from None
    except Exception as error:
        raise UsageError(f"--respond {function_path}: cannot import {module}: {error}") from error
    if not callable(imported):
        raise UsageError(f"--respond {function_path}: {attribute} is not a function")
    function: RespondFunction = imported
    return function


async def run_in_thread(function: Callable[[], T]) -> T:
    """Run a function in a daemon thread, which does not delay the end of the process.

    asyncio's own threads are waited for at exit, however long they take.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def resolve_future(value: T | None, error: BaseException | None) -> None:
        if future.done():  # cancelled
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("T", value))

    def run() -> None:
        value, error = None, None
        try:
            value = function()
        except BaseException as raised:
            error = raised if isinstance(raised, Exception) else RuntimeError(repr(raised))
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(resolve_future, value, error)

    threading.Thread(target=run, name="aside", daemon=True).start()
    return await future  # until the function returns or the client leaves


class SequentialOffload:
    """Runs functions in threads, one at a time.

    Concurrent ones would each be slower, and the event loop would run less often.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def __call__(self, function: Callable[[], T], /) -> T:
        """The function's result."""
        async with self._lock:
            return await run_in_thread(function)
