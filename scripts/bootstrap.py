"""The environment of this checkout, made from `pyproject.toml` by whatever the machine has.

    venv = bootstrap.environment("scripts/demo")            what the program needs
    venv = bootstrap.environment("scripts/test", "dev")     and what its tests need

It is for a machine with nothing but Python 3.11 and pip: standard library only, no root, nothing
written outside the checkout.  All of it lies in two folders that are free to delete:

    .venv/     the environment
    .tools/    uv and its cache, the lock, temporary files, the log of the last set-up

Two rules keep a set-up that was killed, or met another one, from harm.  An environment is believed
only by its stamp, which is written last.  Who builds holds the lock, and so do the programs it
runs: killing the launcher alone does not let the next one in beside an installer still at work.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

import installers
from installers import Installer

ROOT: Final = Path(__file__).resolve().parent.parent
_MARK: Final = "made-by-llm-proxy-scripts"

Say = Callable[[str], None]


class SetupError(Exception):
    """Why there is no environment, and what to do about it, in one sentence."""


class CommandFailed(Exception):
    """A program ended badly; the message is what it said last of the reason."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """The paths of one checkout."""

    root: Path
    venv: Path = field(init=False)
    tools: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "venv", self.root / ".venv")
        object.__setattr__(self, "tools", self.root / ".tools")

    @property
    def python(self) -> Path:
        """The environment's own interpreter."""
        return self.venv / "bin" / "python"

    @property
    def stamp(self) -> Path:
        """What makes the environment believed."""
        return self.venv / "setup-stamp.json"

    @property
    def log(self) -> Path:
        """Everything that the programs of the last set-up said."""
        return self.tools / "setup.log"


def environment(launcher: str, *extras: str) -> Path:
    """The folder of an environment that has these extras, made or mended where it must be.

    `launcher` is the name that the progress lines on stderr begin with.  Ends the program where
    there can be no environment: one sentence, exit code 2; 128 + n after signal n.
    """

    def say(line: str) -> None:
        sys.stderr.write(f"{launcher}: {line}\n")
        sys.stderr.flush()

    checkout = Checkout(ROOT)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        ensure(checkout, frozenset(extras), say)
    except KeyboardInterrupt:
        say("stopped; the next run makes .venv anew")
        sys.exit(130)
    except SetupError as error:
        say(str(error))
        sys.exit(2)
    except OSError as error:
        say(f"cannot set up {checkout.venv}: {error}; it needs a folder and a disk to write to")
        sys.exit(2)
    return checkout.venv


def ensure(checkout: Checkout, extras: frozenset[str], say: Say) -> None:
    """Make the environment have these extras.  Raises `SetupError`, `OSError`."""
    if (standing(checkout) or frozenset()) >= extras and standing(checkout) is not None:
        return
    checkout.tools.mkdir(exist_ok=True)
    with _locked(checkout.tools / "lock", say) as lock:
        have = standing(checkout)  # who held the lock may have done our work
        if have is None or not have >= extras:
            Builder(checkout, say, lock).build(extras, have)


def standing(checkout: Checkout) -> frozenset[str] | None:
    """The extras that the environment has; None where it is not to be believed."""
    try:
        stamp = json.loads(checkout.stamp.read_bytes())
        whole = stamp["of"] == fingerprint(checkout) and contents(checkout).issuperset(stamp["holds"])
        extras = frozenset(stamp["extras"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return extras if whole and os.access(checkout.python, os.X_OK) else None


def fingerprint(checkout: Checkout) -> dict[str, str]:
    """What an environment is made of; another fingerprint asks for another environment."""
    parts = (checkout.root / "pyproject.toml", Path(__file__), Path(installers.__file__))
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "sources": hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest(),
        "python": f"{sys.implementation.cache_tag} {version} of {sys.base_prefix}",
        "root": str(checkout.root),  # scripts in an environment name it by its absolute path
    }


def contents(checkout: Checkout) -> set[str]:
    """The names at the top of the environment: cheap to list, and enough to see a package gone."""
    folders = (checkout.venv / "bin", *checkout.venv.glob("lib/python*/site-packages"))
    names = (f"{folder.name}/{name}" for folder in folders for name in os.listdir(folder))
    return {name for name in names if not name.endswith((".dist-info", "__pycache__"))}


@contextmanager
def _locked(path: Path, say: Say) -> Iterator[int]:
    """Hold the lock of the checkout; its descriptor is for the programs that share it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another launcher that is setting up .venv")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _terminated(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes the environment, while it holds the lock."""

    checkout: Checkout
    say: Say
    lock: int

    def build(self, extras: frozenset[str], have: frozenset[str] | None) -> None:
        """Install with one installer after the other until one succeeds, and stamp the result.

        `have` are the extras that are there and to be kept; None makes the environment anew.
        Raises `SetupError`.
        """
        began = time.monotonic()
        self._sweep()
        reason = ""
        for installer in installers.usable(self.checkout.tools, self.run, self.say):
            wanted = installers.requirements(self.checkout.root, extras, complete=have is None)
            self.say(f"{'making' if have is None else 'extending'} .venv with {installer.name}")
            self._lay(anew=have is None)
            try:
                self.run(*installer.command(self.checkout.python), *wanted, **installer.environ)
            except CommandFailed as failed:
                reason = str(failed)
                self.say(f"{installer.name} could not install: {reason}")
                have = None
            else:
                self._stamp(extras | (have or frozenset()))
                self.say(f".venv is ready after {time.monotonic() - began:.0f} s")
                return
        raise SetupError(self._advice(reason))
