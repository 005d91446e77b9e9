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
from llm_proxy.modes.simulate import Respond
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockSpec
from llm_proxy.scenario.documents.loading import LoadedScenarios
from llm_proxy.scenario.engine.scenario_set import LocatedScenario, ScenarioSet
from llm_proxy.scenario.render.failures import FailureLimits
from llm_proxy.shell.running.pace_registry import PaceRegistry
from llm_proxy.shell.running.settings import Clock, Settings
from llm_proxy.shell.scenarios.library import ScenarioLibrary

T = TypeVar("T")

_EPOCH: Final = 1_767_225_600
"""The time of the fixed clock, in s since 1970: the first of January 2026, UTC."""


def is_simulating(mode: str, settings: Settings) -> bool:
    """Whether anything is answered by a scenario in this mode."""
    is_other = mode in {"replay", "auto"}
    return mode == "simulate" or (is_other and settings.on_miss == "scenario")


async def make_simulator(mode: str, settings: Settings, paces: PaceRegistry) -> SimulateMode:
    """The mode that answers from scenarios, or that helps this one out.

    Raises `UsageError` for files with mistakes, a mock that is none, and a function that is not
    there.
    """
    simulation_options = settings.simulating
    library = (
        None
        if simulation_options.scenarios is None
        else ScenarioLibrary(simulation_options.scenarios)
    )
    if library is not None:
        await asyncio.to_thread(library.load)
    scripts = _LoadedScenarioSource(library, _parse_mock(simulation_options.mock))
    simulation = SimulationSettings(
        seed=settings.seed,
        created_at=clock_of(simulation_options.clock),
        cpu_time=time.thread_time,
        paces=paces,
        limits=FailureLimits(simulation_options.silence * 1000),
        synthesises=simulation_options.on_unknown == "synthesis",
        offload=run_in_thread,
        is_fallback=mode != "simulate",
        respond=await asyncio.to_thread(_import_function, simulation_options.respond)
        if simulation_options.respond
        else None,
    )
    return SimulateMode(scripts, simulation)


class _LoadedScenarioSource:
    """The scenarios of the files, with the mock of the command line before theirs."""

    def __init__(self, library: ScenarioLibrary | None, mock: MockSpec | None) -> None:
        self._library = library
        self._parse_mock = mock
        self._loaded = LoadedScenarios()
        self._script = ScenarioSet(mock=mock)

    async def current(self) -> ScenarioSet:
        """What to play by now."""
        if self._library is not None:
            loaded = await self._library.current()
            if loaded is not self._loaded:
                self._loaded = loaded
                scripted = (
                    LocatedScenario(scenario.value, scenario.file, scenario.line)
                    for scenario in loaded.scenarios
                )
                self._script = ScenarioSet(tuple(scripted), self._parse_mock or loaded.mock)
        return self._script


async def run_in_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread of its own, which keeps nobody from ending.

    asyncio's own threads are waited for at the end of the process, however long they take.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(value: T | None, error: BaseException | None) -> None:
        if done.done():  # nobody waits any more
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast("T", value))

    def run() -> None:
        value, error = None, None
        try:
            value = function()
        except BaseException as raised:
            error = raised if isinstance(raised, Exception) else RuntimeError(repr(raised))
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, value, error)

    threading.Thread(target=run, name="aside", daemon=True).start()
    return await done  # as long as the function takes, or the client stays


class SequentialOffload:
    """Runs functions aside, one at a time.

    More at once would each be slower, and the event loop would have its turn less often.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def __call__(self, function: Callable[[], T], /) -> T:
        """What the function gives."""
        async with self._lock:
            return await run_in_thread(function)


def clock_of(which: Clock) -> Callable[[], int]:
    """The time that answers name, in s since 1970."""
    return _fixed_epoch if which == "fixed" else _current_time


def _fixed_epoch() -> int:
    return _EPOCH


def _current_time() -> int:
    return int(datetime.now(tz=UTC).timestamp())


def _parse_mock(text: str) -> MockSpec | None:
    if not text:
        return None
    return loading.parse_struct(MockSpec, "--mock", text)


def _import_function(name: str) -> Respond:
    """The function that `module:function` names; modules are found in the working folder too."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise UsageError(f"--respond {name}: write MODULE:FUNCTION, such as answers:respond")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise UsageError(f"--respond {name}: there is no module {error.name}") from None
    except AttributeError:
        raise UsageError(f"--respond {name}: {module} has no {attribute}") from None
    except Exception as error:
        raise UsageError(f"--respond {name}: {module} fails to load: {error}") from error
    if not callable(found):
        raise UsageError(f"--respond {name}: {attribute} is no function")
    function: Respond = found
    return function
