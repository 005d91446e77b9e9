"""`rerecord`: sends recorded requests again, and replaces their cassettes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_proxy import display, matching
from llm_proxy.cli.library.cassettes import name_in_library
from llm_proxy.cli.library.filters import CassetteFilters, filter_options
from llm_proxy.cli.library.rows import CassetteRow, read_rows
from llm_proxy.cli.option_types import IntRangeType
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    cassettes_option,
    normalise_option,
    upstream_options,
)
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    print_json,
    print_lines,
    print_note,
    styled_line,
)
from llm_proxy.cli.output.progress import progress_reporter
from llm_proxy.cli.reissuing import build_reissue_settings, run_interruptibly
from llm_proxy.cli.show.lookup import find_cassette_path
from llm_proxy.display import count_with_noun
from llm_proxy.errors import UsageError
from llm_proxy.matching import KEY_RULES_VERSION, RuleSet
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.shell.library.library import (
    Library,
    TakeGroup,
    parse_take_path,
    walk_cassettes,
)

if TYPE_CHECKING:
    from llm_proxy.shell.reissuing.reissuer import ReissueSettings, RerecordedGroup


@click.command
@click.argument("names", nargs=-1, metavar="[CASSETTE...]")
@cassettes_option
@CONFIG_OPTION
@filter_options
@normalise_option
@upstream_options
@click.option("--all", "all_of_them", is_flag=True, help="Every cassette of the library.")
@click.option("--jobs", type=IntRangeType(1, 64), default=1, show_default=True, metavar="N",
              help="Requests that are asked at once.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Tell what would be asked, and ask nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def rerecord(names: tuple[str, ...], cassettes: Path, *, all_of_them: bool, **values: Any) -> None:
    r"""Ask recorded requests again, and replace their cassettes by the new answers.

    CASSETTEs are files, or the beginning of names in the library, or of keys; filters choose
    among them, or among all. The takes of one request and session go together, and are asked in
    their order. What is old stays until every new take of it is complete; an error does not take
    the place of an answer. Keys come from the environment (OPENAI_API_KEY, ...), as with record.

    Requests are sent as they were stored: the later ones of a conversation hold the texts and ids
    that were answered then. One of which a secret was taken out cannot be asked again.

    \b
    Examples:
      llm-proxy rerecord dc8593
      llm-proxy rerecord --older-than 90d --dry-run
      llm-proxy rerecord --model gpt-4o --jobs 4
      llm-proxy rerecord --all --upstream openai=http://127.0.0.1:8000

    The exit code is 1 where a request failed, and its cassettes were kept.
    """
    filters = CassetteFilters(**{name: values.pop(name) for name in CassetteFilters.__slots__})
    if not names and not all_of_them and filters == CassetteFilters():
        raise UsageError("rerecord needs to know which: name cassettes, filter, or give --all")
    library = Library(cassettes)
    rules = parse_rules(values["normalise"])
    groups = list(_select_groups(library, names, filters, rules))
    if values["dry_run"]:
        _print_plan(library, groups, as_json=values["as_json"])
        return
    reissue_settings = build_reissue_settings(values, values["normalise"])
    rerecorded_groups = _run_rerecording(reissue_settings, library, groups, values["jobs"])
    failed = [
        rerecorded_group for rerecorded_group in rerecorded_groups if rerecorded_group.failure
    ]
    if values["as_json"]:
        print_json(_rerecord_document(library, rerecorded_groups))
    else:
        print_lines(_failure_lines(failed))
        takes = sum(len(rerecorded_group.new_paths) for rerecorded_group in rerecorded_groups)
        rest = f"; {count_with_noun(len(failed), 'request')} failed" if failed else ""
        print_note(f"recorded again: {count_with_noun(takes, 'take')}{rest}")
    raise click.exceptions.Exit(1 if failed else 0)


def _run_rerecording(
    reissue_settings: ReissueSettings, library: Library, groups: Sequence[TakeGroup], jobs: int
) -> list[RerecordedGroup]:
    from llm_proxy.shell.reissuing.reissuer import (  # noqa: PLC0415 # not for --dry-run
        check_api_keys,
        rerecord_groups,
    )

    check_api_keys(reissue_settings, {group.provider for group in groups})

    async def run() -> list[RerecordedGroup]:
        done: list[RerecordedGroup] = []
        with progress_reporter(len(groups)) as progress:
            async with aclosing(
                rerecord_groups(reissue_settings, library, groups, jobs)
            ) as rerecorded_groups:
                async for rerecorded_group in rerecorded_groups:
                    done.append(rerecorded_group)
                    group = rerecorded_group.group
                    progress.finish_step(
                        display.path_as_unicode_text(name_in_library(library, group.paths[0])),
                        rerecorded_group.failure
                        or count_with_noun(len(rerecorded_group.new_paths), "take"),
                        rerecorded_group.duration_s,
                    )
        return done

    return run_interruptibly(run()) if groups else []


def _select_groups(
    library: Library, names: Sequence[str], filters: CassetteFilters, rules: RuleSet
) -> Iterator[TakeGroup]:
    """The groups to send again, by session and in the order of their recording."""
    rows, refused = read_rows(library, walk_cassettes(library.root), datetime.now(UTC))
    for error in refused:
        print_note(f"left out: {error}")
    chosen_paths = {row.path for row in rows if filters.matches(row)}
    if names:
        chosen_paths &= {path for name in names for path in _paths_by_name(library, rows, name)}
    rows_by_group: dict[tuple[str, str], list[CassetteRow]] = {}
    for row in rows:
        rows_by_group.setdefault((row.meta.session, _current_key(library, row, rules)), []).append(
            row
        )
    found = [
        (values, each)
        for values, each in rows_by_group.items()
        if any(row.path in chosen_paths for row in each)
    ]
    for (session, key), items in sorted(
        found, key=lambda group_rows: (group_rows[0][0], _earliest_recorded_at(group_rows[1]))
    ):
        files = tuple(
            row.path for row in sorted(items, key=lambda row: _take_sort_key(library, row))
        )
        yield TakeGroup(session, key, items[0].meta.provider, files)


def _paths_by_name(library: Library, rows: Sequence[CassetteRow], name: str) -> list[Path]:
    """The files that a CASSETTE argument names.  Raises `UsageError` for none of the library."""
    if name and (found := [row.path for row in rows if _row_has_prefix(row, name)]):
        return found
    path = find_cassette_path(library, name)
    if path.resolve() not in {row.path.resolve() for row in rows}:
        raise UsageError(f"{path} is not in {library.root}: give --cassettes the library's folder")
    return [row.path for row in rows if row.path.resolve() == path.resolve()]


def _row_has_prefix(row: CassetteRow, prefix: str) -> bool:
    values = (row.path.name, row.relative_path, row.meta.key)
    return any(text.startswith(prefix) for text in values)


def _current_key(library: Library, row: CassetteRow, rules: RuleSet) -> str:
    if row.meta.key_rules_version == KEY_RULES_VERSION and row.meta.match_rules == rules.rule_texts:
        return row.meta.key
    return matching.request_key(row.meta.provider, library.load_cassette(row.path).request, rules)


def _earliest_recorded_at(takes: Sequence[CassetteRow]) -> str:
    return min(take.meta.recorded_at for take in takes)


def _take_sort_key(library: Library, row: CassetteRow) -> tuple[int, str]:
    take = parse_take_path(library.root, row.path)
    return (take.number if take else 0), row.relative_path


def _print_plan(library: Library, groups: Sequence[TakeGroup], *, as_json: bool) -> None:
    files = [[name_in_library(library, path) for path in group.paths] for group in groups]
    if as_json:
        print_json({"library": display.path_as_unicode_text(library.root), "would_ask": files})
        return
    print_lines(styled_line(name) for file in files for name in file)
    print_note(f"would be asked again: {count_with_noun(sum(map(len, files)), 'take')}")


def _failure_lines(failed: Sequence[RerecordedGroup]) -> Iterator[Line]:
    for rerecorded_group in failed:
        yield styled_line(
            StyledText("failed: ", "bad"), display.escape_line(rerecorded_group.failure)
        )


def _rerecord_document(
    library: Library, rerecorded_groups: Sequence[RerecordedGroup]
) -> dict[str, Any]:
    return {
        "library": display.path_as_unicode_text(library.root),
        "requests": [
            {
                "session": rerecorded_group.group.session,
                "key": rerecorded_group.group.key,
                "old": [
                    display.path_as_unicode_text(path) for path in rerecorded_group.group.paths
                ],
                "new": [display.path_as_unicode_text(path) for path in rerecorded_group.new_paths],
                "failure": rerecorded_group.failure or None,
                "seconds": round(rerecorded_group.duration_s, 3),
            }
            for rerecorded_group in rerecorded_groups
        ],
    }
