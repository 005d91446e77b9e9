"""`stats`: prints the figures of a library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from llm_proxy import ages, display
from llm_proxy.cli.library.cassettes import checked_library_folder, other_rules_message
from llm_proxy.cli.library.filters import CassetteFilters, filter_options
from llm_proxy.cli.library.groups import duplicate_groups, group_takes
from llm_proxy.cli.library.rows import CassetteRow, read_rows
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option, normalise_option
from llm_proxy.cli.output.json_documents import cassette_error_document
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
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.shell.library.library import Library, walk_cassettes
from llm_proxy.shell.library.library_index import is_keyed_by

_GROUPINGS: tuple[tuple[str, Callable[[CassetteRow], str]], ...] = (
    ("dialect", lambda row: row.meta.dialect),
    ("model", lambda row: row.meta.model or "-"),
    ("session", lambda row: row.meta.session),
)
_MAX_SHOWN = 10
"""How many duplicates, and rows of a group, are shown."""


@dataclass(frozen=True, slots=True)
class LibraryFigures:
    """The figures of the cassettes that were selected."""

    rows: Sequence[CassetteRow]
    key_count_by_take_count: dict[int, int]
    """For each number of takes: how many pairs of session and key have it."""
    duplicates: Sequence[Sequence[CassetteRow]]
    """Groups of cassettes of one request with the same response."""
    keyed_by_other_rules_count: int
    """How many cassettes were keyed by other rules."""

    @property
    def total_file_size_bytes(self) -> int:
        """Total size of the files in bytes."""
        return sum(row.file_size_bytes for row in self.rows)

    @property
    def duplicate_size_bytes(self) -> int:
        """Bytes that deleting all but one of each group of duplicates would free."""
        return sum(row.file_size_bytes for same in self.duplicates for row in same[1:])

    @property
    def known_ages(self) -> list[timedelta]:
        """The ages of the cassettes that have one, ascending."""
        return sorted(row.age for row in self.rows if row.age is not None)


@click.command
@cassettes_option
@normalise_option
@CONFIG_OPTION
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
    library = Library(checked_library_folder(cassettes))
    all_rows, errors = read_rows(library, walk_cassettes(library.root), datetime.now(UTC))
    rows = list(filter(CassetteFilters(**chosen).matches, all_rows))
    rules = parse_rules(normalise)
    figures = LibraryFigures(
        rows,
        dict(sorted(Counter(map(len, group_takes(library, rows))).items())),
        duplicate_groups(rows),
        sum(not is_keyed_by(row.meta, rules) for row in rows),
    )
    if as_json:
        print_json(_stats_document(library, figures, errors))
    else:
        _print_figures(library, figures, errors)
    raise click.exceptions.Exit(1 if errors else 0)


def _print_figures(
    library: Library, library_figures: LibraryFigures, errors: Sequence[CassetteError]
) -> None:
    for name, name_of_row in _GROUPINGS:
        if library_figures.rows:
            _print_group(name, _totals_by_name(library_figures.rows, name_of_row))
    print_lines(_figure_lines(library_figures))
    print_lines(styled_line(StyledText(f"unreadable: {error}", "bad")) for error in errors)
    cassette_count = display.count_with_noun(len(library_figures.rows), "cassette")
    print_note(
        f"{cassette_count} in {library.root}, "
        f"{display.format_size(library_figures.total_file_size_bytes)}"
    )


def _print_group(name: str, totals: Sequence[tuple[str, int, int]]) -> None:
    columns = (
        TableColumn(name),
        TableColumn("cassettes", is_right_aligned=True),
        TableColumn("size", is_right_aligned=True),
    )
    shown = [
        (StyledText(text), StyledText(f"{n:,}"), StyledText(display.format_size(size)))
        for text, n, size in totals
    ]
    print_table(columns, shown[:_MAX_SHOWN])
    more = [f"and {len(shown) - _MAX_SHOWN} more"] if len(shown) > _MAX_SHOWN else []
    print_lines(styled_line(text) for text in (*more, ""))


def _figure_lines(library_figures: LibraryFigures) -> Iterator[Line]:
    if takes := library_figures.key_count_by_take_count:
        text = ", ".join(
            f"{count:,} with {display.count_with_noun(n, 'take')}" for n, count in takes.items()
        )
        yield styled_line(f"takes by key and session: {text}")
    if known := library_figures.known_ages:
        middle = known[len(known) // 2]
        yield styled_line(
            f"ages: {ages.format_age(known[0])} to {ages.format_age(known[-1])}, median "
            f"{ages.format_age(middle)}"
        )
    if library_figures.keyed_by_other_rules_count:
        yield styled_line(other_rules_message(library_figures.keyed_by_other_rules_count))
    if library_figures.duplicates:
        count = display.count_with_noun(
            len(library_figures.duplicates), "answer is there", "answers are there"
        )
        yield styled_line(
            f"duplicates: {count} more than once, "
            f"{display.format_size(library_figures.duplicate_size_bytes)} to "
            f"spare"
        )
    for same in library_figures.duplicates[:_MAX_SHOWN]:
        yield styled_line("  " + " = ".join(row.relative_path for row in same))
    if len(library_figures.duplicates) > _MAX_SHOWN:
        yield styled_line(
            f"  and {len(library_figures.duplicates) - _MAX_SHOWN} more: llm-proxy ls --duplicates"
        )


def _totals_by_name(
    rows: Sequence[CassetteRow], name_of_row: Callable[[CassetteRow], str]
) -> list[tuple[str, int, int]]:
    """Each group's name, number of cassettes and bytes on disk, the largest number first."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for row in rows:
        counts[name_of_row(row)] += 1
        sizes[name_of_row(row)] += row.file_size_bytes
    return [(name, count, sizes[name]) for name, count in counts.most_common()]


def _stats_document(
    library: Library, library_figures: LibraryFigures, errors: Sequence[CassetteError]
) -> dict[str, Any]:
    known = library_figures.known_ages
    return {
        "library": display.path_as_unicode_text(library.root),
        "cassettes": len(library_figures.rows),
        "file_bytes": library_figures.total_file_size_bytes,
        **{
            f"by_{name}": [
                {name: value, "cassettes": count, "file_bytes": size}
                for value, count, size in _totals_by_name(library_figures.rows, name_of_row)
            ]
            for name, name_of_row in _GROUPINGS
        },
        "takes": [
            {"takes": takes, "keys": count}
            for takes, count in library_figures.key_count_by_take_count.items()
        ],
        "age_days": None
        if not known
        else {
            "youngest": _age_days(known[0]),
            "median": _age_days(known[len(known) // 2]),
            "oldest": _age_days(known[-1]),
        },
        "keyed_by_other_rules": library_figures.keyed_by_other_rules_count,
        "duplicates": [
            [display.path_as_unicode_text(row.relative_path) for row in same]
            for same in library_figures.duplicates
        ],
        "unreadable": [cassette_error_document(error) for error in errors],
    }


def _age_days(age: timedelta) -> float:
    return round(age / timedelta(days=1), 3)
