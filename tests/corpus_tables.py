"""What the corpus of real streams shows, as tables: `python tests/corpus_tables.py [TABLE ...]`.

TABLE is `outcomes` (are the streams complete, and why not), `events` (which ones do our dialects
leave out) or `clients` (do the official clients read what we read); without one, all three.
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
from corpus_comparison import response
from corpus_framing import as_sent
from llm_proxy import dialects
from llm_proxy.dialects import Completeness


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one real stream is judged: as its recording kept it, and as it was sent."""

    row: Row
    kept: Completeness
    sent: Completeness

    @property
    def words(self) -> str:
        """The verdict as a table's column."""
        if self.kept.is_complete:
            return (
                "by HTTP"
                if dialects.find_dialect(self.row.request) is dialects.OPAQUE
                else "complete"
            )
        return "once framed" if self.sent.is_complete else "partial"


COLUMNS: Final = ("complete", "by HTTP", "once framed", "partial")
"""Complete by its dialect's proof; complete HTTP of no dialect; complete once the framing is put
back that the recording lost; not complete."""


def verdicts() -> list[Verdict]:
    """Of every stream of the corpus."""
    return [
        Verdict(row, _judged(row), _judged(as_sent(row))) for row in corpus.rows() if row.streaming
    ]


def _judged(row: Row) -> Completeness:
    return dialects.find_dialect(row.request).completeness(response(row))


def outcomes() -> Iterator[str]:
    """Wire by verdict, then each stream that is not complete as it was kept."""
    found = verdicts()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for it in found:
        counts[it.row.wire][it.words] += 1
    yield from _table(
        ("wire", "streams", *COLUMNS),
        [
            (wire, n.total(), *(n[column] for column in COLUMNS))
            for wire, n in sorted(counts.items())
        ],
    )
    yield ""
    yield from _table(
        ("wire", "id", "as kept", "as sent"),
        [
            (it.row.wire, it.row.id, it.kept.reason, it.sent.reason)
            for it in sorted(found, key=lambda it: (it.words, it.row.wire, it.row.id))
            if not it.kept.is_complete
        ],
        total=False,
    )


def events() -> Iterator[str]:
    """Events by dialect, then each kind that is left out."""
    seen, left_out = corpus_ignored_events.count()
    lost = corpus_ignored_events.reasons("lost")
    by_dialect: dict[str, Counter[str]] = defaultdict(Counter)
    for (dialect, kind), number in seen.items():
        by_dialect[dialect]["events"] += number
        if (dialect, kind) in left_out:
            by_dialect[dialect]["lost" if (dialect, kind) in lost else "empty"] += number
    columns = ("events", "empty", "lost")
    yield from _table(
        ("dialect", *columns),
        [(name, *(n[column] for column in columns)) for name, n in sorted(by_dialect.items())],
    )
    yield ""
    why = corpus_ignored_events.reasons("empty") | lost
    yield from _table(
        ("dialect", "kind", "events", "", "reason"),
        [
            (*it, left_out[it], "LOST" if it in lost else "", why.get(it, "NOT LISTED"))
            for it in sorted(left_out, key=lambda it: (it not in lost, it))
        ],
        total=False,
    )


def clients() -> Iterator[str]:
    """Client by rows read alike, then each row that is not."""
    counts, unlike = [], []
    for reading in corpus_comparison.READINGS:
        if why := judge_runner.missing(reading.judge):
            yield why
            continue
        compared = asyncio.run(corpus_comparison.compare(reading))
        apart = corpus_comparison.apart(reading, compared)
        alike = len(compared) - len(apart)
        counts.append((reading.judge, reading.dialect, len(compared), alike, len(apart)))
        unlike += [(reading.judge, *row, why) for row, why in sorted(apart.items())]
    yield from _table(("client", "dialect", "rows", "alike", "differ"), counts)
    yield ""
    yield from _table(("client", "wire", "id", "why"), unlike, total=False)


def _table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, total: bool = True
) -> Iterator[str]:
    """The lines of a table of Markdown, its numbers added up at the end."""
    rows = list(rows)
    yield _line(head)
    yield _line("---:" if _is_number(rows, at) else "---" for at in range(len(head)))
    yield from map(_line, rows)
    if total:
        yield _line(
            sum(item for item in column if isinstance(item, int))
            if _is_number(rows, at)
            else "**all**"
            for at, column in enumerate(zip(*rows, strict=True))
        )


def _show(line: str, to: TextIO = sys.stdout) -> None:
    print(line, file=to, flush=True)  # this is a program as well


def _is_number(rows: Sequence[Sequence[object]], at: int) -> bool:
    return bool(rows) and all(isinstance(row[at], int) for row in rows)


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"


TABLES: Final = {"outcomes": outcomes, "events": events, "clients": clients}


def main(*names: str) -> int:
    """Print these tables; the exit code."""
    if strangers := set(names) - TABLES.keys():
        _show(f"no table is called {', '.join(strangers)}: {', '.join(TABLES)}", sys.stderr)
        return 2
    if not corpus.available():
        _show(corpus.REASON, sys.stderr)
        return 1
    for name in names or TABLES:
        _show(f"\n## {name}\n")
        for line in TABLES[name]():
            _show(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
