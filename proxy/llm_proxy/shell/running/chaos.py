"""A command, run once for each fault, each time with a proxy of its own over the same cassettes."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import orjson

from llm_proxy.chaos.trials import BASELINE, Trial
from llm_proxy.faults.rule import Rule
from llm_proxy.shell.running.command_output import Output
from llm_proxy.shell.running.environment import child_environment
from llm_proxy.shell.running.proxy import RunningProxy, running
from llm_proxy.shell.running.serving import start
from llm_proxy.shell.running.settings import Settings
from llm_proxy.verdict.attempts import read_run

_LAST_MOMENT: Final = 3.0
"""Seconds that a command has to end in, once it is told to."""
_LOOK: Final = 0.05
"""Seconds between one look and the next."""


@dataclass(frozen=True, slots=True)
class Command:
    """What is tried."""

    words: tuple[str, ...]
    limit: float
    """Seconds that it may run for."""


async def trials(
    settings: Settings, command: Command, plan: Sequence[Rule]
) -> AsyncGenerator[Trial, None]:
    """The trial without a fault, and then one for each.

    Raises `UsageError` where the settings do not allow it to run, or the command cannot be started.
    """
    yield await _trial(settings, command, None)
    for rule in plan:
        yield await _trial(settings, command, rule)


async def _trial(settings: Settings, command: Command, rule: Rule | None) -> Trial:
    loop = asyncio.get_running_loop()
    given = () if rule is None else (rule,)
    # A listener that is closed before the command has begun to ask is met by nobody.
    later = given if rule is not None and rule.kind.scope == "listener" else ()
    under = replace(settings, faults=() if later else given, port=0)
    with tempfile.TemporaryFile() as file:
        output = Output(file)
        async with running("replay", under) as proxy:
            proxy.injecting.arm(later)
            began = loop.time()
            environment = child_environment(os.environ, proxy.url, dummy_keys=True)
            code, hung = await _run(command, environment, output)
            seconds = loop.time() - began
            await _settled(proxy)
        run = read_run(orjson.dumps(proxy.journal.document()), "the journal")
        fault = BASELINE if rule is None else rule.text
        misses = proxy.journal.counts.missed
        return Trial(fault, code, seconds, hung, run, misses, output.tail())


async def _run(
    command: Command, environment: Mapping[str, str], output: Output
) -> tuple[int, bool]:
    """The command's exit code, and whether it ran for too long; nothing that it started is left."""
    child = await start(command.words, environment, output.file)
    trimming = asyncio.ensure_future(_trimmed(output))
    try:
        async with asyncio.timeout(command.limit):
            code = await child.wait()
    except TimeoutError:
        return 128 + signal.SIGTERM, True
    else:
        return (128 - code if code < 0 else code), False
    finally:
        trimming.cancel()
        await _stop(child)


async def _stop(child: asyncio.subprocess.Process) -> None:
    """Stop what there is left of a command and of all that it has started."""
    try:
        if _signalled(child.pid, signal.SIGTERM):
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_MOMENT):
                    await child.wait()
                    while _signalled(child.pid, 0):  # noqa: ASYNC110 # nobody tells of others' children
                        await asyncio.sleep(_LOOK)
    finally:  # also where we are told once more to stop
        _signalled(child.pid, signal.SIGKILL)


def _signalled(group: int, number: int) -> bool:
    """Signal all processes of a group; gives whether there are any."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # none, or on a Mac none but the dead
        return False
    return True


async def _trimmed(output: Output) -> None:
    """Keep what a command prints from filling the disk."""
    while True:
        await asyncio.sleep(_LOOK)
        output.trim()


async def _settled(proxy: RunningProxy) -> None:
    """The command is gone; what it has left behind of connections is noticed."""
    hurry = asyncio.Event()
    hurry.set()
    await proxy.drain(hurry)
