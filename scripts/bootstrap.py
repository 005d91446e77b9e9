"""Creates the virtual environment of this checkout from `pyproject.toml`.

    venv = bootstrap.prepare_environment("scripts/demo")            what the program needs
    venv = bootstrap.prepare_environment("scripts/test", "dev")     and what its tests need

It needs only Python 3.11 and pip: standard library, no root, and nothing kept outside the checkout
but pip's own cache.  Everything is in two folders that may be deleted at any time:

    .venv/     the environment
    .tools/    uv and its cache, the lock, temporary files, the log of the last set-up

Two rules protect against a set-up that is killed or runs twice.  An environment counts as installed
only if it has a stamp, which is written last.  The process that builds holds a lock, and so do the
programs it runs: if only the launcher is killed, the next one waits until its installer has ended.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, NoReturn

import installers
from installers import (
    CommandFailed,
    CommandRunner,
    Installer,
    ProgressReporter,
    RequirementConflict,
    SetupError,
)

ROOT: Final = Path(__file__).resolve().parent.parent
_OWNER_MARKER: Final = "made-by-llm-proxy-scripts"
"""The file in an environment that was created by these scripts, which may therefore delete it."""


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
        report_progress("stopped before .venv was ready; run this again to make it")
        sys.exit(130)
    except SetupError as error:
        report_progress(str(error))
        sys.exit(2)
    except OSError as error:
        report_progress(
            f"cannot make {checkout.venv}: {error}; is the checkout yours, and the disk not full?"
        )
        sys.exit(2)
    return checkout.venv


def exec_program(launcher: str, program: Path, *arguments: str) -> int:
    """Replace this process by a program.  If that fails: print a message and return code 2."""
    try:
        os.execv(program, (str(program), *arguments))  # noqa: S606 # no shell is what we want
    except OSError as error:
        sys.stderr.write(
            f"{launcher}: cannot run {program}: {error.strerror}; if pyproject.toml still names "
            f"{program.name}, delete .venv and run this again\n"
        )
    return 2


def ensure_environment(
    checkout: Checkout, extras: frozenset[str], report_progress: ProgressReporter
) -> None:
    """Create or extend the environment so that it has these extras.

    Raises `SetupError` and `OSError`.
    """
    if _has_extras(installed_extras(checkout), extras):
        return
    checkout.tools.mkdir(exist_ok=True)
    with hold_lock(checkout.tools / "lock", report_progress) as lock_fd:
        installed = installed_extras(checkout)  # the previous holder may have installed them
        if not _has_extras(installed, extras):
            runner = CommandRunner(checkout.root, checkout.tools, lock_fd)
            EnvironmentBuilder(checkout, runner, report_progress).build(extras, installed)


def _has_extras(installed: frozenset[str] | None, extras: frozenset[str]) -> bool:
    return installed is not None and installed >= extras


def installed_extras(checkout: Checkout) -> frozenset[str] | None:
    """The extras that the environment has; None if it is missing, damaged or out of date."""
    try:
        stamp = json.loads(checkout.stamp_file.read_bytes())
        extras, entries = frozenset(stamp["extras"]), frozenset(stamp["holds"])
        is_valid = stamp["of"] == source_fingerprint(checkout)
        is_valid = is_valid and entries <= venv_entries(checkout)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return extras if is_valid and os.access(checkout.python, os.X_OK) else None


def source_fingerprint(checkout: Checkout) -> dict[str, str]:
    """The inputs of an environment: if they change, it has to be created again."""
    sources = (checkout.root / "pyproject.toml", Path(__file__), Path(installers.__file__))
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "sources": hashlib.sha256(b"\0".join(map(Path.read_bytes, sources))).hexdigest(),
        "python": f"{sys.implementation.cache_tag} {version} of {sys.base_prefix}",
        "root": str(checkout.root),  # the scripts of an environment hold its absolute path
    }


def venv_entries(checkout: Checkout) -> frozenset[str]:
    """The entries of `bin` and `site-packages`: a fast check that shows a missing package."""
    folders = (checkout.venv / "bin", *checkout.venv.glob("lib/python*/site-packages"))
    return frozenset(
        f"{entry.parent.name}/{entry.name}" for folder in folders for entry in folder.iterdir()
    )


@contextmanager
def hold_lock(path: Path, report_progress: ProgressReporter) -> Iterator[int]:
    """Hold the lock of the checkout; yields its descriptor."""
    lock_fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report_progress("waiting for another launcher that is making .venv")
            fcntl.flock(lock_fd, fcntl.LOCK_EX)
        yield lock_fd
    finally:
        os.close(lock_fd)


def exit_on_signal(number: int, _frame: object) -> NoReturn:
    """Exit with the code of a signal: a signal handler."""
    sys.exit(128 + number)


@dataclass(frozen=True, slots=True)
class EnvironmentBuilder:
    """Creates or extends the environment, while the lock is held."""

    checkout: Checkout
    runner: CommandRunner
    report_progress: ProgressReporter

    def build(self, extras: frozenset[str], installed: frozenset[str] | None) -> None:
        """Install with one installer after the other until one succeeds, and write the stamp.

        `installed` are the extras that the environment has: it is kept and extended, because
        programs may be running there.  None creates the environment from nothing.  Raises
        `SetupError`.
        """
        start = time.monotonic()
        failure, hint = "", "see that pip reaches its index, then run this again"
        self.runner.clear_files()
        for installer in installers.available_installers(self.runner, self.report_progress):
            verb = "making" if installed is None else "extending"
            self.report_progress(f"{verb} .venv with {installer.name} …")
            try:
                if installed is None:
                    self._create(installer, extras)
                else:
                    self._extend(installer, extras | installed)
            except CommandFailed as error:
                failure = f"{installer.name} says: {error}"
                if isinstance(error, RequirementConflict):
                    hint = "one of them must give way: see pip config list"
                self.report_progress(failure)
                installed = installed_extras(self.checkout)
            else:
                self.runner.clear_temporary()
                self.report_progress(f".venv is ready after {time.monotonic() - start:.0f} s")
                return
        raise SetupError(
            f"cannot install the packages that pyproject.toml names ({failure}); {hint}; "
            f"the whole story is in {self.runner.log_file}"
        )

    def _create(self, installer: Installer, extras: frozenset[str]) -> None:
        venv = self.checkout.venv
        self._clear_venv_path()
        venv.mkdir()
        (venv / _OWNER_MARKER).touch()
        python = installers.base_python()
        self.runner.run(python, "-m", "venv", "--without-pip", "--prompt=llm-proxy", venv)
        suffix = f"[{','.join(sorted(extras))}]" if extras else ""
        self._install(installer, ("--editable", f".{suffix}"))
        self._write_stamp(extras)

    def _extend(self, installer: Installer, extras: frozenset[str]) -> None:
        """Add the packages of the extras, but do not reinstall the program.

        After a failure that changed nothing the environment stays valid.
        """
        project = tomllib.loads((self.checkout.root / "pyproject.toml").read_text())["project"]
        optional = project["optional-dependencies"]
        packages = [
            *project["dependencies"],
            *(package for name in extras for package in optional[name]),
        ]
        stamp, entries = self.checkout.stamp_file.read_bytes(), venv_entries(self.checkout)
        self.checkout.stamp_file.unlink()
        try:
            self._install(installer, packages)
        except CommandFailed:
            if venv_entries(self.checkout) == entries:
                _write_atomically(self.checkout.stamp_file, stamp)
            raise
        self._write_stamp(extras)

    def _install(self, installer: Installer, packages: Sequence[str]) -> None:
        command = installer.command(self.checkout.python)
        self.runner.run(*command, *packages, **installer.variables)

    def _write_stamp(self, extras: frozenset[str]) -> None:
        """Record that the environment is complete: its packages, not their exact versions."""
        excluded = (".dist-info", "__pycache__")
        entries = sorted(
            entry for entry in venv_entries(self.checkout) if not entry.endswith(excluded)
        )
        fingerprint = source_fingerprint(self.checkout)
        stamp = {"of": fingerprint, "extras": sorted(extras), "holds": entries}
        _write_atomically(self.checkout.stamp_file, json.dumps(stamp, indent=1).encode())

    def _clear_venv_path(self) -> None:
        """Delete an environment that these scripts created; rename anything else."""
        venv = self.checkout.venv
        with suppress(OSError):
            venv.rmdir()
        if (venv / _OWNER_MARKER).exists():
            venv.rename(self.runner.temporary / "old-venv")
            self.runner.clear_temporary()
        elif os.path.lexists(venv):
            names = (f".venv-{number}" for number in count(1))
            backup = next(path for name in names if not (path := venv.with_name(name)).exists())
            venv.rename(backup)
            self.report_progress(
                f"the .venv that was here is not of our making: kept as {backup.name}"
            )


def _write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is either complete or missing."""
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)
