"""`stats`: prints the figures of a library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy.ages import format_age
from llm_proxy.cli.commands import GroupedCommand
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
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option, json_option, match_rules_option
from llm_proxy.cli.output import (
    StyledText,
    TableColumn,
    print_json,
    print_lines,
    print_note,
    print_table,
)
from llm_proxy.display import count_with_noun, folder_name, format_size, path_as_unicode_text
from llm_proxy.matching import RuleSet
from llm_proxy.matching.presets import needs_rekeying
from llm_proxy.shell.library.library import Library

_GROUPINGS: Final[tuple[tuple[str, Callable[[CassetteRow], str]], ...]] = (
    ("dialect", lambda row: row.meta.dialect),
    ("model", lambda row: row.meta.model or "-"),
    ("session", lambda row: row.meta.session),
)
_MAX_SHOWN: Final = 10
"""How many duplicates, and rows of a group, are shown."""


@click.command(cls=GroupedCommand)
@cassettes_option
@match_rules_option
@CONFIG_OPTION
@filter_options
@json_option
def stats(cassettes: Path, normalise: RuleSet, *, as_json: bool, **chosen: Any) -> None:
    r"""Show statistics of a library: counts, sizes, ages, takes and duplicates.

    Duplicates are cassettes with the same request and an identical response. Duplicates can be in
    different sessions. Responses with different generated ids are not identical.

    \b
    Examples:
      llm-proxy stats
      llm-proxy stats --model gpt-5 --older-than 90d
      llm-proxy stats --json | jq .duplicates
    """
    library = Library(checked_library_folder(cassettes))
    all_rows, errors = read_rows(library)
    rows = list(filter(CassetteFilters(**chosen).matches, all_rows))
    totals = {name: _totals_by_name(rows, name_of_row) for name, name_of_row in _GROUPINGS}
    key_count_by_take_count = dict(sorted(Counter(map(len, group_takes(library, rows))).items()))
    known_ages = sorted(row.age for row in rows if row.age is not None)
    duplicates = duplicate_groups(rows)
    other_rules_count = sum(needs_rekeying(row.meta, normalise) for row in rows)
    size_bytes = total_file_size_bytes(rows)
    if as_json:
        document = {
            "library": library.root,
            "cassettes": len(rows),
            "file_bytes": size_bytes,
            **{
                f"by_{name}": [
                    {name: value, "cassettes": count, "file_bytes": size}
                    for value, count, size in groups
                ]
                for name, groups in totals.items()
            },
            "takes": [
                {"takes": takes, "keys": count} for takes, count in key_count_by_take_count.items()
            ],
            "age_days": {
                "youngest": age_in_days(known_ages[0]),
                "median": age_in_days(known_ages[len(known_ages) // 2]),
                "oldest": age_in_days(known_ages[-1]),
            }
            if known_ages
            else None,
            "keyed_by_other_rules": other_rules_count,
            "duplicates": [
                [path_as_unicode_text(row.relative_path) for row in same] for same in duplicates
            ],
            "unreadable": [cassette_error_document(error) for error in errors],
        }
        print_json(document)
    else:
        if rows:
            for name, groups in totals.items():
                _print_group(name, groups)
            counts = (
                f"{count_with_noun(count, 'key')} with {count_with_noun(takes, 'take')}"
                for takes, count in key_count_by_take_count.items()
            )
            print_lines([f"takes: {', '.join(counts)}"])
        if known_ages:
            median = format_age(known_ages[len(known_ages) // 2])
            youngest, oldest = format_age(known_ages[0]), format_age(known_ages[-1])
            print_lines([f"ages: {youngest} to {oldest}, median {median}"])
        if other_rules_count:
            print_lines([other_rules_message(other_rules_count)])
        print_lines(_duplicate_lines(duplicates))
        print_lines(StyledText(f"unreadable: {error}", "bad") for error in errors)
        count = count_with_noun(len(rows), "cassette")
        print_note(f"{count} in {folder_name(library.root)}, {format_size(size_bytes)}")
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
        print_lines([f"and {len(totals) - _MAX_SHOWN:,} more"])
    print_lines([""])


def _duplicate_lines(duplicates: Sequence[Sequence[CassetteRow]]) -> Iterator[str]:
    if duplicates:
        count = count_with_noun(len(duplicates), "response")
        redundant = format_size(sum(total_file_size_bytes(same[1:]) for same in duplicates))
        yield f"duplicates: {count} stored more than once; the copies use {redundant}"
    for same in duplicates[:_MAX_SHOWN]:
        yield "  " + " = ".join(row.relative_path for row in same)
    if len(duplicates) > _MAX_SHOWN:
        more = len(duplicates) - _MAX_SHOWN
        yield f"  and {more:,} more; run llm-proxy ls --duplicates to list all of them"
