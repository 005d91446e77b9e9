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
from llm_proxy.cli.library.cassettes import existing_folder, other_rules_message
from llm_proxy.cli.library.filters import CassetteFilters, filter_options
from llm_proxy.cli.library.groups import duplicate_groups, group_takes
from llm_proxy.cli.library.rows import CassetteRow, read_rows
from llm_proxy.cli.options import CONFIG, cassettes, normalise
from llm_proxy.cli.output.json_documents import refusal_document
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    print_json,
    print_lines,
    print_note,
    styled_line,
)
from llm_proxy.cli.output.tables import TableColumn, print_table
from llm_proxy.errors import CassetteError
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.shell.library.library import Library, cassette_files
from llm_proxy.shell.library.library_keys import is_keyed_by

_BY: tuple[tuple[str, Callable[[CassetteRow], str]], ...] = (
    ("dialect", lambda row: row.meta.dialect),
    ("model", lambda row: row.meta.model or "-"),
    ("session", lambda row: row.meta.session),
)
_SHOWN = 10
"""Duplicates, and names of a kind, that are shown."""


@dataclass(frozen=True, slots=True)
class LibraryFigures:
    """What a library comes to."""

    rows: Sequence[CassetteRow]
    takes: dict[int, int]
    """How many keys and sessions have so many takes."""
    duplicates: Sequence[Sequence[CassetteRow]]
    """Duplicates."""
    other_rules_count: int
    """How many were keyed by other rules."""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(row.size for row in self.rows)

    @property
    def duplicate_bytes(self) -> int:
        """Bytes of all duplicates but one of each."""
        return sum(row.size for same in self.duplicates for row in same[1:])

    @property
    def known_ages(self) -> list[timedelta]:
        """Those that are known, the youngest first."""
        return sorted(row.age for row in self.rows if row.age is not None)


@click.command
@cassettes
@normalise
@CONFIG
@filter_options
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
    library = Library(existing_folder(cassettes))
    every, refused = read_rows(library, cassette_files(library.root), datetime.now(UTC))
    rows = list(filter(CassetteFilters(**chosen).admits, every))
    rules = parse_rules(normalise)
    figures = LibraryFigures(
        rows,
        dict(sorted(Counter(map(len, group_takes(library, rows))).items())),
        duplicate_groups(rows),
        sum(not is_keyed_by(row.meta, rules) for row in rows),
    )
    if as_json:
        print_json(_stats_document(library, figures, refused))
    else:
        _print_figures(library, figures, refused)
    raise click.exceptions.Exit(1 if refused else 0)


def _print_figures(
    library: Library, library_figures: LibraryFigures, refused: Sequence[CassetteError]
) -> None:
    for name, of in _BY:
        if library_figures.rows:
            _print_group(name, _sum_by_name(library_figures.rows, of))
    print_lines(_figure_lines(library_figures))
    print_lines(styled_line(StyledText(f"unreadable: {error}", "bad")) for error in refused)
    found = display.count_noun(len(library_figures.rows), "cassette")
    print_note(f"{found} in {library.root}, {display.format_size(library_figures.size)}")


def _print_group(name: str, counted: Sequence[tuple[str, int, int]]) -> None:
    heads = (
        TableColumn(name),
        TableColumn("cassettes", right=True),
        TableColumn("size", right=True),
    )
    shown = [
        (StyledText(text), StyledText(f"{n:,}"), StyledText(display.format_size(size)))
        for text, n, size in counted
    ]
    print_table(heads, shown[:_SHOWN])
    more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    print_lines(styled_line(text) for text in (*more, ""))


def _figure_lines(library_figures: LibraryFigures) -> Iterator[Line]:
    if takes := library_figures.takes:
        text = ", ".join(
            f"{count:,} with {display.count_noun(n, 'take')}" for n, count in takes.items()
        )
        yield styled_line(f"takes by key and session: {text}")
    if known := library_figures.known_ages:
        middle = known[len(known) // 2]
        yield styled_line(
            f"ages: {ages.format_days(known[0])} to {ages.format_days(known[-1])}, median "
            f"{ages.format_days(middle)}"
        )
    if library_figures.other_rules_count:
        yield styled_line(other_rules_message(library_figures.other_rules_count))
    if library_figures.duplicates:
        count = display.count_noun(
            len(library_figures.duplicates), "answer is there", "answers are there"
        )
        yield styled_line(
            f"duplicates: {count} more than once, "
            f"{display.format_size(library_figures.duplicate_bytes)} to "
            f"spare"
        )
    for same in library_figures.duplicates[:_SHOWN]:
        yield styled_line("  " + " = ".join(row.name for row in same))
    if len(library_figures.duplicates) > _SHOWN:
        yield styled_line(
            f"  and {len(library_figures.duplicates) - _SHOWN} more: llm-proxy ls --duplicates"
        )


def _sum_by_name(
    rows: Sequence[CassetteRow], of: Callable[[CassetteRow], str]
) -> list[tuple[str, int, int]]:
    """Each name with its cassettes and their bytes, the most first."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for row in rows:
        counts[of(row)] += 1
        sizes[of(row)] += row.size
    return [(name, count, sizes[name]) for name, count in counts.most_common()]


def _stats_document(
    library: Library, library_figures: LibraryFigures, refused: Sequence[CassetteError]
) -> dict[str, Any]:
    known = library_figures.known_ages
    return {
        "library": display.escape_path(library.root),
        "cassettes": len(library_figures.rows),
        "file_bytes": library_figures.size,
        **{
            f"by_{name}": [
                {name: value, "cassettes": count, "file_bytes": size}
                for value, count, size in _sum_by_name(library_figures.rows, of)
            ]
            for name, of in _BY
        },
        "takes": [
            {"takes": takes, "keys": count} for takes, count in library_figures.takes.items()
        ],
        "age_days": None
        if not known
        else {
            "youngest": _age_days(known[0]),
            "median": _age_days(known[len(known) // 2]),
            "oldest": _age_days(known[-1]),
        },
        "keyed_by_other_rules": library_figures.other_rules_count,
        "duplicates": [
            [display.escape_path(row.name) for row in same] for same in library_figures.duplicates
        ],
        "unreadable": [refusal_document(error) for error in refused],
    }


def _age_days(age: timedelta) -> float:
    return round(age / timedelta(days=1), 3)
