"""Runs a server at the command line: child process, signals, and final summary."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from llm_proxy.display import count_noun
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.misses import grouping
from llm_proxy.shell.running import journal_file, library_checks, step_summary
from llm_proxy.shell.running.environment import child_environment, export_lines
from llm_proxy.shell.running.proxy import RunningProxy, running
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.settings_checks import dummy_key_warning, settings_warnings
from llm_proxy.shell.running.simulation import is_simulating
from llm_proxy.shell.running.sources import ModeName
from llm_proxy.shell.server.journal import Journal, JournalCounts

log: Final = logging.getLogger("llm_proxy")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class CommandNotStarted(UsageError):
    """The command after `--` could not be started, with the exit code that shells give."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


def serve(
    mode: ModeName, settings: Settings, command: Sequence[str], *, command_line: str = ""
) -> int:
    """Run until told to stop, or until `command` ends; gives the exit code.

    `typed` is the mode that the operator typed, where that is another.
    Raises `UsageError` where it cannot run.
    """
    code, hangs = asyncio.run(_serve_until_stopped(mode, settings, command, command_line or mode))
    if hangs:  # Python would wait for the thread that waits for the disk
        logging.shutdown()
        os._exit(code)
    return code


async def _serve_until_stopped(
    mode: ModeName, settings: Settings, command: Sequence[str], command_line: str
) -> tuple[int, bool]:
    async with running(mode, settings) as proxy:
        doubtful = await asyncio.to_thread(list, settings_warnings(mode, settings))
        signals = _StopSignals()
        _install_signal_handlers(signals.on_signal)  # whoever reads the port may stop us at once
        with _write_port_file(settings.port_file, proxy.url):
            for warning in doubtful:
                log.warning("%s", warning)
            log.info("%s on %s, %s", mode, proxy.url, _log_sources(mode, settings))
            if settings.pace.is_random and mode != "record":
                log.info("pace %s, with seed %d", settings.pace, settings.seed)
            environment = child_environment(os.environ, proxy.url, dummy_keys=mode != "record")
            if command and (text := dummy_key_warning(mode, settings, os.environ)):
                log.info("%s", text)
            code = await _run_until_stopped(proxy, command, environment, signals)
    _log_lost_recordings(proxy)
    usage = proxy.journal.usage
    await asyncio.to_thread(library_checks.settle_usage, mode, settings, proxy.library, usage)
    _log_summary(mode, proxy.journal)
    library_checks.log_library_checks(usage, settings.care)
    step_summary.write_step_summary(
        command_line,
        proxy.journal,
        os.environ,
        library_checks.summary_sections(usage, settings.care),
    )
    hangs = proxy.recorder is not None and proxy.recorder.disk_hangs
    is_left = _write_journal(settings.journal, proxy.journal)
    failed = not is_left or library_checks.fails_run(usage, settings.care)
    return code or _exit_code(proxy.journal.counts, settings) or int(failed), hangs


class _StopSignals:
    """The signals that tell us to stop; the command gets them too, once it runs."""

    def __init__(self) -> None:
        self.stop_requested = asyncio.Event()
        self.hurry = asyncio.Event()
        """Told more than once."""
        self._child_process: asyncio.subprocess.Process | None = None
        self._early_signals: list[signal.Signals] = []

    def on_signal(self, number: signal.Signals) -> None:
        """asyncio calls this."""
        if self.stop_requested.is_set():
            self.hurry.set()
        self.stop_requested.set()
        # A terminal sends SIGINT to the child as well; any other signal is for us alone.
        if number == signal.SIGINT and _is_foreground_process():
            return
        if self._child_process is None:
            self._early_signals.append(number)
        else:
            _forward_signal(number, self._child_process)

    def forward_to(self, child: asyncio.subprocess.Process) -> None:
        """Pass them on from now on, with those that came while it was being started."""
        self._child_process = child
        for number in self._early_signals:
            _forward_signal(number, child)


async def _run_until_stopped(
    proxy: RunningProxy,
    command: Sequence[str],
    environment: Mapping[str, str],
    signals: _StopSignals,
) -> int:
    code = 0
    if command:
        child = await start_command(command, environment)
        signals.forward_to(child)
        code = await child.wait()  # as long as the command wants
        code = 128 - code if code < 0 else code
    else:
        for line in export_lines(proxy.url):
            log.info("  %s", line)
        await signals.stop_requested.wait()  # as long as the operator wants
        if proxy.active_streams():
            running = count_noun(proxy.active_streams(), "stream")
            log.info("still running: %s; once more to stop at once", running)
    await proxy.drain(signals.hurry)
    return code


def _forward_signal(number: signal.Signals, child: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        child.send_signal(number)


def _install_signal_handlers(on_signal: Callable[[signal.Signals], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # started by nohup
        loop.add_signal_handler(number, on_signal, number)


async def start_command(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None = None
) -> asyncio.subprocess.Process:
    """Start a command; where its `output` goes somewhere, in a process group of its own.

    Raises `CommandNotStarted`.
    """
    try:
        if output is None:
            return await asyncio.create_subprocess_exec(*command, env=environment)
        return await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=output,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise CommandNotStarted(127, f"{command[0]}: there is no such command") from None
    except OSError as error:
        hint = ""
        if error.errno == errno.ENOEXEC:
            hint = ": a script's first line must name what runs it, such as #!/bin/sh"
        raise CommandNotStarted(
            126, f"{command[0]} cannot be run: {error.strerror}{hint}"
        ) from None


def _is_foreground_process() -> bool:
    """Whether a terminal's Ctrl-C is sent to our process group, wherever our files lead."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # no terminal controls us, or there is no such file in this container
        return any(map(_is_foreground_group_of, range(3)))
    try:
        return _is_foreground_group_of(terminal)
    finally:
        os.close(terminal)


def _is_foreground_group_of(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # not our terminal
        return False


@contextmanager
def _write_port_file(path: Path | None, url: str) -> Iterator[None]:
    if path is None:
        yield
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(url.rpartition(":")[2] + "\n")
        temporary.replace(path)
    except OSError as error:
        raise UsageError(f"--port-file {path} cannot be written: {error.strerror}") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _log_lost_recordings(proxy: RunningProxy) -> None:
    """Whatever the cause: an answer that should have been recorded, and was not, is lost.

    So is one that may be another request's.
    """
    upstream, recorder = proxy.upstream, proxy.recorder
    if upstream is None or recorder is None or recorder.disk_hangs:
        return
    why = "an upstream's answer went to a client and into no recording; please report it"
    missing = [why] * (upstream.recording_count - recorder.settled_event)
    for lost in (*upstream.surplus_responses, *missing):
        proxy.journal.add_recording_failure(lost)
        log.error("not recorded: %s", lost)


def _write_journal(path: Path | None, journal: Journal) -> bool:
    """Write the journal where it is wanted; gives whether that went well."""
    if path is None:
        return True
    try:
        journal_file.write_journal(path, journal.document())
    except LlmProxyError as error:
        log.error("%s", error)  # noqa: TRY400 # a sentence of ours, for the operator
        return False
    log.info("journal in %s: see llm-proxy report %s", path, path)
    return True


def _log_sources(mode: ModeName, settings: Settings) -> str:
    scenarios = settings.simulating.scenarios
    scripted = "no scenarios" if scenarios is None else f"scenarios in {scenarios}"
    if mode == "simulate":
        return scripted
    both = f", {scripted}" if is_simulating(mode, settings) else ""
    return f"cassettes in {settings.cassettes}{both}"


def _log_summary(mode: ModeName, journal: Journal) -> None:
    counts = journal.counts
    if mode == "record":
        log.info(
            "recorded %s, %d complete", count_noun(counts.recorded, "exchange"), counts.complete
        )
    if mode == "auto":
        numbers = (counts.replayed, counts.recorded, counts.complete)
        log.info("replayed %d, recorded %d, %d complete", *numbers)
    if partial := counts.recorded - counts.complete:
        log.info("not complete: %s; see llm-proxy ls --partial", count_noun(partial, "recording"))
    _log_misses(journal)
    _log_scenario_failures(counts)
    if counts.upstream_failed:
        log.warning("the upstream failed %s", count_noun(counts.upstream_failed, "request"))
    if counts.left:
        log.warning("%s left before an answer", count_noun(counts.left, "client"))
    if counts.lost:
        log.error("lost: %s", count_noun(counts.lost, "recording"))


def _log_misses(journal: Journal) -> None:
    counts = journal.counts
    if counts.missed:
        log.warning("not answered from a cassette: %s", count_noun(counts.missed, "request"))
        for line in grouping.miss_log_lines(grouping.group_misses(journal.misses)):
            log.warning("  %s", line)
    if counts.nearest:
        log.warning(
            "answered by the nearest cassette, not the same: %s",
            count_noun(counts.nearest, "request"),
        )


def _log_scenario_failures(counts: JournalCounts) -> None:
    if counts.simulated:
        log.info("simulated %s", count_noun(counts.simulated, "answer"))
    if counts.unsuccessful:
        failed = count_noun(counts.unsuccessful, "request")
        log.warning("not as scripted: %s; see the warnings above", failed)


def _exit_code(counts: JournalCounts, settings: Settings) -> int:
    return 1 if counts.lost or (settings.strict and (counts.missed or counts.unsuccessful)) else 0
