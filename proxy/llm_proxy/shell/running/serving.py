"""The process around a running proxy: log, child process, signals, exit code.

`proxy` starts and stops the proxy itself.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

import orjson

from llm_proxy.display import count_with_noun, folder_name
from llm_proxy.errors import SpoolError, UsageError
from llm_proxy.shell.recording.spooling import count_abandoned_spools
from llm_proxy.shell.running import end_of_run
from llm_proxy.shell.running.environment import (
    child_environment,
    dummy_key_variables,
    export_lines,
)
from llm_proxy.shell.running.proxy import run_proxy
from llm_proxy.shell.running.settings import (
    ModeName,
    Settings,
    recover_command,
    settings_warnings,
)

log: Final = logging.getLogger("llm_proxy")

_OTHER_LOGGERS: Final = ("asyncio", "aiohttp")
"""Loggers that would otherwise write to stderr in another format."""
_LABEL_COLOURS: Final = {logging.WARNING: 33, logging.ERROR: 31, logging.CRITICAL: 31}
"""ANSI codes: yellow and red."""
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class CommandNotStarted(UsageError):
    """The command after `--` could not be started; `code` is the exit code that shells use."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


def serve(
    mode: ModeName, settings: Settings, command: Sequence[str], *, command_line: str = ""
) -> int:
    """Run until a signal, or until `command` ends; returns the exit code.

    `command_line` is the operator's command in the step summary; the mode's name if empty.
    Raises `UsageError` if the proxy cannot run.
    """
    code, is_disk_hanging = asyncio.run(
        _serve_until_stopped(mode, settings, command, command_line or mode)
    )
    if is_disk_hanging:  # Python would wait for the thread that hangs on the disk
        logging.shutdown()
        os._exit(code)
    return code


async def _serve_until_stopped(
    mode: ModeName, settings: Settings, command: Sequence[str], command_line: str
) -> tuple[int, bool]:
    async with run_proxy(mode, settings) as proxy:
        warnings = await asyncio.to_thread(start_warnings, mode, settings)
        stop_signals = _StopSignals()
        stop_signals.install()  # a reader of the port file may stop us at once
        with _write_port_file(settings.port_file, proxy.url):
            for warning in warnings:
                log.warning("%s", warning)
            library = folder_name(settings.cassettes)
            sources = [] if mode == "simulate" else [f"cassettes in {library}"]
            if settings.simulates(mode):
                sources += _simulation_sources(settings)
            log.info("%s on %s, %s", mode, proxy.url, ", ".join(sources))
            if settings.pace.is_random and mode != "record":
                log.info("pace %s, with seed %d", settings.pace, settings.seed)
            code = 0
            if command:
                dummy_keys = dummy_key_variables(mode, settings, os.environ)
                environment = child_environment(os.environ, proxy.url, dummy_keys)
                child = await start_command(command, environment)
                stop_signals.forward_to(child)
                code = await child.wait()  # without a limit
                code = 128 - code if code < 0 else code
            else:
                for line in export_lines(proxy.url):
                    log.info("  %s", line)
                await stop_signals.stop_event.wait()  # without a limit
                if stream_count := proxy.active_stream_count():
                    streams = count_with_noun(stream_count, "stream")
                    log.info("waiting for %s; press Ctrl-C again to stop immediately", streams)
            await proxy.drain(stop_signals.stop_now_event)
    has_failed = await end_of_run.report_run(
        mode, settings, proxy, command_line, has_command=bool(command)
    )
    recorder = proxy.active_mode.recorder
    is_disk_hanging = recorder is not None and recorder.is_disk_hanging
    return code or int(has_failed), is_disk_hanging


def start_warnings(mode: str, settings: Settings) -> list[str]:
    """What to log when the proxy starts: doubtful settings, and recordings that a crash left."""
    warnings = list(settings_warnings(mode, settings))
    if settings.may_record(mode):
        try:
            count = count_abandoned_spools(settings.spool, settings.cassettes).own
        except SpoolError as error:
            return [*warnings, str(error)]
        if count:
            recordings = count_with_noun(count, "interrupted recording")
            recover = recover_command(settings.cassettes, settings.spool, os.environ)
            library = folder_name(settings.cassettes)
            warnings.append(f"{recordings} of {library} can be recovered; run {recover}")
    return warnings


def _simulation_sources(settings: Settings) -> list[str]:
    """Phrases for what simulated responses come from."""
    scenarios = settings.scenarios
    sources = [] if scenarios is None else [f"scenarios in {folder_name(scenarios)}"]
    if settings.mock or settings.respond:
        sources.append("a mock")
    return sources or ["no scenarios"]


class _StopSignals:
    """Receives stop signals, and forwards them to the command once it runs."""

    def __init__(self) -> None:
        self.stop_event = asyncio.Event()
        self.stop_now_event = asyncio.Event()
        """Set at the second signal."""
        self._child_process: asyncio.subprocess.Process | None = None
        self._early_signals: list[signal.Signals] = []

    def install(self) -> None:
        """Receive the signals from now on."""
        loop = asyncio.get_running_loop()
        for stop_signal in _STOP_SIGNALS:
            if stop_signal == signal.SIGHUP and signal.getsignal(stop_signal) is signal.SIG_IGN:
                continue  # started by nohup
            loop.add_signal_handler(stop_signal, self._on_signal, stop_signal)

    def _on_signal(self, stop_signal: signal.Signals) -> None:
        if self.stop_event.is_set():
            self.stop_now_event.set()
        self.stop_event.set()
        # A terminal sends SIGINT to the child as well; any other signal is for us alone.
        if stop_signal == signal.SIGINT and _is_foreground_process():
            return
        if self._child_process is None:
            self._early_signals.append(stop_signal)
        else:
            _forward_signal(stop_signal, self._child_process)

    def forward_to(self, child: asyncio.subprocess.Process) -> None:
        """Forward signals from now on, including those that came before the child ran."""
        self._child_process = child
        for stop_signal in self._early_signals:
            _forward_signal(stop_signal, child)


def _forward_signal(stop_signal: signal.Signals, child: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        child.send_signal(stop_signal)


async def start_command(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None = None
) -> asyncio.subprocess.Process:
    """Start a command; with `output`, in its own session, with stdout and stderr going there.

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
        raise CommandNotStarted(127, f"{command[0]}: command not found") from None
    except OSError as error:
        hint = ""
        if error.errno == errno.ENOEXEC:
            hint = "; if it is a script, start its first line with #!, such as #!/bin/sh"
        raise CommandNotStarted(126, f"cannot run {command[0]}: {error.strerror}{hint}") from None


def _is_foreground_process() -> bool:
    """Whether a terminal's Ctrl-C goes to our process group, even if stdio is redirected."""
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
        raise UsageError(f"cannot write --port-file {path}: {error.strerror}") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


class _TextFormatter(logging.Formatter):
    """Formats each record as its label and its message: `llm-proxy: warning: …`."""

    def __init__(self, *, is_coloured: bool) -> None:
        super().__init__()
        self._is_coloured = is_coloured

    def format(self, record: logging.LogRecord) -> str:
        """The record as text; only the label is coloured."""
        text = super().format(record)  # with a traceback, if there is one
        label = record_label(record)
        if not label:
            return f"llm-proxy: {text}"
        if self._is_coloured:
            label = f"\x1b[1;{_LABEL_COLOURS[record.levelno]}m{label}\x1b[0m"
        return f"llm-proxy: {label}: {text}"


def record_label(record: logging.LogRecord) -> str:
    """`error`, `warning`, or the label that the record brings, such as `miss`; empty for info."""
    if record.levelno < logging.WARNING:
        return ""
    return str(getattr(record, "label", record.levelname.lower()))


class _JsonFormatter(logging.Formatter):
    """Formats each record as one line with a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        fields = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if hasattr(record, "label"):
            fields["label"] = record_label(record)
        if record.exc_info is not None:
            fields["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(fields).decode()


def configure_logging(log_format: str) -> None:
    """Send the package's log to stderr, as `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    is_coloured = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    handler.setFormatter(
        _JsonFormatter()
        if log_format == "json"
        else _TextFormatter(is_coloured=is_coloured and not os.environ.get("NO_COLOR"))
    )
    for name, level in (
        ("llm_proxy", logging.INFO),
        *((other, logging.WARNING) for other in _OTHER_LOGGERS),
    ):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
