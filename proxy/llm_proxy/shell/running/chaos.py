"""Runs a command once per fault, each with its own proxy over the same cassettes."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, Final

from llm_proxy.chaos import BASELINE_NAME, FaultTrial
from llm_proxy.faults.rule import FaultRule
from llm_proxy.journal_document import JournalDocument
from llm_proxy.shell.running.environment import child_environment, dummy_key_variables
from llm_proxy.shell.running.proxy import run_proxy
from llm_proxy.shell.running.serving import start_command
from llm_proxy.shell.running.settings import Settings

_TERMINATE_TIMEOUT_S: Final = 3.0
"""Seconds that a command gets to end after SIGTERM."""
_TAIL_BYTES: Final = 8 * 1024
"""Bytes of the end of the command's output that are kept."""
_POLL_INTERVAL_S: Final = 0.05
"""Seconds between two checks."""


@dataclass(frozen=True, slots=True)
class TrialCommand:
    """The command that is run once per fault."""

    arguments: tuple[str, ...]
    time_limit_s: float
    """Maximum running time in seconds."""


class CommandOutput:
    """A file that a command prints to; it is truncated before it fills the disk."""

    def __init__(self, file: IO[bytes], max_bytes: int = 64 * 1024 * 1024) -> None:
        """`max_bytes` is the size beyond which the file is truncated."""
        import fcntl  # noqa: PLC0415 # not on every platform

        self.file = file
        self._max_bytes = max_bytes
        self._kept_tail = b""
        """The end of the output when the file was last truncated."""
        # All writers append even after the file was truncated.
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)

    def trim_if_large(self) -> None:
        """Truncate the file if it has grown too large; the end of its content is kept."""
        if os.fstat(self.file.fileno()).st_size > self._max_bytes:
            self._kept_tail = self._read_tail()
            os.ftruncate(self.file.fileno(), 0)

    def last_output(self) -> str:
        """The end of the output, at most 8 kB."""
        return (self._kept_tail + self._read_tail())[-_TAIL_BYTES:].decode("utf-8", "replace")

    def _read_tail(self) -> bytes:
        size = self.file.seek(0, os.SEEK_END)
        self.file.seek(max(0, size - _TAIL_BYTES))
        return self.file.read()


async def run_trials(
    settings: Settings, command: TrialCommand, rules: Sequence[FaultRule]
) -> AsyncGenerator[FaultTrial, None]:
    """Run the trial without a fault, then one for each rule; yields each result.

    Raises `UsageError` if the settings do not allow it to run, or the command cannot be started.
    """
    yield await _run_trial(settings, command, None)
    for rule in rules:
        yield await _run_trial(settings, command, rule)


async def _run_trial(
    settings: Settings, command: TrialCommand, rule: FaultRule | None
) -> FaultTrial:
    loop = asyncio.get_running_loop()
    rules = () if rule is None else (rule,)
    # A listener fault that applies before the command's first request would have no effect.
    deferred_rules = tuple(rule for rule in rules if rule.kind.scope == "listener")
    trial_settings = replace(settings, faults=() if deferred_rules else rules, port=0)
    with tempfile.TemporaryFile() as file:
        output = CommandOutput(file)
        async with run_proxy("replay", trial_settings) as proxy:
            proxy.fault_middleware.set_rules_on_first_request(deferred_rules)
            started_at_s = loop.time()
            dummy_keys = dummy_key_variables("replay", trial_settings, os.environ)
            environment = child_environment(os.environ, proxy.url, dummy_keys)
            code, has_timed_out = await _run_command(command, environment, output)
            duration_s = loop.time() - started_at_s
            stop_now_event = asyncio.Event()
            stop_now_event.set()
            await proxy.drain(stop_now_event)  # the journal has the connections that were closed
        return FaultTrial(
            BASELINE_NAME if rule is None else rule.text,
            code,
            duration_s,
            has_timed_out,
            JournalDocument(
                tuple(proxy.journal.entries),
                proxy.journal.counts.requests,
                listener_closures=tuple(proxy.journal.listener_closures),
            ),
            proxy.journal.counts.missed,
            output.last_output(),
        )


async def _run_command(
    command: TrialCommand, environment: Mapping[str, str], output: CommandOutput
) -> tuple[int, bool]:
    """The command's exit code, and whether it timed out; its whole process group is ended."""
    child = await start_command(command.arguments, environment, output.file)
    trim_task = asyncio.ensure_future(_trim_output_meanwhile(output))
    try:
        async with asyncio.timeout(command.time_limit_s):
            code = await child.wait()
    except TimeoutError:
        return 128 + signal.SIGTERM, True
    else:
        return (128 - code if code < 0 else code), False
    finally:
        trim_task.cancel()
        await _stop_command(child)


async def _stop_command(child: asyncio.subprocess.Process) -> None:
    try:
        if _signal_group(child.pid, signal.SIGTERM):
            with suppress(TimeoutError):
                async with asyncio.timeout(_TERMINATE_TIMEOUT_S):
                    await child.wait()
                    while _signal_group(child.pid, 0):  # noqa: ASYNC110 # no event for grandchildren
                        await asyncio.sleep(_POLL_INTERVAL_S)
    finally:  # also if we are stopped meanwhile
        _signal_group(child.pid, signal.SIGKILL)


def _signal_group(group_id: int, signal_number: int) -> bool:
    """Signal all processes of a group; returns whether there are any."""
    try:
        os.killpg(group_id, signal_number)
    except (ProcessLookupError, PermissionError):  # none, or on macOS only zombies
        return False
    return True


async def _trim_output_meanwhile(output: CommandOutput) -> None:
    while True:
        await asyncio.sleep(_POLL_INTERVAL_S)
        output.trim_if_large()
