"""A run at the command line: a server, perhaps a child process, signals, and a last word."""

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

from llm_proxy.display import counted
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.misses import grouping
from llm_proxy.shell.running import journal_file, library_checks, step_summary
from llm_proxy.shell.running.environment import child_environment, exports
from llm_proxy.shell.running.proxy import RunningProxy, running
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.settings_checks import on_dummy_keys, warnings
from llm_proxy.shell.running.simulation import simulates
from llm_proxy.shell.running.sources import ModeName
from llm_proxy.shell.server.journal import Counts, Journal

log: Final = logging.getLogger("llm_proxy")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class CommandFailed(UsageError):
    """The command after `--` could not be started, with the exit code that shells give."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


def serve(mode: ModeName, settings: Settings, command: Sequence[str], *, typed: str = "") -> int:
    """Run until told to stop, or until `command` ends; gives the exit code.

    `typed` is the mode that the operator typed, where that is another.
    Raises `UsageError` where it cannot run.
    """
    code, hangs = asyncio.run(_serve(mode, settings, command, typed or mode))
    if hangs:  # Python would wait for the thread that waits for the disk
        logging.shutdown()
        os._exit(code)
    return code


async def _serve(
    mode: ModeName, settings: Settings, command: Sequence[str], typed: str
) -> tuple[int, bool]:
    """The exit code, and whether a disk hangs."""
    async with running(mode, settings) as proxy:
        doubtful = await asyncio.to_thread(list, warnings(mode, settings))
        signals = _Signals()
        _listen_to_signals(signals.arrived)  # whoever reads the port may stop us at once
        with _port_file(settings.port_file, proxy.url):
            for warning in doubtful:
                log.warning("%s", warning)
            log.info("%s on %s, %s", mode, proxy.url, _sources(mode, settings))
            if settings.pace.is_chance and mode != "record":
                log.info("pace %s, with seed %d", settings.pace, settings.seed)
            environment = child_environment(os.environ, proxy.url, dummy_keys=mode != "record")
            if command and (said := on_dummy_keys(mode, settings, os.environ)):
                log.info("%s", said)
            code = await _until_told(proxy, command, environment, signals)
    _settle_account(proxy)
    usage = proxy.journal.usage
    await asyncio.to_thread(library_checks.settle, mode, settings, proxy.library, usage)
    _last_word(mode, proxy.journal)
    library_checks.last_word(usage, settings.care)
    step_summary.leave(
        typed, proxy.journal, os.environ, library_checks.sections(usage, settings.care)
    )
    hangs = proxy.recorder is not None and proxy.recorder.hangs
    is_left = _leave_journal(settings.journal, proxy.journal)
    failed = not is_left or library_checks.fails(usage, settings.care)
    return code or _verdict(proxy.journal.counts, settings) or int(failed), hangs


class _Signals:
    """The signals that tell us to stop; the command gets them too, once it runs."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.hurry = asyncio.Event()
        """Told more than once."""
        self._child: asyncio.subprocess.Process | None = None
        self._early: list[signal.Signals] = []

    def arrived(self, number: signal.Signals) -> None:
        """asyncio calls this."""
        if self.told.is_set():
            self.hurry.set()
        self.told.set()
        # A terminal sends SIGINT to the child as well; any other signal is for us alone.
        if number == signal.SIGINT and _in_the_foreground():
            return
        if self._child is None:
            self._early.append(number)
        else:
            _pass_on(number, self._child)

    def belong_to(self, child: asyncio.subprocess.Process) -> None:
        """Pass them on from now on, with those that came while it was being started."""
        self._child = child
        for number in self._early:
            _pass_on(number, child)


async def _until_told(
    proxy: RunningProxy,
    command: Sequence[str],
    environment: Mapping[str, str],
    signals: _Signals,
) -> int:
    code = 0
    if command:
        child = await start(command, environment)
        signals.belong_to(child)
        code = await child.wait()  # as long as the command wants
        code = 128 - code if code < 0 else code
    else:
        for line in exports(proxy.url):
            log.info("  %s", line)
        await signals.told.wait()  # as long as the operator wants
        if proxy.busy():
            running = counted(proxy.busy(), "stream")
            log.info("still running: %s; once more to stop at once", running)
    await proxy.drain(signals.hurry)
    return code


def _pass_on(number: signal.Signals, child: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        child.send_signal(number)


def _listen_to_signals(on_signal: Callable[[signal.Signals], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # started by nohup
        loop.add_signal_handler(number, on_signal, number)


async def start(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None = None
) -> asyncio.subprocess.Process:
    """Start a command; where its `output` goes somewhere, in a process group of its own.

    Raises `CommandFailed`.
    """
    try:
        if output is None:
            return await asyncio.create_subprocess_exec(*command, env=environment)
        return await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=output,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise CommandFailed(127, f"{command[0]}: there is no such command") from None
    except OSError as error:
        hint = ""
        if error.errno == errno.ENOEXEC:
            hint = ": a script's first line must name what runs it, such as #!/bin/sh"
        raise CommandFailed(126, f"{command[0]} cannot be run: {error.strerror}{hint}") from None


def _in_the_foreground() -> bool:
    """Whether a terminal's Ctrl-C is sent to our process group, wherever our files lead."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # no terminal controls us, or there is no such file in this container
        return any(map(_has_us_in_front, range(3)))
    try:
        return _has_us_in_front(terminal)
    finally:
        os.close(terminal)


def _has_us_in_front(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # not our terminal
        return False


@contextmanager
def _port_file(path: Path | None, url: str) -> Iterator[None]:
    """The port stands in a file while the server is up."""
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


def _settle_account(proxy: RunningProxy) -> None:
    """Whatever the cause: an answer that should have been recorded, and was not, is lost.

    So is one that may be another request's.
    """
    upstream, recorder = proxy.upstream, proxy.recorder
    if upstream is None or recorder is None or recorder.hangs:
        return
    why = "an upstream's answer went to a client and into no recording; please report it"
    missing = [why] * (upstream.to_record - recorder.settled)
    for lost in (*upstream.doubts, *missing):
        proxy.journal.lose(lost)
        log.error("not recorded: %s", lost)


def _leave_journal(path: Path | None, journal: Journal) -> bool:
    """Write the journal where it is wanted; gives whether that went well."""
    if path is None:
        return True
    try:
        journal_file.write(path, journal.document())
    except LlmProxyError as error:
        log.error("%s", error)  # noqa: TRY400 # a sentence of ours, for the operator
        return False
    log.info("journal in %s: see llm-proxy report %s", path, path)
    return True


def _sources(mode: ModeName, settings: Settings) -> str:
    """Where answers come from."""
    scenarios = settings.simulating.scenarios
    scripted = "no scenarios" if scenarios is None else f"scenarios in {scenarios}"
    if mode == "simulate":
        return scripted
    both = f", {scripted}" if simulates(mode, settings) else ""
    return f"cassettes in {settings.cassettes}{both}"


def _last_word(mode: ModeName, journal: Journal) -> None:
    counts = journal.counts
    if mode == "record":
        log.info("recorded %s, %d complete", counted(counts.recorded, "exchange"), counts.complete)
    if mode == "auto":
        numbers = (counts.replayed, counts.recorded, counts.complete)
        log.info("replayed %d, recorded %d, %d complete", *numbers)
    if partial := counts.recorded - counts.complete:
        log.info("not complete: %s; see llm-proxy ls --partial", counted(partial, "recording"))
    _last_word_on_misses(journal)
    _last_word_on_scenarios(counts)
    if counts.upstream_failed:
        log.warning("the upstream failed %s", counted(counts.upstream_failed, "request"))
    if counts.left:
        log.warning("%s left before an answer", counted(counts.left, "client"))
    if counts.lost:
        log.error("lost: %s", counted(counts.lost, "recording"))


def _last_word_on_misses(journal: Journal) -> None:
    counts = journal.counts
    if counts.missed:
        log.warning("not answered from a cassette: %s", counted(counts.missed, "request"))
        for line in grouping.lines(grouping.grouped(journal.misses)):
            log.warning("  %s", line)
    if counts.nearest:
        log.warning(
            "answered by the nearest cassette, not the same: %s", counted(counts.nearest, "request")
        )


def _last_word_on_scenarios(counts: Counts) -> None:
    if counts.simulated:
        log.info("simulated %s", counted(counts.simulated, "answer"))
    if counts.unsuccessful:
        failed = counted(counts.unsuccessful, "request")
        log.warning("not as scripted: %s; see the warnings above", failed)


def _verdict(counts: Counts, settings: Settings) -> int:
    return 1 if counts.lost or (settings.strict and (counts.missed or counts.unsuccessful)) else 0
