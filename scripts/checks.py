"""The steps of `scripts/test`, one after the other, and how each went."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import bootstrap


@dataclass(frozen=True, slots=True)
class Step:
    """One program that must succeed."""

    name: str
    command: tuple[str, ...]
    """A program of the environment, and its arguments."""
    flag: str = ""
    """The argument of `scripts/test` that chooses it; one without runs only when all do."""


STEPS: Final = (
    Step("lint", ("ruff", "check"), "--lint"),
    Step("format", ("ruff", "format", "--check"), "--lint"),
    Step("types", ("mypy",), "--types"),
    # Many tests wait for processes and for times: on two cores a third worker has room.
    Step("tests", ("pytest", "-n", "3")),
)


def run(launcher: str, *arguments: str) -> int:
    """Do what the arguments of `scripts/test` ask for; the exit code."""
    programs = bootstrap.environment(launcher, "dev") / "bin"
    os.chdir(bootstrap.ROOT)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Tests start hundreds of processes: each would compile all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if set(arguments) - {step.flag for step in STEPS if step.flag}:
        return bootstrap.become(launcher, programs / "pytest", *arguments)
    try:
        return run_all(programs, chosen(arguments))
    except KeyboardInterrupt:
        return 130


def chosen(flags: Sequence[str]) -> tuple[Step, ...]:
    """The steps of these flags; without a flag, all."""
    return tuple(step for step in STEPS if step.flag in flags) if flags else STEPS


def run_all(programs: Path, steps: Sequence[Step]) -> int:
    """Run every step, also after one that failed, then say how each went.  0 if all passed."""
    results = []
    for step in steps:
        program, *arguments = step.command
        print(f"\n── {step.name}: {' '.join(step.command)}", flush=True)
        began = time.monotonic()
        code = subprocess.run((programs / program, *arguments), check=False).returncode
        results.append((step.name, code, time.monotonic() - began))
    print()
    for name, code, seconds in results:
        verdict = "ok" if code == 0 else f"FAILED ({code})"
        print(f"{name:8}{verdict:14}{seconds:6.1f} s")
    return 1 if any(code for _, code, _ in results) else 0
