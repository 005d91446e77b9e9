"""Starts modes: each with its library, upstream and recorder, which stop with the proxy.

A proxy has one mode.  With a test runner it may have several: one for each combination of mode and
settings that tests use.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar, cast

from llm_proxy.errors import UsageError
from llm_proxy.faults.kind import AtFraction
from llm_proxy.misses.report import ReportOptions
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
from llm_proxy.scenario.choosing import ScenarioSet
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockSpec
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.library_takes import LibraryTakes
from llm_proxy.shell.recording.cassette_filer import FiledCassette
from llm_proxy.shell.recording.recorder import RecorderEvents, SpoolRecorder
from llm_proxy.shell.running.settings import ClockKind, ModeName, Settings, check_folders
from llm_proxy.shell.scenarios import ScenarioLibrary
from llm_proxy.shell.server.journal import Journal
from llm_proxy.shell.server.sessions import ActiveMode
from llm_proxy.shell.upstream.live import LiveUpstream, UpstreamSettings
from llm_proxy.shell.user_code import import_object

T = TypeVar("T")

log: Final = logging.getLogger("llm_proxy")

_FIXED_EPOCH_S: Final = 1_767_225_600
"""The time of the fixed clock, in s since 1970: the first of January 2026, UTC."""


@dataclass(slots=True)
class ModeStarter:
    """Starts modes; each is stopped, and its recordings filed, when `stack` is closed."""

    stack: AsyncExitStack
    journal: Journal
    paces: PaceRegistry
    is_server_busy: Callable[[], bool]
    """Whether requests are in progress: then background work pauses."""
    active_modes: list[ActiveMode] = field(default_factory=list)
    """All that were started."""

    async def start(self, mode: ModeName, settings: Settings) -> ActiveMode:
        """Start a mode.  Raises `UsageError` if the settings do not allow it to run."""
        for rule in settings.faults:
            if mode == "record" and isinstance(rule.location, AtFraction):
                raise UsageError(
                    f"fault '{rule.text}': record cannot use fraction=, because the length of a "
                    "live stream is unknown; use after=, bytes=, ms= or at="
                )
        # Compiled now: the first request does not wait for it.
        settings.match_rules.redaction.finder()
        library = Library(settings.cassettes, is_shared=settings.shared_library)
        recorder: SpoolRecorder | None = None
        upstream: LiveUpstream | None = None
        takes: LibraryTakes | None = None
        if settings.may_record(mode):
            await asyncio.to_thread(check_folders, settings)
        simulate_mode: SimulateMode | None = None
        if settings.simulates(mode):
            simulate_mode = await _make_simulate_mode(mode, settings, self.paces)
        if mode != "simulate":
            await asyncio.to_thread(library.refresh)
        if mode in {"record", "auto"}:
            recorder = await _make_recorder(mode, settings, library, self.journal)
            self.stack.push_async_callback(recorder.close)
            upstream_settings = UpstreamSettings(
                base_urls=settings.upstreams,
                replacing_v1=settings.client_chosen_upstreams,
                idle_timeout_s=settings.idle_timeout,
                proxy_url=settings.upstream_proxy,
                finish_on_disconnect=settings.finish_on_disconnect,
                signs_requests=settings.sign is not None and settings.may_go_live(mode),
            )
            upstream = await self.stack.enter_async_context(LiveUpstream(upstream_settings))
        if mode in {"replay", "auto"}:
            takes = LibraryTakes(
                library,
                allow_partial=settings.allow_partial,
                rules=settings.match_rules,
                report_options=ReportOptions(record_command=settings.record_command),
            )
        active_mode = ActiveMode(
            self._make_mode(mode, settings, takes, upstream, recorder, simulate_mode),
            settings.match_rules,
            None if simulate_mode is None else simulate_mode.set_session_scenario,
            library,
            takes,
            upstream,
            recorder,
        )
        self.active_modes.append(active_mode)
        return active_mode

    def _make_mode(
        self,
        mode: ModeName,
        settings: Settings,
        takes: LibraryTakes | None,
        upstream: LiveUpstream | None,
        recorder: SpoolRecorder | None,
        simulate_mode: SimulateMode | None,
    ) -> Mode:
        if takes is not None:
            player = TakePlayer(self.paces, SequentialOffload(), settings.nearest)
            if upstream is None or recorder is None:
                return ReplayMode(takes, player, settings.after_last, simulate_mode)
            on_miss = "fail" if settings.on_miss == "scenario" else settings.on_miss
            return AutoMode(
                takes, upstream, recorder, player, simulate_mode or on_miss, settings.again
            )
        if upstream is not None and recorder is not None:
            return RecordMode(upstream, recorder)
        if simulate_mode is not None:
            return simulate_mode
        raise AssertionError(f"{mode} has no source of responses")

    def start_indexing(self, active_mode: ActiveMode) -> None:
        """Build the index of the mode's library in the background."""
        if active_mode.takes is not None:
            active_mode.takes.index.start_in_background(self.is_server_busy)
            self.stack.callback(active_mode.takes.index.stop_background)


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

    def on_moved(new_paths: Mapping[Path, Path | None]) -> None:
        journal.move_recorded_files(
            {
                str(path): None if new_path is None else str(new_path)
                for path, new_path in new_paths.items()
            }
        )

    recorder_library = library if mode == "record" else library.with_copied_index()
    events = RecorderEvents(on_filed, on_failed, on_moved)
    recorder = SpoolRecorder(
        recorder_library,
        settings.spool,
        events,
        replaces_older=mode == "record",
        keeps_takes=mode == "auto" and settings.again == "replay",
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
        get_unix_time=epoch_clock(settings.clock),
        get_cpu_time_s=time.thread_time,
        pace_source=paces,
        max_silence_ms=settings.silence * 1000,
        synthesizes_unmatched=settings.on_unknown == "synthesis",
        on_mismatch=settings.on_mismatch,
        offload=run_in_thread,
        is_fallback=mode != "simulate",
        respond_function=await asyncio.to_thread(_import_function, settings.respond)
        if isinstance(settings.respond, str) and settings.respond
        else settings.respond or None,
    )
    return SimulateMode(scenario_source, simulation_settings)


def epoch_clock(clock: ClockKind) -> Callable[[], int]:
    """The clock for times in responses: it returns s since 1970."""
    if clock == "fixed":
        return lambda: _FIXED_EPOCH_S
    return lambda: int(datetime.now(UTC).timestamp())


def _import_function(function_path: str) -> RespondFunction:
    """Import `module:function`.  Raises `UsageError`."""
    function = import_object("--respond", function_path, "answers:respond")
    if not callable(function):
        name = function_path.partition(":")[2]
        raise UsageError(f"--respond {function_path}: {name} is not a function")
    respond_function: RespondFunction = function
    return respond_function


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
