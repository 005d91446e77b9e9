"""What can install packages on this machine: uv where it can be had, else pip.

uv is many times faster.  It is taken from an earlier run, from PATH, or from the index that pip is
configured with, into `.tools/uv`.  pip needs not to be inside `.venv`: it serves any Python.
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

_UNSET: Final = ("PIP_PREFIX", "PIP_PYTHON", "PIP_ROOT", "PIP_TARGET", "PYTHONPATH", "VIRTUAL_ENV")
"""Settings that would send an installer elsewhere, or show it packages that are not there."""

_SET: Final = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_USER": "0",
    "UV_NO_PROGRESS": "1",
    "UV_PYTHON_DOWNLOADS": "never",
}

_TRANSLATED: Final = {
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
"""pip's settings that uv has under names of its own."""

_ONLY_PIP: Final = frozenset(("no-binary", "no-index", "only-binary", "pre", "require-hashes"))
"""pip's settings that decide what is installed, and that uv would not see."""

_FALSE: Final = frozenset(("", "0", "false", "no", "off"))

_SETTING: Final = re.compile(r"(?P<section>global|install|:env:)\.(?P<name>[a-z-]+)=(?P<value>.*)")

_CONFLICT: Final = re.compile(
    r"Because (?:you require )?(.+) and (\S+),\s+we can conclude"
    r"|(?m:^) *(?:The user requested )?(.+)\n *The user requested \(constraint\) (.+)"
)
"""How uv and pip say that what was to be installed and a constraint contradict each other."""

Say = Callable[[str], None]
Command = tuple[str | Path, ...]


class SetupError(Exception):
    """Why there is no environment, and what to do about it, in one sentence."""


class CommandFailed(Exception):
    """A program ended badly; the message is the line in which it said why."""


class Conflict(CommandFailed):
    """What was to be installed is what a constraint forbids; `pins` are the two requirements."""

    def __init__(self, *pins: str) -> None:
        super().__init__(f"conflicting requirements: {' and '.join(pins)}")
        self.pins = pins


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where installers run: their log, their temporary files, and the lock that they share."""

    root: Path
    tools: Path
    lock: int
    """The descriptor of the held lock: whoever inherits it holds the lock too."""

    @property
    def log(self) -> Path:
        """Everything that the programs of this set-up said."""
        return self.tools / "setup.log"

    @property
    def temporary(self) -> Path:
        """A folder for what nobody needs afterwards."""
        return self.tools / "tmp"

    @property
    def uv(self) -> Path:
        """The uv that is kept for the next set-up."""
        return self.tools / "uv" / "bin" / "uv"

    def open(self) -> None:
        """Begin with an empty log and no leftovers."""
        self.log.write_bytes(b"")
        self.sweep()

    def sweep(self) -> None:
        """Empty the temporary folder."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(exist_ok=True)

    def run(self, *command: str | Path, **environ: str) -> None:
        """Run a program to its end, its output into the log.

        It has a session of its own: no terminal to ask at, and none of its children outlives a
        launcher that is interrupted.  Raises `CommandFailed`, of which `Conflict` is one.
        """
        with self.log.open("a+b") as log:
            start = log.tell()
            code = self._child(command, environ, log.fileno())
            log.seek(start)
            output = log.read().decode(errors="replace")
        if code and (conflict := _CONFLICT.search(output)):
            raise Conflict(*filter(None, conflict.groups()))
        if code:
            raise CommandFailed(reason(output) or f"{command[0]} ended with code {code}")

    def _child(self, command: Command, environ: Mapping[str, str], log: int) -> int:
        child = None
        release = _hold_signals()  # one between the start and our knowing of it would orphan it
        try:
            child = subprocess.Popen(
                command,
                cwd=self.root,
                env=self._environment(environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(self.lock,),
                start_new_session=True,
            )
            release()
            return child.wait()
        except BaseException:
            if child is not None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            raise
        finally:
            release()

    def ask(self, *command: str | Path) -> str | None:
        """What a program answers on stdout; None where it cannot be run or ends badly."""
        try:
            answer = subprocess.run(
                command,
                env=self._environment({}),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=60,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return answer.stdout.decode(errors="replace")

    def _environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """What the user has set goes before `environ`, and what must be before both."""
        kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
        cache = {"UV_CACHE_DIR": str(self.tools / "uv-cache")}
        return {**cache, **environ, **kept, **_SET, "TMPDIR": str(self.temporary)}


@dataclass(frozen=True, slots=True)
class Installer:
    """One way to install packages into an environment."""

    name: str
    before: Command
    """Its command, up to the path of the environment's Python …"""
    after: Command = ()
    """… and from there to the packages."""
    environ: Mapping[str, str] = field(default_factory=dict)

    def command(self, python: Path) -> Command:
        """What installs into the environment of this Python the packages that are put behind it."""
        return (*self.before, python, *self.after)


def usable(workshop: Workshop, say: Say) -> Iterator[Installer]:
    """The installers of this machine, the quickest first; each is sought when it is asked for.

    Raises `SetupError` where there is none.
    """
    uv = _ready_uv(workshop)
    pip = _ready_pip(workshop) or (() if uv else _unpacked_pip(workshop))
    if not uv and not pip:
        raise SetupError(
            f"{base_python()} has no pip, and there is no uv on PATH: install one of them (on "
            "Debian, as root: apt install python3-pip), then run this again"
        )
    settings = pip_settings(workshop.ask(*pip, "config", "list") or "") if pip else {}
    if foreign := sorted(_ONLY_PIP & settings.keys()):
        say(f"not using uv, which would not see that pip is configured with {', '.join(foreign)}")
    elif uv := uv or _fetched_uv(workshop, pip, say):
        yield Installer("uv", (uv, "pip", "install", "--python"), (), uv_environment(settings))
    if pip := pip or _unpacked_pip(workshop):
        yield Installer("pip", (*pip, "--python"), ("install", "--progress-bar=off"))


def _ready_uv(workshop: Workshop) -> Path | None:
    """The uv of an earlier run, or the user's own."""
    candidates = (workshop.uv, Path(shutil.which("uv") or workshop.uv))
    return next((uv for uv in candidates if workshop.ask(uv, "--version") is not None), None)


def _fetched_uv(workshop: Workshop, pip: Command, say: Say) -> Path | None:
    """uv from the index that pip is configured with; None where it is not to be had."""
    say("getting uv, which installs faster than pip …")
    folder = workshop.tools / "uv"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        # A wheel or nothing: where there is none, pip would set out to compile uv.
        workshop.run(*pip, "install", "--only-binary=:all:", "--no-deps", "--target", folder, "uv")
    except CommandFailed as failed:
        say(f"uv is not to be had: {failed}")
        return None
    return workshop.uv if workshop.ask(workshop.uv, "--version") is not None else None


def _ready_pip(workshop: Workshop) -> Command:
    """The pip of this Python, of the environment it may be in, or of an earlier run."""
    own = workshop.tools / "pip" / "bin" / "python"
    for python in dict.fromkeys((base_python(), Path(sys.executable), own)):
        if workshop.ask(python, "-m", "pip", "--version") is not None:
            return (python, "-m", "pip")
    return ()


def _unpacked_pip(workshop: Workshop) -> Command:
    """A pip that Python's own `ensurepip` unpacks; empty where there is no `ensurepip` either."""
    own = workshop.tools / "pip"
    if workshop.ask(base_python(), "-m", "venv", "--clear", own) is None:
        shutil.rmtree(own, ignore_errors=True)
        return ()
    return (own / "bin" / "python", "-m", "pip")


def _hold_signals() -> Callable[[], None]:
    """Hold back the signals that stop us; the function that is returned lets them through."""
    held: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {one: signal.signal(one, lambda number, _: held.append(number)) for one in numbers}

    def release() -> None:
        while handlers:
            signal.signal(*handlers.popitem())
        while held:
            signal.raise_signal(held.pop())

    return release


def base_python() -> Path:
    """The interpreter that runs us, outside of any environment that it may be in."""
    base = Path(getattr(sys, "_base_executable", sys.executable))
    return base if base.exists() else Path(sys.executable).resolve()


def pip_settings(listing: str) -> dict[str, str]:
    """What `pip config list` says of an install, a later section over an earlier one, as in pip.

    Settings that are switched off are left out.
    """
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listing.splitlines():
        if match := _SETTING.fullmatch(line):
            found[match["section"]][match["name"]] = str(ast.literal_eval(match["value"]))
    merged = {name: value for section in found.values() for name, value in section.items()}
    return {name: value for name, value in merged.items() if value.lower() not in _FALSE}


def uv_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """pip's settings as uv's variables: the same packages from the same places."""
    environ = {
        variable: ("," if name == "find-links" else " ").join(settings[name].split())
        for name, variable in _TRANSLATED.items()
        if name in settings
    }
    if "UV_INDEX" in environ:
        # pip takes the best version of all indexes; uv by itself that of the first that has any.
        environ["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return environ


def reason(output: str) -> str:
    """The line of an installer's output that says why it failed; empty where there is none."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for opening in ("ERROR: ", "cause: ", "Caused by: ", "╰─▶ ", "error: "):
        if telling := [line for line in lines if line.startswith(opening)]:
            return telling[-1].removeprefix(opening)[:300]
    return lines[-1][:300] if lines else ""
