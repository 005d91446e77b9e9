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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import bootstrap
from bootstrap import CommandFailed, CommandRunner, SetupError

JUDGES_FOLDER: Final = bootstrap.ROOT / "tests" / "judges"
STAMP_FILE: Final = "made-of-lock"
"""The file in an environment with the sha256 of the lock file that it was installed from."""

_MIN_NODE_VERSION: Final = 20


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
    def environment_folder(self) -> Path:
        """The folder of its packages."""
        return self.folder / ("node_modules" if self.is_node else ".venv")

    @property
    def is_node(self) -> bool:
        """Whether it runs in Node."""
        return self.lock_file is not None and self.lock_file.suffix == ".json"

    def lock_checksum(self) -> str:
        """The content of the stamp of an up-to-date environment."""
        return hashlib.sha256(self.lock_file.read_bytes()).hexdigest() if self.lock_file else ""

    def is_installed(self) -> bool:
        """Whether its environment is complete and up to date."""
        stamp = self.environment_folder / STAMP_FILE
        return not self.lock_file or (stamp.exists() and stamp.read_text() == self.lock_checksum())

    def status(self) -> str:
        """Whether it is installed, and if not, the command that installs it."""
        if not self.lock_file:
            return "in the environment of the tests"
        return "installed" if self.is_installed() else f"not installed: scripts/judges {self.name}"


def find_judges(folder: Path) -> dict[str, Judge]:
    """All judges in this folder, by name: each subfolder with a lock file or a program."""
    judges = (Judge(path) for path in sorted(folder.iterdir()) if path.is_dir())
    return {
        judge.name: judge
        for judge in judges
        if judge.lock_file or (judge.folder / "judge.py").exists()
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
            print(f"{judge.name:16}{judge.status()}")
        return 0
    signal.signal(signal.SIGTERM, bootstrap.exit_on_signal)
    try:
        failed = [judge for judge in selected if not install(judge)]
    except KeyboardInterrupt:
        _report_progress("stopped; run this again to go on")
        return 130
    return 1 if failed else 0


def install(judge: Judge) -> bool:
    """Install a judge unless it is installed, and report that; returns whether it succeeded."""
    if judge.is_installed():
        _report_progress(f"{judge.name}: {judge.status()}")
        return True
    start = time.monotonic()
    try:
        _install(judge)
    except (SetupError, CommandFailed, OSError) as error:
        _report_progress(f"{judge.name}: NOT installed: {error}")
        return False
    _report_progress(f"{judge.name}: installed in {time.monotonic() - start:.0f} s")
    return True


def _install(judge: Judge) -> None:
    """Create the environment of one judge.

    Raises `SetupError`, `CommandFailed` and `OSError`.
    """
    tools = bootstrap.ROOT / ".tools"
    tools.mkdir(exist_ok=True)
    with bootstrap.hold_lock(tools / "lock", _report_progress) as lock_fd:
        if judge.is_installed():  # the previous holder of the lock may have installed it
            return
        runner = CommandRunner(judge.folder, tools, lock_fd)
        runner.clear_files()
        shutil.rmtree(judge.environment_folder, ignore_errors=True)
        if judge.is_node:
            _check_node_version()
            runner.run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
        else:
            _install_python_packages(judge, runner)
        runner.clear_temporary()
        (judge.environment_folder / STAMP_FILE).write_text(judge.lock_checksum())


def _install_python_packages(judge: Judge, runner: CommandRunner) -> None:
    """Install with one installer after the other, until one succeeds.

    `--require-hashes` is not used: with it, uv refuses every constraint that is not a pin.
    `--no-deps` installs only the packages of the lock file; each line there has hashes, and
    hashes in a requirements file are always checked.
    """
    failure = ""
    python = judge.environment_folder / "bin" / "python"
    for installer in bootstrap.available_installers(runner, _report_progress):
        _report_progress(f"{judge.name}: installing with {installer.name} …")
        try:
            base = bootstrap.base_python()
            runner.run(base, "-m", "venv", "--clear", "--without-pip", judge.environment_folder)
            packages = ("--no-deps", "-r", "requirements.txt")
            runner.run(*installer.command(python), *packages, **installer.variables)
        except CommandFailed as error:
            failure = f"{installer.name} says: {error}"
            _report_progress(f"{judge.name}: {failure}")
        else:
            return
    raise SetupError(f"{failure}; the whole story is in {runner.log_file}")


def _check_node_version() -> None:
    """Raise `SetupError` unless there are npm and a Node that is new enough."""
    found = "no Node"
    if node := shutil.which("node"):
        result = subprocess.run((node, "--version"), capture_output=True, text=True, check=False)
        major = result.stdout.removeprefix("v").partition(".")[0]
        if major.isdecimal() and int(major) >= _MIN_NODE_VERSION and shutil.which("npm"):
            return
        found = f"Node {major}"
    raise SetupError(
        f"this machine has {found}: install Node {_MIN_NODE_VERSION} or newer, with npm"
    )


def _report_progress(line: str) -> None:
    sys.stderr.write(f"scripts/judges: {line}\n")
    sys.stderr.flush()
