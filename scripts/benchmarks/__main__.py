"""Measures llm-proxy against what it could be at best: ratios of one run, on one machine.

record      how much later the first byte and every later one is through `llm-proxy record`
            than through a bare aiohttp pass-through, with the direct way beside it
replay      how far a replay is off the recorded times, and how many it serves in a second
pace        how much later than from a bare loop pieces come at a pace, whether a long stream drifts
simulate    how many scripted answers it serves in a second
library     how soon a library of 100,000 cassettes is open, and what a hit in it costs
miss        how long a miss among 10,000 cassettes takes
computing   CPU of `llm-proxy --help`; speed of cutting, writing and loading
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import cpu
import large_library
import misses
import record_latency
import replay_speed
import result_table
import simulate_speed
from result_table import Row

import pacing_helpers

GROUPS = ("record", "replay", "pace", "simulate", "library", "miss", "computing")


def main() -> int:
    """Measure, print, and judge if asked to."""
    arguments = _arguments()
    rows: list[Row] = []
    for row in _measure(arguments.group or GROUPS, arguments.cassettes, quick=arguments.quick):
        rows.append(row)
        print(f"measured: {row.group}: {row.name}", file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps({"rows": [row.as_json() for row in rows]}, indent=1))
    else:
        print(result_table.text(rows))
    return 1 if arguments.check and any(row.ok is False for row in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("group", nargs="*", help=f"measure these alone: {', '.join(GROUPS)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, rougher figures")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument(
        "--cassettes", metavar="DIR", type=Path, default=pacing_helpers.SHIPPED,
        help="the library whose streams are paced; the shipped one if left out",
    )  # fmt: skip
    arguments = parser.parse_args()
    if unknown := set(arguments.group) - set(GROUPS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    return arguments


def _measure(groups: Sequence[str], library: Path, *, quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="llm-proxy-bench-") as temporary:
        for group in groups:
            folder = Path(temporary) / group
            folder.mkdir()
            match group:
                case "record":
                    yield from record_latency.rows(folder, quick=quick)
                case "replay":
                    yield from replay_speed.rows(folder, quick=quick)
                case "pace":
                    yield from pacing_helpers.rows(folder, library, quick=quick)
                case "simulate":
                    yield from simulate_speed.rows(folder, quick=quick)
                case "library":
                    yield from large_library.rows(folder, quick=quick)
                case "miss":
                    yield from misses.rows(folder, quick=quick)
                case _:
                    yield from cpu.rows(quick=quick)


if __name__ == "__main__":
    sys.exit(main())
