"""What `scripts/torture` runs, in the environment of this checkout.

Endings: every way in which an upstream can end, against clients that read, that are slow, and
that leave; a notice is how long it took until that was known.  Kills: `kill -9` of a real
`llm-proxy record` at random moments.  The test suite runs the same trials with other seeds, one
of each or, in a thorough run, 20; here there are as many as you like.  A failed trial names its
seed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from kill_trials import SURVIVAL_DELAY_S, KillVerdict, run_kill_trial
from trial_runner import trial_environment
from trial_verdicts import TrialVerdict, judge_trials
from upstream_endings import CASES, Client, Trial

MAX_NOTICE_S: Final = 1.0
"""Seconds within which every end except a client's own must be noticed."""
_MAX_SHOWN_FAILURES: Final = 5
"""How many failed trials of a row are printed."""
_MAX_CONCURRENT_KILLS: Final = 4
_COLUMN_WIDTHS: Final = (26, 24, 7, 11, 6, 14)

CLIENT_ROWS: Final[tuple[tuple[str, Client, bool], ...]] = (
    ("reads", "fast", False),
    ("is slow", "slow", False),
    ("leaves", "gone", False),
    ("leaves, read to the end", "gone", True),
)
"""Label, client, and whether the upstream is read to its end after the client has left."""


def main(arguments: Sequence[str]) -> int:
    """Run the trials; returns 0 if all passed, else 1."""
    options = _parse_options(arguments)
    logging.disable(logging.CRITICAL)  # every trial causes errors; its verdict has the result
    is_passed = True
    if "endings" in options.what:
        is_passed = asyncio.run(_run_ending_trials(options)) and is_passed
    if "kills" in options.what:
        is_passed = asyncio.run(_run_kill_trials(options)) and is_passed
    print("\nall is well" if is_passed else "\nNOT all is well")
    return 0 if is_passed else 1


def _parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/torture",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit code: 0 if nothing was lost, forged or late, 1 if anything was.",
    )
    parser.add_argument("what", nargs="*", metavar="endings|kills", help="[default: both]")
    parser.add_argument(
        "--trials", type=int, default=200, metavar="N", help="of each case, and kills [200]"
    )
    parser.add_argument(
        "--case", default="", metavar="TEXT", help="only rows of the table with this in them"
    )
    parser.add_argument("--seed", type=int, default=1000, metavar="N", help="the first one [1000]")
    parsed = parser.parse_args(arguments)
    parsed.what = parsed.what or ["endings", "kills"]
    if not {*parsed.what} <= {"endings", "kills"} or parsed.trials < 1:
        parser.error("give endings or kills or both, and at least one trial")
    parsed.seeds = range(parsed.seed, parsed.seed + parsed.trials)
    return parsed


# --- endings ------------------------------------------------------------------------------------


async def _run_ending_trials(options: argparse.Namespace) -> bool:
    _print_row("the upstream", "the client", "trials", "lost bytes", "wrong", "slowest notice")
    _print_row(*("-" * width for width in _COLUMN_WIDTHS))
    failed: list[TrialVerdict] = []
    for case in CASES:
        for client_label, client, is_finishing in CLIENT_ROWS:
            if options.case not in f"{case.name}, {client_label}":
                continue
            trials = [Trial(case, client, seed, is_finishing) for seed in options.seeds]
            with tempfile.TemporaryDirectory(prefix="llm-proxy-torture-") as folder:
                async with trial_environment(
                    Path(folder), stalls=case.stalls, finishing=is_finishing
                ) as field:
                    await field.run(trials)
                verdicts = judge_trials(Path(folder), field, trials)
            row_failures = [
                verdict
                for verdict in verdicts
                if verdict.lost_bytes or verdict.problems or verdict.notice_s > MAX_NOTICE_S
            ]
            failed += row_failures[:_MAX_SHOWN_FAILURES]
            _print_row(
                case.name,
                client_label,
                f"{len(verdicts)}",
                f"{sum(verdict.lost_bytes for verdict in verdicts)}",
                f"{sum(bool(verdict.problems) for verdict in verdicts)}",
                f"{max(verdict.notice_s for verdict in verdicts) * 1000:.0f} ms",
            )
    for verdict in failed:
        notice_ms = f"{verdict.notice_s * 1000:.0f} ms"
        lost = f"{verdict.lost_bytes} bytes lost"
        print(f"{verdict.trial.name}: {lost}, {notice_ms}; {verdict.problems}")
    return not failed


def _print_row(*cells: str) -> None:
    left = f"{cells[0]:<{_COLUMN_WIDTHS[0]}}  {cells[1]:<{_COLUMN_WIDTHS[1]}}"
    right = (f"{cell:>{width}}" for cell, width in zip(cells[2:], _COLUMN_WIDTHS[2:], strict=True))
    print("  ".join([left, *right]), flush=True)


# --- kills --------------------------------------------------------------------------------------


async def _run_kill_trials(options: argparse.Namespace) -> bool:
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT_KILLS)
    done_count = 0

    async def run_one(seed: int) -> KillVerdict:
        nonlocal done_count
        async with semaphore:
            with tempfile.TemporaryDirectory(prefix="llm-proxy-torture-") as folder:
                verdict = await run_kill_trial(Path(folder), seed)
        done_count += 1
        if sys.stderr.isatty():
            progress = f"\rkill {done_count} of {options.trials}"
            print(progress, end="", file=sys.stderr, flush=True)
        return verdict

    verdicts = await asyncio.gather(*map(run_one, options.seeds))
    print(file=sys.stderr)
    failed = [verdict for verdict in verdicts if not verdict.passed]
    streams = sum(verdict.stream_count for verdict in verdicts)
    print(f"\n{len(verdicts)} kills -9 while {streams} streams ran")
    print(f"  {sum(len(verdict.unreadable) for verdict in verdicts)} files torn")
    print(f"  {sum(verdict.recovered_count for verdict in verdicts)} recordings recovered")
    lost = sum(verdict.lost_count for verdict in verdicts)
    messages = sum(verdict.message_count for verdict in verdicts)
    settled = f"{SURVIVAL_DELAY_S * 1000:.0f} ms"
    print(f"  {lost} messages lost, of {messages} that had been received {settled} before the kill")
    for verdict in failed[:_MAX_SHOWN_FAILURES]:
        torn = "; ".join(verdict.unreadable)
        print(f"kill {verdict.seed}: {verdict.lost_count} messages lost; {torn}")
    return not failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
