"""`stats`: a library in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from llm_proxy import ages, display
from llm_proxy.cli.library.cassettes import other_rules, there
from llm_proxy.cli.library.filters import Filters, filters
from llm_proxy.cli.library.groups import duplicates, takes_together
from llm_proxy.cli.library.rows import Row, read_rows
from llm_proxy.cli.options import CONFIG, cassettes, normalise
from llm_proxy.cli.output.json_documents import refusal_document
from llm_proxy.cli.output.printing import Line, Span, line, print_json, print_lines, print_note
from llm_proxy.cli.output.tables import Column, print_table
from llm_proxy.errors import CassetteError
from llm_proxy.matching.grammar import rules_of
from llm_proxy.shell.library.library import Library, files_below
from llm_proxy.shell.library.library_keys import is_keyed_by

_BY: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("dialect", lambda row: row.meta.dialect),
    ("model", lambda row: row.meta.model or "-"),
    ("session", lambda row: row.meta.session),
)
_SHOWN = 10
"""Duplicates, and names of a kind, that are shown."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a library comes to."""

    rows: Sequence[Row]
    takes: dict[int, int]
    """How many keys and sessions have so many takes."""
    same: Sequence[Sequence[Row]]
    """Duplicates."""
    others: int
    """How many were keyed by other rules."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(row.size for row in self.rows)

    @property
    def spare(self) -> int:
        """Bytes of all duplicates but one of each."""
        return sum(row.size for same in self.same for row in same[1:])

    @property
    def ages(self) -> list[timedelta]:
        """Those that are known, the youngest first."""
        return sorted(row.age for row in self.rows if row.age is not None)


@click.command
@cassettes
@normalise
@CONFIG
@filters
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def stats(cassettes: Path, normalise: tuple[str, ...], *, as_json: bool, **chosen: Any) -> None:
    r"""Tell a library in figures: counts, sizes, ages, takes and duplicates.

    Duplicates are cassettes of the same request with byte for byte the same answer: takes of
    one session, or of several. Ids that a provider makes anew differ from take to take.

    \b
    Examples:
      llm-proxy stats
      llm-proxy stats --model gpt-5 --older-than 90d
      llm-proxy stats --json | jq .duplicates
    """
    library = Library(there(cassettes))
    every, refused = read_rows(library, files_below(library.root), datetime.now(UTC))
    rows = list(filter(Filters(**chosen).admit, every))
    rules = rules_of(normalise)
    figures = Figures(
        rows,
        dict(sorted(Counter(map(len, takes_together(library, rows))).items())),
        duplicates(rows),
        sum(not is_keyed_by(row.meta, rules) for row in rows),
    )
    if as_json:
        print_json(_document(library, figures, refused))
    else:
        _print(library, figures, refused)
    raise click.exceptions.Exit(1 if refused else 0)


def _print(library: Library, it: Figures, refused: Sequence[CassetteError]) -> None:
    for name, of in _BY:
        if it.rows:
            _print_kind(name, _counted(it.rows, of))
    print_lines(_lines(it))
    print_lines(line(Span(f"unreadable: {error}", "bad")) for error in refused)
    found = display.counted(len(it.rows), "cassette")
    print_note(f"{found} in {library.root}, {display.size(it.size)}")


def _print_kind(name: str, counted: Sequence[tuple[str, int, int]]) -> None:
    heads = (Column(name), Column("cassettes", right=True), Column("size", right=True))
    shown = [(Span(it), Span(f"{n:,}"), Span(display.size(size))) for it, n, size in counted]
    print_table(heads, shown[:_SHOWN])
    more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    print_lines(line(it) for it in (*more, ""))


def _lines(it: Figures) -> Iterator[Line]:
    if takes := it.takes:
        said = ", ".join(
            f"{count:,} with {display.counted(n, 'take')}" for n, count in takes.items()
        )
        yield line(f"takes by key and session: {said}")
    if known := it.ages:
        middle = known[len(known) // 2]
        yield line(
            f"ages: {ages.days(known[0])} to {ages.days(known[-1])}, median {ages.days(middle)}"
        )
    if it.others:
        yield line(other_rules(it.others))
    if it.same:
        count = display.counted(len(it.same), "answer is there", "answers are there")
        yield line(f"duplicates: {count} more than once, {display.size(it.spare)} to spare")
    for same in it.same[:_SHOWN]:
        yield line("  " + " = ".join(row.name for row in same))
    if len(it.same) > _SHOWN:
        yield line(f"  and {len(it.same) - _SHOWN} more: llm-proxy ls --duplicates")


def _counted(rows: Sequence[Row], of: Callable[[Row], str]) -> list[tuple[str, int, int]]:
    """Each name with its cassettes and their bytes, the most first."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for row in rows:
        counts[of(row)] += 1
        sizes[of(row)] += row.size
    return [(name, count, sizes[name]) for name, count in counts.most_common()]


def _document(library: Library, it: Figures, refused: Sequence[CassetteError]) -> dict[str, Any]:
    known = it.ages
    return {
        "library": display.path_text(library.root),
        "cassettes": len(it.rows),
        "file_bytes": it.size,
        **{
            f"by_{name}": [
                {name: value, "cassettes": count, "file_bytes": size}
                for value, count, size in _counted(it.rows, of)
            ]
            for name, of in _BY
        },
        "takes": [{"takes": takes, "keys": count} for takes, count in it.takes.items()],
        "age_days": None
        if not known
        else {
            "youngest": _days(known[0]),
            "median": _days(known[len(known) // 2]),
            "oldest": _days(known[-1]),
        },
        "keyed_by_other_rules": it.others,
        "duplicates": [[display.path_text(row.name) for row in same] for same in it.same],
        "unreadable": [refusal_document(error) for error in refused],
    }


def _days(age: timedelta) -> float:
    return round(age / timedelta(days=1), 3)
