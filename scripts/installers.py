"""The package installers of this machine: uv if it is available, else pip.

uv is many times faster.  It is taken from an earlier run, from PATH, or from the index that pip is
configured with, and is kept in `.tools/uv`.  pip does not have to be inside `.venv`: it can install
for any Python.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_REMOVED_VARIABLES: Final = (
    "PIP_PREFIX",
    "PIP_PYTHON",
    "PIP_ROOT",
    "PIP_TARGET",
    "PYTHONPATH",
    "VIRTUAL_ENV",
)
"""Variables that change the target of an installer, or show it packages from elsewhere."""

_FIXED_VARIABLES: Final = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_USER": "0",
    "UV_NO_PROGRESS": "1",
    "UV_PYTHON_DOWNLOADS": "never",
}

_UV_VARIABLES: Final = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
    "build-constraint": "UV_BUILD_CONSTRAINT",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
}
"""The variable that uv reads for each of these settings of pip."""

_PIP_ONLY_SETTINGS: Final = frozenset(
    ("no-binary", "no-index", "only-binary", "pre", "require-hashes")
)
"""Settings of pip that change what is installed, and that uv would not see."""

_FALSE_VALUES: Final = frozenset(("", "0", "false", "no", "off"))

_SETTING_PATTERN: Final = re.compile(
    r"(?P<section>global|install|:env:)\.(?P<name>[a-z-]+)=(?P<value>.*)"
)

_CONFLICT_PATTERN: Final = re.compile(
    r"Because (?:you require )?(.+) and (\S+),\s+we can conclude"
    r"|(?m:^) *(?:The user requested )?(.+)\n *The user requested \(constraint\) (.+)"
)
"""The messages of uv and pip about a requirement that contradicts a constraint."""

ProgressReporter = Callable[[str], None]
"""Prints one line of progress."""
Command = tuple[str | Path, ...]


class SetupError(Exception):
    """The environment cannot be created; the message has the reason and a remedy, in one line."""


class CommandFailed(Exception):
    """A program failed; the message is the line of its output that has the reason."""


class RequirementConflict(CommandFailed):
    """A constraint forbids what was to be installed; `requirements` are the two that conflict."""

    def __init__(self, *requirements: str) -> None:
        super().__init__(f"conflicting requirements: {' and '.join(requirements)}")
        self.requirements = requirements


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Runs installers; has their log, their temporary files, and the lock that they share."""

    root: Path
    """The working directory of the programs."""
    tools: Path
    lock_fd: int
    """The descriptor of the held lock: a process that inherits it holds the lock too."""

    @property
    def log_file(self) -> Path:
        """The output of all programs of this set-up."""
        return self.tools / "setup.log"

    @property
    def temporary(self) -> Path:
        """The folder of temporary files."""
        return self.tools / "tmp"

    @property
    def uv_path(self) -> Path:
        """The uv that is kept for the next set-up."""
        return self.tools / "uv" / "bin" / "uv"

    def clear_files(self) -> None:
        """Empty the log and the temporary folder."""
        self.log_file.write_bytes(b"")
        self.clear_temporary()

    def clear_temporary(self) -> None:
        """Empty the temporary folder."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(exist_ok=True)

    def run(self, *command: str | Path, **variables: str) -> None:
        """Run a program to its end, with its output in the log.

        It runs in a session of its own: it has no terminal for questions, and none of its children
        outlives a launcher that is interrupted.  Raises `CommandFailed`, of which
        `RequirementConflict` is a subclass.
        """
        with self.log_file.open("a+b") as log:
            start = log.tell()
            exit_code = self._run_child(command, variables, log.fileno())
            log.seek(start)
            output = log.read().decode(errors="replace")
        if exit_code and (conflict := _CONFLICT_PATTERN.search(output)):
            raise RequirementConflict(*filter(None, conflict.groups()))
        if exit_code:
            message = failure_reason(output) or f"{command[0]} ended with code {exit_code}"
            raise CommandFailed(message)

    def _run_child(self, command: Command, variables: Mapping[str, str], log_fd: int) -> int:
        process = None
        # A signal between the start and the assignment of `process` would orphan the child.
        deliver_signals = _defer_signals()
        try:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env=self._environment(variables),
                stdin=subprocess.DEVNULL,
                stdout=log_fd,
                stderr=log_fd,
                pass_fds=(self.lock_fd,),
                start_new_session=True,
            )
            deliver_signals()
            return process.wait()
        except BaseException:
            if process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            raise
        finally:
            deliver_signals()

    def capture_stdout(self, *command: str | Path) -> str | None:
        """The stdout of a program; None if it cannot be run or fails."""
        try:
            result = subprocess.run(
                command,
                env=self._environment({}),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=60,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return result.stdout.decode(errors="replace")

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The user's variables override `variables`; the fixed ones override both."""
        inherited = {
            name: value for name, value in os.environ.items() if name not in _REMOVED_VARIABLES
        }
        cache = {"UV_CACHE_DIR": str(self.tools / "uv-cache")}
        fixed = {**_FIXED_VARIABLES, "TMPDIR": str(self.temporary)}
        return {**cache, **variables, **inherited, **fixed}


@dataclass(frozen=True, slots=True)
class Installer:
    """One way to install packages into an environment."""

    name: str
    command_prefix: Command
    """The part of its command before the path of the environment's Python."""
    command_suffix: Command = ()
    """The part of its command between that path and the packages."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that it needs."""

    def command(self, python: Path) -> Command:
        """The command that installs into the environment of this Python; append the packages."""
        return (*self.command_prefix, python, *self.command_suffix)


def available_installers(
    runner: CommandRunner, report_progress: ProgressReporter
) -> Iterator[Installer]:
    """The installers of this machine, the fastest first; each is looked for when it is needed.

    Raises `SetupError` if there is none.
    """
    uv = _find_uv(runner)
    pip = _find_pip(runner) or (() if uv else _install_pip(runner))
    if not uv and not pip:
        raise SetupError(
            f"{base_python()} has no pip, and there is no uv on PATH: install one of them (on "
            "Debian, as root: apt install python3-pip), then run this again"
        )
    settings = (
        parse_pip_settings(runner.capture_stdout(*pip, "config", "list") or "") if pip else {}
    )
    if pip_only := sorted(_PIP_ONLY_SETTINGS & settings.keys()):
        report_progress(
            f"not using uv, which would not see that pip is configured with {', '.join(pip_only)}"
        )
    elif uv := uv or _install_uv(runner, pip, report_progress):
        yield Installer("uv", (uv, "pip", "install", "--python"), (), uv_variables(settings))
    if pip := pip or _install_pip(runner):
        yield Installer("pip", (*pip, "--python"), ("install", "--progress-bar=off"))


def _find_uv(runner: CommandRunner) -> Path | None:
    """The uv of an earlier run, or the user's own."""
    candidates = (runner.uv_path, Path(shutil.which("uv") or runner.uv_path))
    return next(
        (uv for uv in candidates if runner.capture_stdout(uv, "--version") is not None), None
    )


def _install_uv(
    runner: CommandRunner, pip: Command, report_progress: ProgressReporter
) -> Path | None:
    """uv from the index that pip is configured with; None if it cannot be installed."""
    report_progress("getting uv, which installs faster than pip …")
    folder = runner.tools / "uv"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        # Only a wheel: without one, pip would start to compile uv.
        runner.run(*pip, "install", "--only-binary=:all:", "--no-deps", "--target", folder, "uv")
    except CommandFailed as failed:
        report_progress(f"uv is not to be had: {failed}")
        return None
    return (
        runner.uv_path if runner.capture_stdout(runner.uv_path, "--version") is not None else None
    )


def _find_pip(runner: CommandRunner) -> Command:
    """The pip of the base Python, of the current environment, or of an earlier run."""
    own_python = runner.tools / "pip" / "bin" / "python"
    for python in dict.fromkeys((base_python(), Path(sys.executable), own_python)):
        if runner.capture_stdout(python, "-m", "pip", "--version") is not None:
            return (python, "-m", "pip")
    return ()


def _install_pip(runner: CommandRunner) -> Command:
    """A pip unpacked by Python's `ensurepip`; empty if there is no `ensurepip` either."""
    folder = runner.tools / "pip"
    if runner.capture_stdout(base_python(), "-m", "venv", "--clear", folder) is None:
        shutil.rmtree(folder, ignore_errors=True)
        return ()
    return (folder / "bin" / "python", "-m", "pip")


def _defer_signals() -> Callable[[], None]:
    """Defer the signals that stop us, until the returned function is called."""
    deferred: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous_handlers = {
        number: signal.signal(number, lambda received, _: deferred.append(received))
        for number in numbers
    }

    def deliver_signals() -> None:
        while previous_handlers:
            signal.signal(*previous_handlers.popitem())
        while deferred:
            signal.raise_signal(deferred.pop())

    return deliver_signals


def base_python() -> Path:
    """The interpreter that runs us, outside of any virtual environment."""
    base = Path(getattr(sys, "_base_executable", sys.executable))
    return base if base.exists() else Path(sys.executable).resolve()


def parse_pip_settings(listing: str) -> dict[str, str]:
    """The settings of an install in the output of `pip config list`.

    A later section overrides an earlier one, as in pip.  Settings that are switched off are left
    out.
    """
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listing.splitlines():
        if match := _SETTING_PATTERN.fullmatch(line):
            sections[match["section"]][match["name"]] = str(ast.literal_eval(match["value"]))
    merged = {name: value for section in sections.values() for name, value in section.items()}
    return {name: value for name, value in merged.items() if value.lower() not in _FALSE_VALUES}


def uv_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """pip's settings as uv's variables, for the same packages from the same places."""
    variables = {
        variable: ("," if name == "find-links" else " ").join(settings[name].split())
        for name, variable in _UV_VARIABLES.items()
        if name in settings
    }
    if "UV_INDEX" in variables:
        # pip takes the best version of all indexes; uv's default is the first index that has any.
        variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return variables


def failure_reason(output: str) -> str:
    """The line of an installer's output with the reason of a failure; empty if there is none."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for prefix in ("ERROR: ", "cause: ", "Caused by: ", "╰─▶ ", "error: "):
        if matching := [line for line in lines if line.startswith(prefix)]:
            return matching[-1].removeprefix(prefix)[:300]
    return lines[-1][:300] if lines else ""
