"""`stats`: prints the figures of a library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy.ages import format_age
from llm_proxy.cli.json_documents import cassette_error_document
from llm_proxy.cli.library import (
    CassetteFilters,
    CassetteRow,
    age_in_days,
    checked_library_folder,
    duplicate_groups,
    filter_options,
    group_takes,
    other_rules_message,
    read_rows,
    total_file_size_bytes,
)
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option, json_option, normalise_option
from llm_proxy.cli.output import (
    StyledText,
    TableColumn,
    print_json,
    print_lines,
    print_note,
    print_table,
)
from llm_proxy.display import count_with_noun, format_size, path_as_unicode_text
from llm_proxy.errors import CassetteError
from llm_proxy.matching import RuleSet
from llm_proxy.shell.library.library import Library, walk_cassettes
from llm_proxy.shell.library.library_index import is_keyed_by

_GROUPINGS: Final[tuple[tuple[str, Callable[[CassetteRow], str]], ...]] = (
    ("dialect", lambda row: row.meta.dialect),
    ("model", lambda row: row.meta.model or "-"),
    ("session", lambda row: row.meta.session),
)
_MAX_SHOWN: Final = 10
"""How many duplicates, and rows of a group, are shown."""


@dataclass(frozen=True, slots=True)
class _Figures:
    """The figures of the cassettes that were selected."""

    rows: Sequence[CassetteRow]
    totals: dict[str, list[tuple[str, int, int]]]
    """For each of `_GROUPINGS`: name, number of cassettes and bytes on disk of each group, the
    largest number first."""
    key_count_by_take_count: dict[int, int]
    """For each number of takes: how many pairs of session and key have it."""
    known_ages: list[timedelta]
    """The ages of the cassettes that have one, ascending."""
    duplicates: Sequence[Sequence[CassetteRow]]
    """Groups of cassettes of one request with the same response."""
    keyed_by_other_rules_count: int
    """How many cassettes were keyed by other rules."""


@click.command
@cassettes_option
@normalise_option
@CONFIG_OPTION
@filter_options
@json_option
def stats(cassettes: Path, normalise: RuleSet, *, as_json: bool, **chosen: Any) -> None:
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
    figures = _Figures(
        rows=rows,
        totals={name: _totals_by_name(rows, name_of_row) for name, name_of_row in _GROUPINGS},
        key_count_by_take_count=dict(sorted(Counter(map(len, group_takes(library, rows))).items())),
        known_ages=sorted(row.age for row in rows if row.age is not None),
        duplicates=duplicate_groups(rows),
        keyed_by_other_rules_count=sum(not is_keyed_by(row.meta, normalise) for row in rows),
    )
    if as_json:
        print_json(_stats_document(library, figures, errors))
    else:
        for name, totals in figures.totals.items():
            if rows:
                _print_group(name, totals)
        print_lines(_figure_lines(figures))
        print_lines(StyledText(f"unreadable: {error}", "bad") for error in errors)
        size = format_size(total_file_size_bytes(rows))
        print_note(f"{count_with_noun(len(rows), 'cassette')} in {library.root}, {size}")
    raise click.exceptions.Exit(1 if errors else 0)


def _totals_by_name(
    rows: Sequence[CassetteRow], name_of_row: Callable[[CassetteRow], str]
) -> list[tuple[str, int, int]]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for row in rows:
        counts[name_of_row(row)] += 1
        sizes[name_of_row(row)] += row.file_size_bytes
    return [(name, count, sizes[name]) for name, count in counts.most_common()]


def _print_group(name: str, totals: Sequence[tuple[str, int, int]]) -> None:
    columns = (
        TableColumn(name),
        TableColumn("cassettes", is_right_aligned=True),
        TableColumn("size", is_right_aligned=True),
    )
    shown = totals[:_MAX_SHOWN]
    print_table(columns, [(text, f"{count:,}", format_size(size)) for text, count, size in shown])
    if len(totals) > _MAX_SHOWN:
        print_lines([f"and {len(totals) - _MAX_SHOWN} more"])
    print_lines([""])


def _figure_lines(figures: _Figures) -> Iterator[str]:
    if takes := figures.key_count_by_take_count:
        counts = (f"{count:,} with {count_with_noun(n, 'take')}" for n, count in takes.items())
        yield f"takes by key and session: {', '.join(counts)}"
    if known := figures.known_ages:
        median = format_age(known[len(known) // 2])
        yield f"ages: {format_age(known[0])} to {format_age(known[-1])}, median {median}"
    if figures.keyed_by_other_rules_count:
        yield other_rules_message(figures.keyed_by_other_rules_count)
    duplicates = figures.duplicates
    if duplicates:
        count = count_with_noun(len(duplicates), "answer is there", "answers are there")
        spare = format_size(sum(total_file_size_bytes(same[1:]) for same in duplicates))
        yield f"duplicates: {count} more than once, {spare} to spare"
    for same in duplicates[:_MAX_SHOWN]:
        yield "  " + " = ".join(row.relative_path for row in same)
    if len(duplicates) > _MAX_SHOWN:
        yield f"  and {len(duplicates) - _MAX_SHOWN} more: llm-proxy ls --duplicates"


def _stats_document(
    library: Library, figures: _Figures, errors: Sequence[CassetteError]
) -> dict[str, Any]:
    known = figures.known_ages
    return {
        "library": library.root,
        "cassettes": len(figures.rows),
        "file_bytes": total_file_size_bytes(figures.rows),
        **{
            f"by_{name}": [
                {name: value, "cassettes": count, "file_bytes": size}
                for value, count, size in totals
            ]
            for name, totals in figures.totals.items()
        },
        "takes": [
            {"takes": takes, "keys": count}
            for takes, count in figures.key_count_by_take_count.items()
        ],
        "age_days": None
        if not known
        else {
            "youngest": age_in_days(known[0]),
            "median": age_in_days(known[len(known) // 2]),
            "oldest": age_in_days(known[-1]),
        },
        "keyed_by_other_rules": figures.keyed_by_other_rules_count,
        "duplicates": [
            [path_as_unicode_text(row.relative_path) for row in same] for same in figures.duplicates
        ],
        "unreadable": [cassette_error_document(error) for error in errors],
    }
