"""Creates the virtual environment of this checkout from `pyproject.toml`.

    venv = bootstrap.prepare_environment("scripts/demo")            what the program needs
    venv = bootstrap.prepare_environment("scripts/test", "dev")     and what its tests need

It needs only Python 3.11 and pip: standard library, no root, and nothing kept outside the checkout
but pip's own cache.  Everything is in two folders that may be deleted at any time:

    .venv/     the environment
    .tools/    uv and its cache, the lock, temporary files, the log of the last set-up

Packages are installed by uv, which is many times faster than pip: the uv of an earlier run, of
PATH, or of the index that pip is configured with.  Where uv is not to be had or fails, pip does it.

Two rules protect against a set-up that is killed or runs twice.  An environment counts as installed
only if it has a stamp, which is written last.  The process that builds holds a lock, and so do the
programs it runs: if only the launcher is killed, the next one waits until its installer has ended.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, NoReturn

ROOT: Final = Path(__file__).resolve().parent.parent

_OWNER_MARKER: Final = "made-by-llm-proxy-scripts"
"""The file in an environment that was created by these scripts, which may therefore delete it."""

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

_SETTING_PATTERN: Final = re.compile(
    r"(?P<section>global|install|:env:)\.(?P<name>[a-z-]+)=(?P<value>.*)"
)

ProgressReporter = Callable[[str], None]
"""Prints one line of progress."""
Command = tuple[str | Path, ...]


class SetupError(Exception):
    """The environment cannot be created; the message has the reason and a remedy, in one line."""


class CommandFailed(Exception):
    """A program failed; the message is the line of its output that has the reason."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """The paths of one checkout."""

    root: Path

    @property
    def venv(self) -> Path:
        """The environment."""
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.venv / "bin" / "python"

    @property
    def stamp_file(self) -> Path:
        """The file that is written last, when the environment is complete."""
        return self.venv / "setup-stamp.json"

    @property
    def tools(self) -> Path:
        """The folder of the set-up's own files."""
        return self.root / ".tools"


def prepare_environment(launcher: str, *extras: str) -> Path:
    """The folder of an environment with these extras, created if necessary.

    Progress goes to stderr, each line with the launcher's name before it.  If the environment
    cannot be created, the program exits: with a message and code 2, or with 128 + n after signal n.
    """

    def report_progress(line: str) -> None:
        sys.stderr.write(f"{launcher}: {line}\n")
        sys.stderr.flush()

    checkout = Checkout(ROOT)
    signal.signal(signal.SIGTERM, exit_on_signal)
    try:
        ensure_environment(checkout, frozenset(extras), report_progress)
    except KeyboardInterrupt:
        report_progress(f"stopped before .venv was complete; run {launcher} again")
        sys.exit(130)
    except SetupError as error:
        report_progress(str(error))
        sys.exit(2)
    except OSError as error:
        report_progress(
            f"cannot create {checkout.venv}: {error}; check the owner of the checkout and the "
            "free disk space"
        )
        sys.exit(2)
    return checkout.venv


def exec_program(launcher: str, program: Path, *arguments: str) -> int:
    """Replace this process by a program.  If that fails: print a message and return code 2."""
    try:
        os.execv(program, (str(program), *arguments))  # noqa: S606 # no shell is what we want
    except OSError as error:
        sys.stderr.write(
            f"{launcher}: cannot run {program}: {error.strerror}; delete .venv and run "
            f"{launcher} again\n"
        )
    return 2


def ensure_environment(
    checkout: Checkout, extras: frozenset[str], report_progress: ProgressReporter
) -> None:
    """Create or extend the environment so that it has these extras.

    An environment that lacks only extras is kept and extended, because programs may be running
    there.  After an installer that failed, the next one begins with an empty environment.

    Raises `SetupError` and `OSError`.
    """
    installed = installed_extras(checkout)
    if installed is not None and installed >= extras:
        return
    checkout.tools.mkdir(exist_ok=True)
    with hold_lock(checkout.tools / "lock", report_progress) as lock_fd:
        installed = installed_extras(checkout)  # the previous holder may have installed them
        if installed is not None and installed >= extras:
            return
        if installed is None:  # an environment that is out of date keeps its extras
            extras |= _stamped_extras(checkout)[0]
        start, failure = time.monotonic(), ""
        runner = CommandRunner(checkout.root, checkout.tools, lock_fd)
        runner.clear_files()
        for installer in available_installers(runner, report_progress):
            verb = "creating" if installed is None else "updating"
            report_progress(f"{verb} .venv with {installer.name} …")
            try:
                _install(checkout, runner, installer, extras, installed, report_progress)
            except CommandFailed as error:
                failure, installed = f"{installer.name} failed: {error}", None
                report_progress(failure)
            else:
                runner.clear_temporary()
                report_progress(f".venv is ready ({time.monotonic() - start:.0f} s)")
                return
    raise SetupError(
        f"cannot install the packages of pyproject.toml: {failure}; check that pip can reach its "
        f"package index, then try again (log: {runner.log_file})"
    )


def installed_extras(checkout: Checkout) -> frozenset[str] | None:
    """The extras that the environment has; None if it is missing, damaged or out of date."""
    extras, fingerprint = _stamped_extras(checkout)
    is_valid = fingerprint == _source_fingerprint(checkout)
    return extras if is_valid and os.access(checkout.python, os.X_OK) else None


def _stamped_extras(checkout: Checkout) -> tuple[frozenset[str], object]:
    """The extras and the inputs of the environment by its stamp; none if that is damaged."""
    try:
        stamp = json.loads(checkout.stamp_file.read_bytes())
        return frozenset(stamp["extras"]), stamp["of"]
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset(), None


def _source_fingerprint(checkout: Checkout) -> dict[str, str]:
    """The inputs of an environment: if they change, it has to be created again."""
    sources = (checkout.root / "pyproject.toml", Path(__file__))
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "sources": hashlib.sha256(b"\0".join(map(Path.read_bytes, sources))).hexdigest(),
        "python": f"{sys.implementation.cache_tag} {version} of {sys.base_prefix}",
        "root": str(checkout.root),  # the scripts of an environment hold its absolute path
    }


def _install(
    checkout: Checkout,
    runner: CommandRunner,
    installer: Installer,
    extras: frozenset[str],
    installed: frozenset[str] | None,
    report_progress: ProgressReporter,
) -> None:
    """Install the program with its extras; the stamp is removed first and written last."""
    if installed is None:
        _clear_venv_path(checkout, runner, report_progress)
        checkout.venv.mkdir()
        (checkout.venv / _OWNER_MARKER).touch()
        runner.run(
            base_python(), "-m", "venv", "--without-pip", "--prompt=llm-proxy", checkout.venv
        )
    checkout.stamp_file.unlink(missing_ok=True)
    wanted = sorted(extras | (installed or frozenset()))
    suffix = f"[{','.join(wanted)}]" if wanted else ""
    command = installer.command(checkout.python)
    runner.run(*command, "--editable", f".{suffix}", **installer.variables)
    part = checkout.stamp_file.with_suffix(".part")
    part.write_text(json.dumps({"of": _source_fingerprint(checkout), "extras": wanted}, indent=1))
    part.replace(checkout.stamp_file)


def _clear_venv_path(
    checkout: Checkout, runner: CommandRunner, report_progress: ProgressReporter
) -> None:
    """Delete an environment that these scripts created; rename anything else."""
    venv = checkout.venv
    if (venv / _OWNER_MARKER).exists():
        venv.rename(runner.temporary / "old-venv")
        runner.clear_temporary()
    elif os.path.lexists(venv):
        names = (f".venv-{number}" for number in count(1))
        backup = next(path for name in names if not (path := venv.with_name(name)).exists())
        venv.rename(backup)
        report_progress(f"renamed the existing .venv to {backup.name}")


@contextmanager
def hold_lock(path: Path, report_progress: ProgressReporter) -> Iterator[int]:
    """Hold the lock of the checkout; yields its descriptor."""
    lock_fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report_progress("waiting for another launcher to create .venv")
            fcntl.flock(lock_fd, fcntl.LOCK_EX)
        yield lock_fd
    finally:
        os.close(lock_fd)


def exit_on_signal(number: int, _frame: object) -> NoReturn:
    """Exit with the code of a signal: a signal handler."""
    sys.exit(128 + number)


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
        outlives a launcher that is interrupted.  Raises `CommandFailed`.
        """
        with self.log_file.open("a+b") as log:
            start = log.tell()
            # A signal between the start and the assignment of `process` would orphan the child.
            with _deferred_signals() as deliver_signals:
                process = subprocess.Popen(
                    command,
                    cwd=self.root,
                    env=self._environment(variables),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(self.lock_fd,),
                    start_new_session=True,
                )
                try:
                    deliver_signals()
                    exit_code = process.wait()
                except BaseException:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    raise
            log.seek(start)
            output = log.read().decode(errors="replace")
        if exit_code:
            message = failure_reason(output) or f"{command[0]} ended with code {exit_code}"
            raise CommandFailed(message)

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


@contextmanager
def _deferred_signals() -> Iterator[Callable[[], None]]:
    """Defer the signals that stop us, until the yielded function is called or the block ends."""
    deferred: list[int] = []
    previous_handlers = {
        number: signal.signal(number, lambda received, _: deferred.append(received))
        for number in (signal.SIGINT, signal.SIGTERM)
    }

    def deliver_signals() -> None:
        while previous_handlers:
            signal.signal(*previous_handlers.popitem())
        while deferred:
            signal.raise_signal(deferred.pop())

    try:
        yield deliver_signals
    finally:
        deliver_signals()


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
    own_uv, own_pip = runner.tools / "uv" / "bin" / "uv", runner.tools / "pip" / "bin" / "python"

    def works(*command: str | Path) -> bool:
        return runner.capture_stdout(*command) is not None

    pythons = dict.fromkeys((base_python(), Path(sys.executable), own_pip))
    pip = next((python for python in pythons if works(python, "-m", "pip", "--version")), None)
    uv = next((uv for uv in (own_uv, shutil.which("uv")) if uv and works(uv, "--version")), None)
    if pip is None and works(base_python(), "-m", "venv", "--clear", own_pip.parents[1]):
        pip = own_pip
    if pip is None and uv is None:
        raise SetupError(
            f"{base_python()} has no pip, and uv is not on PATH; install one of them (on Debian, "
            "as root: apt install python3-pip), then try again"
        )
    listing = runner.capture_stdout(pip, "-m", "pip", "config", "list") if pip else None
    settings = parse_pip_settings(listing or "")
    pip_only = sorted(_PIP_ONLY_SETTINGS & settings.keys())
    if pip_only:
        report_progress(
            f"using pip instead of uv, because uv does not support these pip settings: "
            f"{', '.join(pip_only)}"
        )
    elif uv is None and pip is not None:
        report_progress("installing uv, which is faster than pip …")
        target = own_uv.parents[1]
        shutil.rmtree(target, ignore_errors=True)
        # Only a wheel: without one, pip would start to compile uv.
        options = ("--only-binary=:all:", "--no-deps", "--target", target)
        try:
            runner.run(pip, "-m", "pip", "install", *options, "uv")
        except CommandFailed as failed:
            report_progress(f"cannot install uv: {failed}")
        else:
            uv = own_uv if works(own_uv, "--version") else None
    if uv is not None and not pip_only:
        yield Installer("uv", (uv, "pip", "install", "--python"), (), uv_variables(settings))
    if pip is not None:
        prefix, suffix = (pip, "-m", "pip", "--python"), ("install", "--progress-bar=off")
        yield Installer("pip", prefix, suffix)


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
    off = ("", "0", "false", "no", "off")
    return {name: value for name, value in merged.items() if value.lower() not in off}


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
