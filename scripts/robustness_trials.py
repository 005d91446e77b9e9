"""What `scripts/torture` runs, in the environment of this checkout.

Endings: every way in which an upstream can end, against clients that read, that are slow, and
that leave; a notice is how long it took until that was known.  Kills: `kill -9` of a real
`llm-proxy record` at random moments.  The test suite runs the same trials with other seeds, 20
of each; here there are as many as you like.  A failed trial names its seed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from kill_trials import SETTLED, KillVerdict, killed
from trial_runner import trial_field
from trial_verdicts import Verdict, judge
from upstream_endings import CASES, Case, Client, Trial

SOONEST: Final = 1.0
"""Seconds within which every end but a client's own must be noticed."""
_EXAMPLES: Final = 5
"""Failed trials of a row that are shown."""
_KILLS_AT_ONCE: Final = 4
_WIDTHS: Final = (26, 24, 7, 11, 6, 14)

CLIENTS: Final[tuple[tuple[str, Client, bool], ...]] = (
    ("reads", "fast", False),
    ("is slow", "slow", False),
    ("leaves", "gone", False),
    ("leaves, read to the end", "gone", True),
)


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    what: frozenset[str]
    trials: int
    case: str
    seed: int


def main(arguments: Sequence[str]) -> int:
    """Run the trials; 0 if all is well, 1 if not."""
    options = _options(arguments)
    logging.disable(logging.CRITICAL)  # every trial is trouble, and its verdict says it all
    well = True
    if "endings" in options.what:
        well = asyncio.run(_endings(options)) and well
    if "kills" in options.what:
        well = asyncio.run(_kills(options)) and well
    print("\nall is well" if well else "\nNOT all is well")
    return 0 if well else 1


def _options(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(
        prog="scripts/torture",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit code: 0 if nothing was lost, forged or late, 1 if anything was.",
    )
    add = parser.add_argument
    add("what", nargs="*", metavar="endings|kills", help="[default: both]")
    add("--trials", type=int, default=200, metavar="N", help="of each case, and kills [200]")
    add("--case", default="", metavar="TEXT", help="only rows of the table with this in them")
    add("--seed", type=int, default=1000, metavar="N", help="the first one [1000]")
    given = parser.parse_args(arguments)
    what = frozenset(given.what or ("endings", "kills"))
    if not what <= {"endings", "kills"} or given.trials < 1:
        parser.error("give endings or kills or both, and at least one trial")
    return Options(what, given.trials, given.case, given.seed)


# --- endings ------------------------------------------------------------------------------------


async def _endings(options: Options) -> bool:
    _row("the upstream", "the client", "trials", "lost bytes", "wrong", "slowest notice")
    _row(*("-" * width for width in _WIDTHS))
    failed: list[Verdict] = []
    for case in CASES:
        for words, client, finishing in CLIENTS:
            if options.case not in f"{case.name}, {words}":
                continue
            verdicts = await _verdicts(case, client, options, finishing=finishing)
            bad = [it for it in verdicts if it.lost or it.wrong or it.notice > SOONEST]
            failed += bad[:_EXAMPLES]
            _row(
                case.name,
                words,
                f"{len(verdicts)}",
                f"{sum(it.lost for it in verdicts)}",
                f"{sum(bool(it.wrong) for it in verdicts)}",
                f"{max(it.notice for it in verdicts) * 1000:.0f} ms",
            )
    for it in failed:
        print(f"{it.trial.name}: {it.lost} bytes lost, {it.notice * 1000:.0f} ms; {it.wrong}")
    return not failed


async def _verdicts(
    case: Case, client: Client, options: Options, *, finishing: bool
) -> list[Verdict]:
    seeds = range(options.seed, options.seed + options.trials)
    trials = [Trial(case, client, seed, finishing) for seed in seeds]
    with tempfile.TemporaryDirectory(prefix="llm-proxy-torture-") as folder:
        async with trial_field(Path(folder), case, finishing=finishing) as it:
            await it.run(trials)
        return judge(Path(folder), it, trials)


def _row(*cells: str) -> None:
    left = f"{cells[0]:<{_WIDTHS[0]}}  {cells[1]:<{_WIDTHS[1]}}"
    right = (f"{cell:>{width}}" for cell, width in zip(cells[2:], _WIDTHS[2:], strict=True))
    print("  ".join([left, *right]), flush=True)


# --- kills --------------------------------------------------------------------------------------


async def _kills(options: Options) -> bool:
    places = asyncio.Semaphore(_KILLS_AT_ONCE)
    done = 0

    async def one(seed: int) -> KillVerdict:
        nonlocal done
        async with places:
            with tempfile.TemporaryDirectory(prefix="llm-proxy-torture-") as folder:
                verdict = await killed(Path(folder), seed)
        done += 1
        if sys.stderr.isatty():
            print(f"\rkill {done} of {options.trials}", end="", file=sys.stderr, flush=True)
        return verdict

    seeds = range(options.seed, options.seed + options.trials)
    verdicts = await asyncio.gather(*map(one, seeds))
    print(file=sys.stderr)
    failed = [it for it in verdicts if not it.well]
    print(f"\n{len(verdicts)} kills -9 while {sum(it.streams for it in verdicts)} streams ran")
    print(f"  {sum(len(it.torn) for it in verdicts)} files torn")
    print(f"  {sum(it.recovered for it in verdicts)} recordings recovered")
    lost, messages = sum(it.lost for it in verdicts), sum(it.messages for it in verdicts)
    settled = f"{SETTLED * 1000:.0f} ms"
    print(f"  {lost} messages lost, of {messages} that had been received {settled} before the kill")
    for it in failed[:_EXAMPLES]:
        print(f"kill {it.seed}: {it.lost} messages lost; {'; '.join(it.torn)}")
    return not failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
