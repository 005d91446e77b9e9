"""Runs a command once per fault, each with its own proxy over the same cassettes."""

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

from llm_proxy.chaos.trials import BASELINE, FaultTrial
from llm_proxy.faults.rule import FaultRule
from llm_proxy.shell.running.command_output import CommandOutput
from llm_proxy.shell.running.environment import child_environment
from llm_proxy.shell.running.proxy import RunningProxy, running
from llm_proxy.shell.running.serving import start_command
from llm_proxy.shell.running.settings import Settings
from llm_proxy.verdict.attempts import parse_run

_LAST_MOMENT: Final = 3.0
"""Seconds that a command has to end in, once it is told to."""
_LOOK: Final = 0.05
"""Seconds between one look and the next."""


@dataclass(frozen=True, slots=True)
class TrialCommand:
    """What is tried."""

    arguments: tuple[str, ...]
    time_limit: float
    """Seconds that it may run for."""


async def run_trials(
    settings: Settings, command: TrialCommand, plan: Sequence[FaultRule]
) -> AsyncGenerator[FaultTrial, None]:
    """The trial without a fault, and then one for each.

    Raises `UsageError` where the settings do not allow it to run, or the command cannot be started.
    """
    yield await _run_trial(settings, command, None)
    for rule in plan:
        yield await _run_trial(settings, command, rule)


async def _run_trial(
    settings: Settings, command: TrialCommand, rule: FaultRule | None
) -> FaultTrial:
    loop = asyncio.get_running_loop()
    values = () if rule is None else (rule,)
    # A listener that is closed before the command has begun to ask is met by nobody.
    later = values if rule is not None and rule.kind.scope == "listener" else ()
    under = replace(settings, faults=() if later else values, port=0)
    with tempfile.TemporaryFile() as file:
        output = CommandOutput(file)
        async with running("replay", under) as proxy:
            proxy.fault_middleware.set_rules_on_first_request(later)
            began = loop.time()
            environment = child_environment(os.environ, proxy.url, dummy_keys=True)
            code, hung = await _run_command(command, environment, output)
            seconds = loop.time() - began
            await _wait_for_disconnects(proxy)
        run = parse_run(orjson.dumps(proxy.journal.document()), "the journal")
        fault = BASELINE if rule is None else rule.text
        misses = proxy.journal.counts.missed
        return FaultTrial(fault, code, seconds, hung, run, misses, output.last_output())


async def _run_command(
    command: TrialCommand, environment: Mapping[str, str], output: CommandOutput
) -> tuple[int, bool]:
    """The command's exit code, and whether it ran for too long; nothing that it started is left."""
    child = await start_command(command.arguments, environment, output.file)
    trimming = asyncio.ensure_future(_trim_output_meanwhile(output))
    try:
        async with asyncio.timeout(command.time_limit):
            code = await child.wait()
    except TimeoutError:
        return 128 + signal.SIGTERM, True
    else:
        return (128 - code if code < 0 else code), False
    finally:
        trimming.cancel()
        await _stop_command(child)


async def _stop_command(child: asyncio.subprocess.Process) -> None:
    try:
        if _signal_group(child.pid, signal.SIGTERM):
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_MOMENT):
                    await child.wait()
                    while _signal_group(child.pid, 0):  # noqa: ASYNC110 # nobody tells of others' children
                        await asyncio.sleep(_LOOK)
    finally:  # also where we are told once more to stop
        _signal_group(child.pid, signal.SIGKILL)


def _signal_group(group: int, number: int) -> bool:
    """Signal all processes of a group; gives whether there are any."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # none, or on a Mac none but the dead
        return False
    return True


async def _trim_output_meanwhile(output: CommandOutput) -> None:
    while True:
        await asyncio.sleep(_LOOK)
        output.trim_if_large()


async def _wait_for_disconnects(proxy: RunningProxy) -> None:
    """The command is gone; what it has left behind of connections is noticed."""
    hurry = asyncio.Event()
    hurry.set()
    await proxy.drain(hurry)
