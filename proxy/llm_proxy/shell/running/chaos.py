"""A command, run once for each fault, each time with a proxy of its own over the same cassettes."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, Final

import orjson

from llm_proxy.chaos.trials import BASELINE, Trial
from llm_proxy.faults.rule import Rule
from llm_proxy.shell.running.environment import child_environment
from llm_proxy.shell.running.proxy import RunningProxy, running
from llm_proxy.shell.running.serving import start
from llm_proxy.shell.running.settings import Settings
from llm_proxy.verdict.attempts import read_run

_KEPT: Final = 8 * 1024
"""Bytes of the command's output that are kept of a trial, the last."""
_LAST_MOMENT: Final = 3.0
"""Seconds that a command has to end in, once it is told to."""


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
    under = replace(settings, faults=() if rule is None else (rule,), port=0)
    with tempfile.TemporaryFile() as output:
        async with running("replay", under) as proxy:
            began = loop.time()
            environment = child_environment(os.environ, proxy.url, dummy_keys=True)
            code, hung = await _run(command, environment, output)
            seconds = loop.time() - began
            await _settled(proxy)
        run = read_run(orjson.dumps(proxy.journal.document()), "the journal")
        fault = BASELINE if rule is None else rule.text
        misses = proxy.journal.counts.missed
        is_unseen = rule is not None and rule.kind.scope == "listener"
        return Trial(fault, code, seconds, hung, run, misses, _tail(output), is_unseen)


async def _run(
    command: Command, environment: Mapping[str, str], output: IO[bytes]
) -> tuple[int, bool]:
    """The command's exit code, and whether it ran for too long."""
    child = await start(command.words, environment, output)
    try:
        async with asyncio.timeout(command.limit):
            code = await child.wait()
    except TimeoutError:
        return await _stop(child), True
    except asyncio.CancelledError:
        await _stop(child)
        raise
    return (128 - code if code < 0 else code), False


async def _stop(child: asyncio.subprocess.Process) -> int:
    """Stop a command with all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_MOMENT):
                await child.wait()
                break
    return 128 + signal.SIGTERM


async def _settled(proxy: RunningProxy) -> None:
    """The command is gone; what it has left behind of connections is noticed."""
    hurry = asyncio.Event()
    hurry.set()
    await proxy.drain(hurry)


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _KEPT))
    return output.read().decode("utf-8", "replace")
