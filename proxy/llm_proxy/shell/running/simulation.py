"""The shell's part of simulation: scenario files, the operator's function, the clock."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Final, TypeVar, cast

from llm_proxy.errors import UsageError
from llm_proxy.modes import SimulateMode, SimulationSettings
from llm_proxy.modes.simulate import RespondFunction
from llm_proxy.pacing import PaceRegistry
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockSpec
from llm_proxy.scenario.engine.choosing import ScenarioSet
from llm_proxy.shell.running.settings import ClockKind, Settings
from llm_proxy.shell.scenarios.library import ScenarioLibrary

T = TypeVar("T")

_FIXED_EPOCH_S: Final = 1_767_225_600
"""The time of the fixed clock, in s since 1970: the first of January 2026, UTC."""


def is_simulating(mode: str, settings: Settings) -> bool:
    """Whether scenarios can answer requests in this mode."""
    has_scenario_fallback = mode in {"replay", "auto"}
    return mode == "simulate" or (has_scenario_fallback and settings.on_miss == "scenario")


async def make_simulate_mode(mode: str, settings: Settings, paces: PaceRegistry) -> SimulateMode:
    """The simulate mode, used by itself or as the fallback of `mode`.

    Raises `UsageError` for scenario files with mistakes, an invalid mock, and a function that
    cannot be imported.
    """
    simulation_options = settings.simulating
    mock_text = simulation_options.mock
    mock = loading.parse_struct(MockSpec, "--mock", mock_text) if mock_text else None

    async def without_files() -> ScenarioSet:
        return ScenarioSet(mock=mock)

    scenario_source = without_files
    if simulation_options.scenarios is not None:
        library = ScenarioLibrary(simulation_options.scenarios, mock=mock)
        await asyncio.to_thread(library.load)
        scenario_source = library.current_scenarios
    simulation_settings = SimulationSettings(
        seed=settings.seed,
        get_unix_time=epoch_clock(simulation_options.clock),
        get_cpu_time_s=time.thread_time,
        pace_source=paces,
        max_silence_ms=simulation_options.silence * 1000,
        synthesizes_unmatched=simulation_options.on_unknown == "synthesis",
        offload=run_in_thread,
        is_fallback=mode != "simulate",
        respond_function=await asyncio.to_thread(_import_function, simulation_options.respond)
        if simulation_options.respond
        else None,
    )
    return SimulateMode(scenario_source, simulation_settings)


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


def epoch_clock(clock: ClockKind) -> Callable[[], int]:
    """The clock for times in responses: it returns s since 1970."""
    if clock == "fixed":
        return lambda: _FIXED_EPOCH_S
    return lambda: int(datetime.now(tz=UTC).timestamp())


def _import_function(function_path: str) -> RespondFunction:
    """Import `module:function`; modules in the working folder are found too."""
    module, colon, attribute = function_path.partition(":")
    if not colon or not module or not attribute:
        raise UsageError(
            f"--respond {function_path}: write MODULE:FUNCTION, such as answers:respond"
        )
    working_folder = str(Path.cwd())
    if working_folder not in sys.path:
        sys.path.insert(0, working_folder)
    try:
        imported = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise UsageError(f"--respond {function_path}: there is no module {error.name}") from None
    except AttributeError:
        raise UsageError(f"--respond {function_path}: {module} has no {attribute}") from None
    except Exception as error:
        raise UsageError(f"--respond {function_path}: {module} fails to load: {error}") from error
    if not callable(imported):
        raise UsageError(f"--respond {function_path}: {attribute} is no function")
    function: RespondFunction = imported
    return function
