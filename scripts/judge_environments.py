"""Installs the judges for `scripts/judges`: one environment for each, from its lock file alone.

An environment counts as installed only if it has a stamp, which is written last and has the
checksum of the lock file.  Environments are created under the lock of the checkout, with the
installers of `scripts/test`.
"""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import bootstrap
import installers
from installers import CommandFailed, CommandRunner, RequirementConflict, SetupError

JUDGES_FOLDER: Final = bootstrap.ROOT / "tests" / "judges"
STAMP_FILE: Final = "made-of-lock"
"""The file in an environment with the sha256 of the lock file that it was installed from."""

_MIN_NODE_VERSION: Final = 20
_NPM_COMMAND: Final = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")


@dataclass(frozen=True, slots=True)
class Judge:
    """One judge."""

    folder: Path

    @property
    def name(self) -> str:
        """The name on the command line."""
        return self.folder.name

    @property
    def lock_file(self) -> Path | None:
        """The lock file of its environment; None if it runs in the environment of the tests."""
        paths = (self.folder / "requirements.txt", self.folder / "package-lock.json")
        return next((path for path in paths if path.exists()), None)

    @property
    def is_python(self) -> bool:
        """Whether it has a Python environment of its own."""
        return self.lock_file is not None and self.lock_file.suffix == ".txt"

    @property
    def is_node(self) -> bool:
        """Whether it runs in Node."""
        return self.lock_file is not None and not self.is_python

    @property
    def environment_folder(self) -> Path:
        """The folder of its packages."""
        return self.folder / (".venv" if self.is_python else "node_modules")

    def lock_checksum(self) -> str:
        """The content of the stamp of an up-to-date environment."""
        if self.lock_file is None:
            return ""
        return hashlib.sha256(self.lock_file.read_bytes()).hexdigest()

    def is_installed(self) -> bool:
        """Whether its environment is complete and up to date."""
        stamp = self.environment_folder / STAMP_FILE
        if self.lock_file is None:
            return True
        return stamp.exists() and stamp.read_text() == self.lock_checksum()


def find_judges(folder: Path) -> dict[str, Judge]:
    """All judges in this folder, by name: each subfolder with a lock file or a program."""
    subfolders = (path for path in sorted(folder.iterdir()) if path.is_dir())
    return {
        path.name: Judge(path)
        for path in subfolders
        if Judge(path).lock_file or (path / "judge.py").exists()
    }


def main(*arguments: str) -> int:
    """Run the command line of `scripts/judges`; returns the exit code."""
    judges = find_judges(JUDGES_FOLDER)
    names = [argument for argument in arguments if argument != "--list"]
    if unknown := [name for name in names if name not in judges]:
        _report_progress(
            f"no judge is called {' or '.join(unknown)}; there are {', '.join(judges)}"
        )
        return 2
    selected = [judges[name] for name in names] or list(judges.values())
    if "--list" in arguments:
        for judge in selected:
            print(f"{judge.name:16}{_status(judge)}")
        return 0
    signal.signal(signal.SIGTERM, bootstrap.exit_on_signal)
    try:
        return _install_all(selected)
    except KeyboardInterrupt:
        _report_progress("stopped; run this again to go on")
        return 130


def _status(judge: Judge) -> str:
    if judge.lock_file is None:
        return "in the environment of the tests"
    return "installed" if judge.is_installed() else f"not installed: scripts/judges {judge.name}"


def _install_all(judges: Sequence[Judge]) -> int:
    """Install each judge that is not installed, even after a failure; returns the exit code."""
    failures = 0
    for judge in judges:
        if judge.is_installed():
            _report_progress(f"{judge.name}: {_status(judge)}")
            continue
        start = time.monotonic()
        try:
            _install(judge)
        except RequirementConflict as conflict:
            failures += 1
            _report_progress(f"{judge.name}: skipped: {_describe_conflict(judge, conflict)}")
        except (SetupError, CommandFailed, OSError) as error:
            failures += 1
            _report_progress(f"{judge.name}: NOT installed: {error}")
        else:
            _report_progress(f"{judge.name}: installed in {time.monotonic() - start:.0f} s")
    return 1 if failures else 0


def _install(judge: Judge) -> None:
    """Create the environment of one judge.

    Raises `SetupError`, `CommandFailed` (of which `RequirementConflict` is a subclass) and
    `OSError`.
    """
    tools = bootstrap.ROOT / ".tools"
    tools.mkdir(exist_ok=True)
    with bootstrap.hold_lock(tools / "lock", _report_progress) as lock_fd:
        if judge.is_installed():  # the previous holder of the lock may have installed it
            return
        runner = CommandRunner(judge.folder, tools, lock_fd)
        runner.clear_files()
        shutil.rmtree(judge.environment_folder, ignore_errors=True)
        if judge.is_python:
            _install_python_packages(judge, runner)
        else:
            _install_node_packages(runner)
        runner.clear_temporary()
        (judge.environment_folder / STAMP_FILE).write_text(judge.lock_checksum())


def _install_python_packages(judge: Judge, runner: CommandRunner) -> None:
    """Install with one installer after the other, until one succeeds.

    `--require-hashes` is not used: with it, uv refuses every constraint that is not a pin.
    `--no-deps` installs only the packages of the lock file; each line there has hashes, and
    hashes in a requirements file are always checked.
    """
    failure = ""
    packages = ("--no-deps", "-r", "requirements.txt")
    for installer in installers.available_installers(runner, _report_progress):
        _report_progress(f"{judge.name}: installing with {installer.name} …")
        try:
            base = installers.base_python()
            runner.run(base, "-m", "venv", "--clear", "--without-pip", judge.environment_folder)
            python = judge.environment_folder / "bin" / "python"
            runner.run(*installer.command(python), *packages, **installer.variables)
        except RequirementConflict:
            raise  # another installer would meet the same constraint
        except CommandFailed as error:
            failure = f"{installer.name} says: {error}"
            _report_progress(f"{judge.name}: {failure}")
        else:
            return
    raise SetupError(f"{failure}; the whole story is in {runner.log_file}")


def _describe_conflict(judge: Judge, conflict: RequirementConflict) -> str:
    """Which pin of the lock file contradicts which constraint of this machine."""
    lock = judge.lock_file.read_text() if judge.lock_file else ""
    pin, constraint = sorted(
        conflict.requirements, key=lambda requirement: f"{requirement} " not in lock
    )
    return f"its lock pins {pin}, and pip is configured on this machine with {constraint}"


def _install_node_packages(runner: CommandRunner) -> None:
    if (version := _node_major_version()) < _MIN_NODE_VERSION or shutil.which("npm") is None:
        found = f"Node {version}" if version else "no Node"
        raise SetupError(
            f"this machine has {found}: install Node {_MIN_NODE_VERSION} or newer, with npm"
        )
    runner.run(*_NPM_COMMAND)


def _node_major_version() -> int:
    """Node's major version; 0 if there is no Node."""
    if (node := shutil.which("node")) is None:
        return 0
    result = subprocess.run((node, "--version"), capture_output=True, text=True, check=False)
    major = result.stdout.removeprefix("v").partition(".")[0]
    return int(major) if major.isdecimal() else 0


def _report_progress(line: str) -> None:
    sys.stderr.write(f"scripts/judges: {line}\n")
    sys.stderr.flush()
