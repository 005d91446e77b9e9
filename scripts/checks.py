"""The checks that `scripts/test` runs, and their results."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from typing import Final

import bootstrap
import judge_environments


@dataclass(frozen=True, slots=True)
class Check:
    """One program that must succeed."""

    name: str
    command: tuple[str, ...]
    """A program of the environment, and its arguments."""
    flag: str = ""
    """The argument of `scripts/test` that selects it; one without runs only if all checks do."""
    is_beside: bool = False
    """Whether it uses one core only, and so runs beside the others."""


CHECKS: Final = (
    Check("lint", ("ruff", "check"), "--lint"),
    Check("format", ("ruff", "format", "--check"), "--lint"),
    Check("types", ("mypy",), "--types", is_beside=True),
    # Many tests wait for processes and timers: two cores can run a third worker.
    Check("tests", ("pytest", "-n", "3")),
)


INTERRUPTED_S: Final = 10
"""How long a check may take to end after Ctrl-C."""
DAILY_JUDGES: Final = ("boto3", "cohere", "google-genai", "groq", "mistralai")
"""The official clients of dialects that have none in the environment of the tests."""


def run(launcher: str, *arguments: str) -> int:
    """Run the checks that the arguments of `scripts/test` select; returns the exit code."""
    is_thorough = "--thorough" in arguments
    if is_thorough:
        os.environ["LLM_PROXY_THOROUGH"] = "1"
        arguments = tuple(argument for argument in arguments if argument != "--thorough")
    bin_folder = bootstrap.prepare_environment(launcher, "dev") / "bin"
    os.chdir(bootstrap.ROOT)
    os.environ["PATH"] = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    # Tests start hundreds of processes, and each would compile all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if set(arguments) - {check.flag for check in CHECKS if check.flag}:
        return bootstrap.exec_program(launcher, bin_folder / "pytest", *arguments)
    try:
        if not arguments:
            install_judges(launcher, is_thorough=is_thorough)
        return run_checks(bin_folder, select_checks(arguments))
    except KeyboardInterrupt:
        return 130


def install_judges(launcher: str, *, is_thorough: bool) -> None:
    """Install the judges that the tests lack; in a thorough run, all that this machine can run.

    Those in Python come first.  It stops at the first that fails: without a registry, each would
    try for long.
    """
    judges = judge_environments.find_judges(judge_environments.JUDGES_FOLDER).values()
    missing = [
        judge
        for judge in judges
        if (is_thorough or judge.name in DAILY_JUDGES)
        and not judge.is_installed()
        and (shutil.which("node") or not judge.is_node)
    ]
    missing.sort(key=lambda judge: judge.is_node)
    if missing:
        print(f"\n── judges: {', '.join(judge.name for judge in missing)}", flush=True)
    while missing and judge_environments.install(missing[0]):
        del missing[0]
    if missing:
        names = " ".join(judge.name for judge in missing)
        print(f"{launcher}: going on without {names}, whose tests are skipped", flush=True)


def select_checks(flags: Sequence[str]) -> tuple[Check, ...]:
    """The checks with these flags; without flags, all checks."""
    return tuple(check for check in CHECKS if check.flag in flags) if flags else CHECKS


def run_checks(bin_folder: Path, checks: Sequence[Check]) -> int:
    """Run every check, even after a failure, and print the results.  Returns 0 if all passed.

    The output of one that runs beside the others follows theirs.
    """
    beside = [check for check in checks if check.is_beside and len(checks) > 1]
    processes: list[Popen[str]] = []

    def run_check(check: Check, output: int | None = None) -> tuple[int, str, float]:
        """Run a check to its end; returns its exit code, its output and the seconds it took."""
        program, *arguments = check.command
        start = time.monotonic()
        process = Popen(
            (bin_folder / program, *arguments),
            stdout=output, stderr=STDOUT if output else None, text=True,
        )  # fmt: skip
        processes.append(process)
        text, _ = process.communicate()
        return process.returncode, text or "", time.monotonic() - start

    results = {}
    with futures.ThreadPoolExecutor() as threads:
        running = {check: threads.submit(run_check, check, PIPE) for check in beside}
        try:
            for check in checks:
                if check not in beside:
                    print_heading(check)
                    results[check] = run_check(check)
            for check in beside:
                results[check] = running[check].result()
                print_heading(check)
                print(results[check][1], end="")
        except KeyboardInterrupt:
            end_processes(processes)
            raise
    print()
    for check in checks:
        exit_code, _, duration_s = results[check]
        verdict = "ok" if exit_code == 0 else f"FAILED ({exit_code})"
        print(f"{check.name:8}{verdict:14}{duration_s:6.1f} s")
    return 1 if any(exit_code for exit_code, _, _ in results.values()) else 0


def end_processes(processes: Sequence[Popen[str]]) -> None:
    """Let the checks end that Ctrl-C has reached too, then end the others.

    Pytest prints the failures until then.
    """
    deadline = time.monotonic() + INTERRUPTED_S
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0, deadline - time.monotonic()))
        process.terminate()


def print_heading(check: Check) -> None:
    """Print which check the output that follows is of."""
    print(f"\n── {check.name}: {' '.join(check.command)}", flush=True)
