"""What a simulation takes of the world: scenario files, the operator's function, the time."""

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
from llm_proxy.modes import Simulate, Simulation
from llm_proxy.modes.simulate import Respond
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import Mock
from llm_proxy.scenario.documents.loading import Loaded
from llm_proxy.scenario.engine.scenario_set import Script, Scripted
from llm_proxy.scenario.render.failures import Limits
from llm_proxy.shell.running.pace_registry import Paces
from llm_proxy.shell.running.settings import Clock, Settings
from llm_proxy.shell.scenarios.library import ScenarioLibrary

T = TypeVar("T")

_EPOCH: Final = 1_767_225_600
"""The time of the fixed clock, in s since 1970: the first of January 2026, UTC."""


def simulates(mode: str, settings: Settings) -> bool:
    """Whether anything is answered by a scenario in this mode."""
    is_other = mode in {"replay", "auto"}
    return mode == "simulate" or (is_other and settings.on_miss == "scenario")


async def simulator(mode: str, settings: Settings, paces: Paces) -> Simulate:
    """The mode that answers from scenarios, or that helps this one out.

    Raises `UsageError` for files with mistakes, a mock that is none, and a function that is not
    there.
    """
    it = settings.simulating
    library = None if it.scenarios is None else ScenarioLibrary(it.scenarios)
    if library is not None:
        await asyncio.to_thread(library.load)
    scripts = _Scripts(library, _mock(it.mock))
    simulation = Simulation(
        seed=settings.seed,
        created=clock(it.clock),
        cpu_time=time.thread_time,
        paces=paces,
        limits=Limits(it.silence * 1000),
        synthesises=it.on_unknown == "synthesis",
        aside=aside,
        is_second=mode != "simulate",
        respond=await asyncio.to_thread(_function, it.respond) if it.respond else None,
    )
    return Simulate(scripts, simulation)


class _Scripts:
    """The scenarios of the files, with the mock of the command line before theirs."""

    def __init__(self, library: ScenarioLibrary | None, mock: Mock | None) -> None:
        self._library = library
        self._mock = mock
        self._loaded = Loaded()
        self._script = Script(mock=mock)

    async def current(self) -> Script:
        """What to play by now."""
        if self._library is not None:
            loaded = await self._library.current()
            if loaded is not self._loaded:
                self._loaded = loaded
                scripted = (Scripted(it.value, it.file, it.line) for it in loaded.scenarios)
                self._script = Script(tuple(scripted), self._mock or loaded.mock)
        return self._script


async def aside(function: Callable[[], T]) -> T:
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


class OneByOne:
    """Runs functions aside, one at a time.

    More at once would each be slower, and the event loop would have its turn less often.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def __call__(self, function: Callable[[], T], /) -> T:
        """What the function gives."""
        async with self._turn:
            return await aside(function)


def clock(which: Clock) -> Callable[[], int]:
    """The time that answers name, in s since 1970."""
    return _fixed if which == "fixed" else _now


def _fixed() -> int:
    return _EPOCH


def _now() -> int:
    return int(datetime.now(tz=UTC).timestamp())


def _mock(text: str) -> Mock | None:
    """The mock that an option spells."""
    if not text:
        return None
    return loading.one(Mock, "--mock", text)


def _function(name: str) -> Respond:
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
