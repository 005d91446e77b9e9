"""What `scripts/judges` does: an environment for each judge, made of its lock alone.

An environment is believed only by its stamp, which is written last and names the lock that it was
made of.  Making one is under the lock of the checkout, with the installers of `scripts/test`.
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
from installers import CommandFailed, Conflict, SetupError, Workshop

JUDGES: Final = bootstrap.ROOT / "tests" / "judges"
STAMP: Final = "made-of-lock"
"""The file of an environment that says which lock it was made of: its sha256."""

_NODE: Final = 20
"""The oldest Node that the judges know."""
_NPM: Final = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")


@dataclass(frozen=True, slots=True)
class Judge:
    """One judge."""

    folder: Path

    @property
    def name(self) -> str:
        """The name by which it is asked for."""
        return self.folder.name

    @property
    def lock(self) -> Path | None:
        """What its environment is made of; None where that of the tests is enough."""
        locks = (self.folder / "requirements.txt", self.folder / "package-lock.json")
        return next((it for it in locks if it.exists()), None)

    @property
    def python(self) -> bool:
        """Whether its environment is one of Python, not of Node."""
        return self.lock is not None and self.lock.suffix == ".txt"

    @property
    def node(self) -> bool:
        """Whether it runs in Node."""
        return self.lock is not None and not self.python

    @property
    def environment(self) -> Path:
        """Where its packages are."""
        return self.folder / (".venv" if self.python else "node_modules")

    def made_of(self) -> str:
        """What the stamp of a right environment says."""
        return "" if self.lock is None else hashlib.sha256(self.lock.read_bytes()).hexdigest()

    def stands(self) -> bool:
        """Whether it can judge."""
        stamp = self.environment / STAMP
        return self.lock is None or (stamp.exists() and stamp.read_text() == self.made_of())


def judges(folder: Path) -> dict[str, Judge]:
    """All judges below this folder, by name: each folder with a lock, or a program."""
    found = (it for it in sorted(folder.iterdir()) if it.is_dir())
    return {it.name: Judge(it) for it in found if Judge(it).lock or (it / "judge.py").exists()}


def main(*arguments: str) -> int:
    """Do what the arguments ask for; the exit code."""
    known = judges(JUDGES)
    names = [it for it in arguments if it != "--list"]
    if strangers := [it for it in names if it not in known]:
        _say(f"no judge is called {' or '.join(strangers)}; there are {', '.join(known)}")
        return 2
    chosen = [known[it] for it in names] or list(known.values())
    if "--list" in arguments:
        for it in chosen:
            print(f"{it.name:16}{_state(it)}")
        return 0
    signal.signal(signal.SIGTERM, bootstrap.terminated)
    try:
        return _install_all(chosen)
    except KeyboardInterrupt:
        _say("stopped; run this again to go on")
        return 130


def _state(judge: Judge) -> str:
    if judge.lock is None:
        return "in the environment of the tests"
    return "installed" if judge.stands() else f"not installed: scripts/judges {judge.name}"


def _install_all(chosen: Sequence[Judge]) -> int:
    """Install each that does not stand, also after one that failed."""
    failed = 0
    for judge in chosen:
        if judge.stands():
            _say(f"{judge.name}: {_state(judge)}")
            continue
        began = time.monotonic()
        try:
            _install(judge)
        except Conflict as conflict:
            failed += 1
            _say(f"{judge.name}: skipped: {_contradiction(judge, conflict)}")
        except (SetupError, CommandFailed, OSError) as error:
            failed += 1
            _say(f"{judge.name}: NOT installed: {error}")
        else:
            _say(f"{judge.name}: installed in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _install(judge: Judge) -> None:
    """Make the environment of one judge.

    Raises `SetupError`, `CommandFailed` (of which `Conflict` is one) and `OSError`.
    """
    tools = bootstrap.ROOT / ".tools"
    tools.mkdir(exist_ok=True)
    with bootstrap.locked(tools / "lock", _say) as lock:
        if judge.stands():  # who held the lock before may have done our work
            return
        workshop = Workshop(judge.folder, tools, lock)
        workshop.open()
        shutil.rmtree(judge.environment, ignore_errors=True)
        if judge.python:
            _python(judge, workshop)
        else:
            _node(workshop)
        workshop.sweep()
        (judge.environment / STAMP).write_text(judge.made_of())


def _python(judge: Judge, workshop: Workshop) -> None:
    """With one installer after the other, until one succeeds.

    Under `--require-hashes` uv refuses every constraint that is not a pin.  Without dependencies
    nothing is installed but what stands in the lock, where each line has its hashes, and hashes
    that stand there are checked.
    """
    failure = ""
    packages = ("--no-deps", "-r", "requirements.txt")
    for installer in installers.usable(workshop, _say):
        _say(f"{judge.name}: installing with {installer.name} …")
        try:
            base = installers.base_python()
            workshop.run(base, "-m", "venv", "--clear", "--without-pip", judge.environment)
            python = judge.environment / "bin" / "python"
            workshop.run(*installer.command(python), *packages, **installer.environ)
        except Conflict:
            raise  # another installer would be told of the same constraint
        except CommandFailed as failed:
            failure = f"{installer.name} says: {failed}"
            _say(f"{judge.name}: {failure}")
        else:
            return
    raise SetupError(f"{failure}; the whole story is in {workshop.log}")


def _contradiction(judge: Judge, conflict: Conflict) -> str:
    """Which pin of the lock this machine's constraint forbids."""
    locked = judge.lock.read_text() if judge.lock else ""
    pin, constraint = sorted(conflict.pins, key=lambda one: f"{one} " not in locked)
    return f"its lock pins {pin}, and pip is configured on this machine with {constraint}"


def _node(workshop: Workshop) -> None:
    if (version := _node_version()) < _NODE or shutil.which("npm") is None:
        has = f"Node {version}" if version else "no Node"
        raise SetupError(f"this machine has {has}: install Node {_NODE} or newer, with npm")
    workshop.run(*_NPM)


def _node_version() -> int:
    """Node's major version; 0 where there is none."""
    if (node := shutil.which("node")) is None:
        return 0
    said = subprocess.run((node, "--version"), capture_output=True, text=True, check=False).stdout
    major = said.removeprefix("v").partition(".")[0]
    return int(major) if major.isdecimal() else 0


def _say(line: str) -> None:
    sys.stderr.write(f"scripts/judges: {line}\n")
    sys.stderr.flush()
