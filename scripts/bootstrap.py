"""The environment of this checkout, made from `pyproject.toml` by whatever the machine has.

    venv = bootstrap.environment("scripts/demo")            what the program needs
    venv = bootstrap.environment("scripts/test", "dev")     and what its tests need

It is for a machine with nothing but Python 3.11 and pip: standard library only, no root, nothing
kept outside the checkout but pip's own cache.  All of it lies in two folders, free to delete:

    .venv/     the environment
    .tools/    uv and its cache, the lock, temporary files, the log of the last set-up

Two rules keep a set-up that was killed, or met another one, from harm.  An environment is believed
only by its stamp, which is written last.  Who builds holds a lock, and the programs it runs hold it
too: killing the launcher alone does not let the next one in beside an installer still at work.
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
from installers import CommandFailed, Conflict, Installer, Say, SetupError, Workshop

ROOT: Final = Path(__file__).resolve().parent.parent
_OURS: Final = "made-by-llm-proxy-scripts"
"""The file that says of an environment that these scripts made it and may delete it."""


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
    def stamp(self) -> Path:
        """What makes the environment believed."""
        return self.venv / "setup-stamp.json"

    @property
    def tools(self) -> Path:
        """What the set-up keeps for itself."""
        return self.root / ".tools"


def environment(launcher: str, *extras: str) -> Path:
    """The folder of an environment that has these extras, made where it does not stand.

    Progress goes to stderr, each line with the launcher's name before it.  Where there can be no
    environment the program ends: with a sentence and code 2, or with 128 + n after signal n.
    """

    def say(line: str) -> None:
        sys.stderr.write(f"{launcher}: {line}\n")
        sys.stderr.flush()

    checkout = Checkout(ROOT)
    signal.signal(signal.SIGTERM, terminated)
    try:
        ensure(checkout, frozenset(extras), say)
    except KeyboardInterrupt:
        say("stopped before .venv was ready; run this again to make it")
        sys.exit(130)
    except SetupError as error:
        say(str(error))
        sys.exit(2)
    except OSError as error:
        say(f"cannot make {checkout.venv}: {error}; is the checkout yours, and the disk not full?")
        sys.exit(2)
    return checkout.venv


def become(launcher: str, command: Path, *arguments: str) -> int:
    """Go on as this program.  Returns only where that cannot be: with a sentence, and code 2."""
    try:
        os.execv(command, (str(command), *arguments))  # noqa: S606 # no shell is what we want
    except OSError as error:
        sys.stderr.write(
            f"{launcher}: cannot run {command}: {error.strerror}; if pyproject.toml still names "
            f"{command.name}, delete .venv and run this again\n"
        )
    return 2


def ensure(checkout: Checkout, extras: frozenset[str], say: Say) -> None:
    """Make the environment have these extras.  Raises `SetupError` and `OSError`."""
    if _satisfies(standing(checkout), extras):
        return
    checkout.tools.mkdir(exist_ok=True)
    with locked(checkout.tools / "lock", say) as lock:
        have = standing(checkout)  # who held the lock before may have done our work
        if not _satisfies(have, extras):
            workshop = Workshop(checkout.root, checkout.tools, lock)
            Builder(checkout, workshop, say).build(extras, have)


def _satisfies(have: frozenset[str] | None, extras: frozenset[str]) -> bool:
    return have is not None and have >= extras


def standing(checkout: Checkout) -> frozenset[str] | None:
    """The extras that the environment has; None where it is not to be believed."""
    try:
        stamp = json.loads(checkout.stamp.read_bytes())
        extras, of, holds = frozenset(stamp["extras"]), stamp["of"], frozenset(stamp["holds"])
        whole = of == fingerprint(checkout) and holds <= contents(checkout)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return extras if whole and os.access(checkout.python, os.X_OK) else None


def fingerprint(checkout: Checkout) -> dict[str, str]:
    """What an environment is made of: where this differs, it is another environment."""
    sources = (checkout.root / "pyproject.toml", Path(__file__), Path(installers.__file__))
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "sources": hashlib.sha256(b"\0".join(map(Path.read_bytes, sources))).hexdigest(),
        "python": f"{sys.implementation.cache_tag} {version} of {sys.base_prefix}",
        "root": str(checkout.root),  # the scripts of an environment hold its absolute path
    }


def contents(checkout: Checkout) -> frozenset[str]:
    """The names at the top of the environment: soon listed, and they show a package gone."""
    folders = (checkout.venv / "bin", *checkout.venv.glob("lib/python*/site-packages"))
    return frozenset(
        f"{entry.parent.name}/{entry.name}" for folder in folders for entry in folder.iterdir()
    )


@contextmanager
def locked(path: Path, say: Say) -> Iterator[int]:
    """Hold the lock of the checkout; yields its descriptor."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another launcher that is making .venv")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def terminated(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes the environment, while the lock is held."""

    checkout: Checkout
    workshop: Workshop
    say: Say

    def build(self, extras: frozenset[str], have: frozenset[str] | None) -> None:
        """Install with one installer after the other until one succeeds, and stamp the result.

        `have` are the extras that stand: they are kept and added to, for programs may be running
        there.  None makes the environment from nothing.  Raises `SetupError`.
        """
        began = time.monotonic()
        failure, hint = "", "see that pip reaches its index, then run this again"
        self.workshop.open()
        for installer in installers.usable(self.workshop, self.say):
            self.say(f"{'making' if have is None else 'extending'} .venv with {installer.name} …")
            try:
                if have is None:
                    self._make(installer, extras)
                else:
                    self._extend(installer, extras | have)
            except CommandFailed as failed:
                failure = f"{installer.name} says: {failed}"
                if isinstance(failed, Conflict):
                    hint = "one of them must give way: see pip config list"
                self.say(failure)
                have = standing(self.checkout)
            else:
                self.workshop.sweep()
                self.say(f".venv is ready after {time.monotonic() - began:.0f} s")
                return
        raise SetupError(
            f"cannot install the packages that pyproject.toml names ({failure}); {hint}; "
            f"the whole story is in {self.workshop.log}"
        )

    def _make(self, installer: Installer, extras: frozenset[str]) -> None:
        venv = self.checkout.venv
        self._set_aside()
        venv.mkdir()
        (venv / _OURS).touch()
        python = installers.base_python()
        self.workshop.run(python, "-m", "venv", "--without-pip", "--prompt=llm-proxy", venv)
        names = f"[{','.join(sorted(extras))}]" if extras else ""
        self._install(installer, ("--editable", f".{names}"))
        self._stamp(extras)

    def _extend(self, installer: Installer, extras: frozenset[str]) -> None:
        """Add packages, and leave the program alone.  A failure that changed nothing harms not."""
        project = tomllib.loads((self.checkout.root / "pyproject.toml").read_text())["project"]
        optional = project["optional-dependencies"]
        wanted = [*project["dependencies"], *(one for name in extras for one in optional[name])]
        stamp, names = self.checkout.stamp.read_bytes(), contents(self.checkout)
        self.checkout.stamp.unlink()
        try:
            self._install(installer, wanted)
        except CommandFailed:
            if contents(self.checkout) == names:
                _write_whole(self.checkout.stamp, stamp)
            raise
        self._stamp(extras)

    def _install(self, installer: Installer, packages: Sequence[str]) -> None:
        command = installer.command(self.checkout.python)
        self.workshop.run(*command, *packages, **installer.environ)

    def _stamp(self, extras: frozenset[str]) -> None:
        """Vouch for the environment: for its packages, not for their exact versions."""
        names = contents(self.checkout)
        holds = sorted(name for name in names if not name.endswith((".dist-info", "__pycache__")))
        stamp = {"of": fingerprint(self.checkout), "extras": sorted(extras), "holds": holds}
        _write_whole(self.checkout.stamp, json.dumps(stamp, indent=1).encode())

    def _set_aside(self) -> None:
        """Clear the place of the environment.  Only what we made is deleted."""
        venv = self.checkout.venv
        with suppress(OSError):
            venv.rmdir()
        if (venv / _OURS).exists():
            venv.rename(self.workshop.temporary / "old-venv")
            self.workshop.sweep()
        elif os.path.lexists(venv):
            names = (f".venv-{number}" for number in count(1))
            aside = next(path for name in names if not (path := venv.with_name(name)).exists())
            venv.rename(aside)
            self.say(f"the .venv that was here is not of our making: kept as {aside.name}")


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there in full or not at all."""
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)
