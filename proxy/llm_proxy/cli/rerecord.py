"""`rerecord`: cassettes asked again, and replaced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_proxy import display, matching
from llm_proxy.cli.library.cassettes import name_in_library
from llm_proxy.cli.library.filters import CassetteFilters, filter_options
from llm_proxy.cli.library.rows import CassetteRow, read_rows
from llm_proxy.cli.option_types import CountType
from llm_proxy.cli.options import CONFIG, asking_options, cassettes, normalise
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    print_json,
    print_lines,
    print_note,
    styled_line,
)
from llm_proxy.cli.output.progress import progress_reporter
from llm_proxy.cli.reissuing import reissue_settings_of, run_until_done
from llm_proxy.cli.show.lookup import find_cassette
from llm_proxy.display import count_noun
from llm_proxy.errors import UsageError
from llm_proxy.matching import KEY_RULES, RuleSet
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.shell.library.library import Library, cassette_files, take_of_name
from llm_proxy.shell.reissuing.take_group import TakeGroup

if TYPE_CHECKING:
    from llm_proxy.shell.reissuing.reissuer import ReissueSettings
    from llm_proxy.shell.reissuing.rerecording import RerecordedGroup


@click.command
@click.argument("names", nargs=-1, metavar="[CASSETTE...]")
@cassettes
@CONFIG
@filter_options
@normalise
@asking_options
@click.option("--all", "all_of_them", is_flag=True, help="Every cassette of the library.")
@click.option("--jobs", type=CountType(1, 64), default=1, show_default=True, metavar="N",
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
    chosen = CassetteFilters(**{name: values.pop(name) for name in CassetteFilters.__slots__})
    if not names and not all_of_them and chosen == CassetteFilters():
        raise UsageError("rerecord needs to know which: name cassettes, filter, or give --all")
    library = Library(cassettes)
    rules = parse_rules(values["normalise"])
    groups = list(_select_groups(library, names, chosen, rules))
    if values["dry_run"]:
        _print_plan(library, groups, as_json=values["as_json"])
        return
    asking = reissue_settings_of(values, values["normalise"])
    done = _run_rerecording(asking, library, groups, values["jobs"])
    failed = [rerecorded_group for rerecorded_group in done if rerecorded_group.failure]
    if values["as_json"]:
        print_json(_rerecord_document(library, done))
    else:
        print_lines(_failure_lines(failed))
        takes = sum(len(rerecorded_group.files) for rerecorded_group in done)
        rest = f"; {count_noun(len(failed), 'request')} failed" if failed else ""
        print_note(f"recorded again: {count_noun(takes, 'take')}{rest}")
    raise click.exceptions.Exit(1 if failed else 0)


def _run_rerecording(
    asking: ReissueSettings, library: Library, groups: Sequence[TakeGroup], jobs: int
) -> list[RerecordedGroup]:
    from llm_proxy.shell.reissuing.reissuer import check_api_keys  # noqa: PLC0415 # only to ask
    from llm_proxy.shell.reissuing.rerecording import rerecord  # noqa: PLC0415 # only to ask

    check_api_keys(asking, {group.provider for group in groups})

    async def run() -> list[RerecordedGroup]:
        done: list[RerecordedGroup] = []
        with progress_reporter(len(groups)) as watched:
            async with aclosing(rerecord(asking, library, groups, jobs)) as coming:
                async for rerecorded_group in coming:
                    done.append(rerecorded_group)
                    watched.finish(_GroupStep(library, rerecorded_group))
        return done

    return run_until_done(run()) if groups else []


@dataclass(frozen=True, slots=True)
class _GroupStep:
    """One request, for those who watch."""

    library: Library
    done: RerecordedGroup

    @property
    def fault(self) -> str:
        """Its first take."""
        return display.escape_path(name_in_library(self.library, self.done.group.files[0]))

    @property
    def reason(self) -> str:
        """What became of it."""
        return self.done.failure or count_noun(len(self.done.files), "take")

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.done.seconds


def _select_groups(
    library: Library, names: Sequence[str], chosen: CassetteFilters, rules: RuleSet
) -> Iterator[TakeGroup]:
    """What is to be asked, session by session, and in the order of the recording."""
    rows, refused = read_rows(library, cassette_files(library.root), datetime.now(UTC))
    for error in refused:
        print_note(f"left out: {error}")
    meant = {row.path for row in rows if chosen.admits(row)}
    if names:
        meant &= {path for name in names for path in _rows_by_name(library, rows, name)}
    takes: dict[tuple[str, str], list[CassetteRow]] = {}
    for row in rows:
        takes.setdefault((row.meta.session, _row_key(library, row, rules)), []).append(row)
    found = [
        (values, each) for values, each in takes.items() if any(row.path in meant for row in each)
    ]
    for (session, key), items in sorted(found, key=lambda it: (it[0][0], _first_recorded(it[1]))):
        files = tuple(row.path for row in sorted(items, key=lambda it: _sort_key(library, it)))
        yield TakeGroup(session, key, items[0].meta.provider, files)


def _rows_by_name(library: Library, rows: Sequence[CassetteRow], name: str) -> list[Path]:
    """The cassettes that somebody names.  Raises `UsageError` for what is none of the library."""
    if name and (found := [row.path for row in rows if _name_begins_with(row, name)]):
        return found
    path = find_cassette(library, name)
    if path.resolve() not in {row.path.resolve() for row in rows}:
        raise UsageError(f"{path} is not in {library.root}: give --cassettes the library's folder")
    return [row.path for row in rows if row.path.resolve() == path.resolve()]


def _name_begins_with(row: CassetteRow, name: str) -> bool:
    values = (row.path.name, row.name, row.meta.key)
    return any(text.startswith(name) for text in values)


def _row_key(library: Library, row: CassetteRow, rules: RuleSet) -> str:
    if row.meta.key_rules == KEY_RULES and row.meta.rules == rules.serialized:
        return row.meta.key
    return matching.request_key(row.meta.provider, library.load_cassette(row.path).request, rules)


def _first_recorded(takes: Sequence[CassetteRow]) -> str:
    return min(take.meta.recorded for take in takes)


def _sort_key(library: Library, row: CassetteRow) -> tuple[int, str]:
    take = take_of_name(library.root, row.path)
    return (take.number if take else 0), row.name


def _print_plan(library: Library, groups: Sequence[TakeGroup], *, as_json: bool) -> None:
    files = [[name_in_library(library, path) for path in group.files] for group in groups]
    if as_json:
        print_json({"library": display.escape_path(library.root), "would_ask": files})
        return
    print_lines(styled_line(name) for file in files for name in file)
    print_note(f"would be asked again: {count_noun(sum(map(len, files)), 'take')}")


def _failure_lines(failed: Sequence[RerecordedGroup]) -> Iterator[Line]:
    for rerecorded_group in failed:
        yield styled_line(
            StyledText("failed: ", "bad"), display.escape_line(rerecorded_group.failure)
        )


def _rerecord_document(library: Library, done: Sequence[RerecordedGroup]) -> dict[str, Any]:
    return {
        "library": display.escape_path(library.root),
        "requests": [
            {
                "session": rerecorded_group.group.session,
                "key": rerecorded_group.group.key,
                "old": [display.escape_path(path) for path in rerecorded_group.group.files],
                "new": [display.escape_path(path) for path in rerecorded_group.files],
                "failure": rerecorded_group.failure or None,
                "seconds": round(rerecorded_group.seconds, 3),
            }
            for rerecorded_group in done
        ],
    }
