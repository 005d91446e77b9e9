"""Measures llm-proxy against what it could be at best: ratios of one run, on one machine.

record      how much later the first byte and every later one is through `llm-proxy record`
            than through a bare aiohttp pass-through, with the direct way beside it
replay      how far a replay is off the recorded times, and how many it serves in a second
pace        how much later than from a bare loop pieces come at a pace, whether a long stream drifts
simulate    how many scripted answers it serves in a second
library     how soon a library of 100,000 cassettes is open, and what a hit in it costs
miss        how long a miss among 10,000 cassettes takes
chat        what llm_chat costs: CPU for a response, many conversations at once
test        how long LLMProxy takes to start, what a session adds to a test, and how long a
            replayed LLM test takes
computing   CPU of `llm-proxy --help`; speed of cutting, writing and loading
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import conversations
import cpu
import large_library
import llm_tests
import misses
import pace_accuracy
import record_latency
import replay_speed
import result_table
import sessions
import simulate_speed
from result_table import Row

GROUPS = ("record", "replay", "pace", "simulate", "library", "miss", "chat", "test", "computing")


def main() -> int:
    """Measure, print, and check the targets if requested; returns the exit code."""
    arguments = _parse_arguments()
    rows: list[Row] = []
    for row in _measure_groups(
        arguments.group or GROUPS, arguments.cassettes, is_quick=arguments.quick
    ):
        rows.append(row)
        print(f"measured: {row.group}: {row.name}", file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps({"rows": [row.as_json() for row in rows]}, indent=1))
    else:
        print(result_table.format_table(rows))
    return 1 if arguments.check and any(row.is_ok is False for row in rows) else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("group", nargs="*", help=f"measure these alone: {', '.join(GROUPS)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, rougher figures")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument(
        "--cassettes", metavar="DIR", type=Path, default=pace_accuracy.SHIPPED_LIBRARY,
        help="the library whose streams are paced; the shipped one if left out",
    )  # fmt: skip
    arguments = parser.parse_args()
    if unknown_groups := set(arguments.group) - set(GROUPS):
        parser.error(
            f"there is no {', '.join(sorted(unknown_groups))}; there are {', '.join(GROUPS)}"
        )
    return arguments


def _measure_tests(folder: Path, *, is_quick: bool) -> Iterator[Row]:
    yield from sessions.measure(folder, is_quick=is_quick)
    yield from llm_tests.measure(folder, is_quick=is_quick)


def _measure_groups(groups: Sequence[str], library: Path, *, is_quick: bool) -> Iterator[Row]:
    measures = {
        "record": record_latency.measure,
        "replay": replay_speed.measure,
        "pace": partial(pace_accuracy.measure, library=library),
        "simulate": simulate_speed.measure,
        "library": large_library.measure,
        "miss": misses.measure,
        "chat": conversations.measure,
        "test": _measure_tests,
        "computing": cpu.measure,
    }
    with tempfile.TemporaryDirectory(prefix="llm-proxy-bench-") as temporary:
        for group in groups:
            folder = Path(temporary) / group
            folder.mkdir()
            yield from measures[group](folder, is_quick=is_quick)


if __name__ == "__main__":
    sys.exit(main())
