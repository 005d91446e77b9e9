"""Tables about the corpus of real streams: `python tests/corpus_tables.py [TABLE ...]`.

With LLM_PROXY_THOROUGH=1, the official clients read every row.

TABLE is `outcomes` (which streams are complete, and why others are not), `events` (which ones our
dialects ignore) or `clients` (do the official clients decode what we decode); without one, all
three.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

import corpus
import corpus_comparison
import corpus_ignored_events
import judge_runner
from corpus import Row
from corpus_comparison import row_response
from corpus_framing import with_framing
from llm_proxy import dialects
from llm_proxy.dialects import Completeness


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """The completeness of one real stream: as its recording has it, and framed as it was sent."""

    row: Row
    recorded: Completeness
    reframed: Completeness

    @property
    def column(self) -> str:
        """The name of its column in the table."""
        if self.recorded.is_complete:
            return (
                "by HTTP"
                if dialects.dialect_of_request(self.row.request) is dialects.OPAQUE
                else "complete"
            )
        return "once framed" if self.reframed.is_complete else "partial"


COLUMNS: Final = ("complete", "by HTTP", "once framed", "partial")
"""Complete by its dialect's rules; complete as HTTP, without a dialect; complete once the framing
that the recording lost is restored; not complete."""


def stream_outcomes() -> list[StreamOutcome]:
    """The outcome of every stream of the corpus."""
    return [
        StreamOutcome(row, _completeness(row), _completeness(with_framing(row)))
        for row in corpus.rows()
        if row.streaming
    ]


def _completeness(row: Row) -> Completeness:
    return dialects.dialect_of_request(row.request).completeness(row_response(row))


def outcome_table() -> Iterator[str]:
    """The counts by wire and column, then each stream that is not complete as recorded."""
    results = stream_outcomes()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in results:
        counts[outcome.row.wire][outcome.column] += 1
    yield from _markdown_table(
        ("wire", "streams", *COLUMNS),
        [
            (wire, counter.total(), *(counter[column] for column in COLUMNS))
            for wire, counter in sorted(counts.items())
        ],
    )
    yield ""
    yield from _markdown_table(
        ("wire", "id", "as kept", "as sent"),
        [
            (outcome.row.wire, outcome.row.id, outcome.recorded.reason, outcome.reframed.reason)
            for outcome in sorted(
                results, key=lambda outcome: (outcome.column, outcome.row.wire, outcome.row.id)
            )
            if not outcome.recorded.is_complete
        ],
        total=False,
    )


def event_table() -> Iterator[str]:
    """The counts of events by dialect, then each kind that is ignored."""
    seen, left_out = corpus_ignored_events.count_events()
    lost = corpus_ignored_events.reasons("lost")
    by_dialect: dict[str, Counter[str]] = defaultdict(Counter)
    for (dialect, kind), number in seen.items():
        by_dialect[dialect]["events"] += number
        if (dialect, kind) in left_out:
            by_dialect[dialect]["lost" if (dialect, kind) in lost else "empty"] += number
    columns = ("events", "empty", "lost")
    yield from _markdown_table(
        ("dialect", *columns),
        [
            (name, *(counter[column] for column in columns))
            for name, counter in sorted(by_dialect.items())
        ],
    )
    yield ""
    reasons = corpus_ignored_events.reasons("empty") | lost
    yield from _markdown_table(
        ("dialect", "kind", "events", "", "reason"),
        [
            (*key, left_out[key], "LOST" if key in lost else "", reasons.get(key, "NOT LISTED"))
            for key in sorted(left_out, key=lambda key: (key not in lost, key))
        ],
        total=False,
    )


def client_table() -> Iterator[str]:
    """The counts of equal and different rows by client, then each different row."""
    counts, differing = [], []
    for judge in corpus_comparison.JUDGES:
        if reason := judge_runner.missing_reason(judge):
            yield reason
            continue
        for reading, comparisons in asyncio.run(corpus_comparison.compare(judge)):
            differences = corpus_comparison.differing_rows(reading, comparisons)
            same_count = len(comparisons) - len(differences)
            counts.append((judge, reading.dialect, len(comparisons), same_count, len(differences)))
            differing += [(judge, *row, reason) for row, reason in sorted(differences.items())]
    yield from _markdown_table(("client", "dialect", "rows", "alike", "differ"), counts)
    yield ""
    yield from _markdown_table(("client", "wire", "id", "why"), differing, total=False)


def _markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, total: bool = True
) -> Iterator[str]:
    """The lines of a Markdown table, with a row of totals at the end."""
    rows = list(rows)
    yield _markdown_row(head)
    yield _markdown_row(
        "---:" if _is_number_column(rows, index) else "---" for index in range(len(head))
    )
    yield from map(_markdown_row, rows)
    if total:
        yield _markdown_row(
            sum(cell for cell in column if isinstance(cell, int))
            if _is_number_column(rows, index)
            else "**all**"
            for index, column in enumerate(zip(*rows, strict=True))
        )


def _print_line(line: str, stream: TextIO = sys.stdout) -> None:
    print(line, file=stream, flush=True)  # this is a program as well


def _is_number_column(rows: Sequence[Sequence[object]], index: int) -> bool:
    return bool(rows) and all(isinstance(row[index], int) for row in rows)


def _markdown_row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"


TABLES: Final = {"outcomes": outcome_table, "events": event_table, "clients": client_table}


def main(*names: str) -> int:
    """Print these tables; return the exit code."""
    if unknown_names := set(names) - TABLES.keys():
        _print_line(
            f"no table is called {', '.join(unknown_names)}: {', '.join(TABLES)}", sys.stderr
        )
        return 2
    if not corpus.available():
        _print_line(corpus.REASON, sys.stderr)
        return 1
    for name in names or TABLES:
        _print_line(f"\n## {name}\n")
        for line in TABLES[name]():
            _print_line(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
