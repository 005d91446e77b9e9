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
from llm_proxy.cli.library.cassettes import name_within
from llm_proxy.cli.library.filters import Filters, filters
from llm_proxy.cli.library.rows import Row, read_rows
from llm_proxy.cli.option_types import Count
from llm_proxy.cli.options import CONFIG, asking_options, cassettes, normalise
from llm_proxy.cli.output.printing import Line, Span, line, print_json, print_lines, print_note
from llm_proxy.cli.output.progress import progress
from llm_proxy.cli.reissuing import asking_of, until_done
from llm_proxy.cli.show.lookup import find
from llm_proxy.display import counted
from llm_proxy.errors import UsageError
from llm_proxy.matching import KEY_RULES, Rules
from llm_proxy.matching.grammar import rules_of
from llm_proxy.shell.library.library import Library, files_below, named_take
from llm_proxy.shell.reissuing.take_group import Group

if TYPE_CHECKING:
    from llm_proxy.shell.reissuing.reissuer import Asking
    from llm_proxy.shell.reissuing.rerecording import Done


@click.command
@click.argument("names", nargs=-1, metavar="[CASSETTE...]")
@cassettes
@CONFIG
@filters
@normalise
@asking_options
@click.option("--all", "all_of_them", is_flag=True, help="Every cassette of the library.")
@click.option("--jobs", type=Count(1, 64), default=1, show_default=True, metavar="N",
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
    chosen = Filters(**{name: values.pop(name) for name in Filters.__slots__})
    if not names and not all_of_them and chosen == Filters():
        raise UsageError("rerecord needs to know which: name cassettes, filter, or give --all")
    library = Library(cassettes)
    rules = rules_of(values["normalise"])
    groups = list(_groups(library, names, chosen, rules))
    if values["dry_run"]:
        _tell_plan(library, groups, as_json=values["as_json"])
        return
    asking = asking_of(values, values["normalise"])
    done = _rerecorded(asking, library, groups, values["jobs"])
    failed = [it for it in done if it.failure]
    if values["as_json"]:
        print_json(_document(library, done))
    else:
        print_lines(_failures(failed))
        takes = sum(len(it.files) for it in done)
        rest = f"; {counted(len(failed), 'request')} failed" if failed else ""
        print_note(f"recorded again: {counted(takes, 'take')}{rest}")
    raise click.exceptions.Exit(1 if failed else 0)


def _rerecorded(asking: Asking, library: Library, groups: Sequence[Group], jobs: int) -> list[Done]:
    from llm_proxy.shell.reissuing.reissuer import check_keys  # noqa: PLC0415 # only to ask
    from llm_proxy.shell.reissuing.rerecording import rerecorded  # noqa: PLC0415 # only to ask

    check_keys(asking, {it.provider for it in groups})

    async def run() -> list[Done]:
        done: list[Done] = []
        with progress(len(groups)) as watched:
            async with aclosing(rerecorded(asking, library, groups, jobs)) as coming:
                async for it in coming:
                    done.append(it)
                    watched.ends(_Step(library, it))
        return done

    return until_done(run()) if groups else []


@dataclass(frozen=True, slots=True)
class _Step:
    """One request, for those who watch."""

    library: Library
    done: Done

    @property
    def fault(self) -> str:
        """Its first take."""
        return display.path_text(name_within(self.library, self.done.group.files[0]))

    @property
    def why(self) -> str:
        """What became of it."""
        return self.done.failure or counted(len(self.done.files), "take")

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.done.seconds


def _groups(
    library: Library, names: Sequence[str], chosen: Filters, rules: Rules
) -> Iterator[Group]:
    """What is to be asked, session by session, and in the order of the recording."""
    rows, refused = read_rows(library, files_below(library.root), datetime.now(UTC))
    for error in refused:
        print_note(f"left out: {error}")
    meant = {row.path for row in rows if chosen.admit(row)}
    if names:
        meant &= {path for name in names for path in _named(library, rows, name)}
    takes: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        takes.setdefault((row.meta.session, _key(library, row, rules)), []).append(row)
    found = [(it, each) for it, each in takes.items() if any(row.path in meant for row in each)]
    for (session, key), each in sorted(found, key=lambda it: (it[0][0], _first(it[1]))):
        files = tuple(row.path for row in sorted(each, key=lambda it: _place(library, it)))
        yield Group(session, key, each[0].meta.provider, files)


def _named(library: Library, rows: Sequence[Row], name: str) -> list[Path]:
    """The cassettes that somebody names.  Raises `UsageError` for what is none of the library."""
    if name and (found := [it.path for it in rows if _begins(it, name)]):
        return found
    path = find(library, name)
    if path.resolve() not in {it.path.resolve() for it in rows}:
        raise UsageError(f"{path} is not in {library.root}: give --cassettes the library's folder")
    return [it.path for it in rows if it.path.resolve() == path.resolve()]


def _begins(row: Row, name: str) -> bool:
    told = (row.path.name, row.name, row.meta.key)
    return any(it.startswith(name) for it in told)


def _key(library: Library, row: Row, rules: Rules) -> str:
    """The key of a cassette by the rules of this run."""
    if row.meta.key_rules == KEY_RULES and row.meta.rules == rules.spelled:
        return row.meta.key
    return matching.key(row.meta.provider, library.load(row.path).request, rules)


def _first(takes: Sequence[Row]) -> str:
    return min(it.meta.recorded for it in takes)


def _place(library: Library, row: Row) -> tuple[int, str]:
    take = named_take(library.root, row.path)
    return (take.number if take else 0), row.name


def _tell_plan(library: Library, groups: Sequence[Group], *, as_json: bool) -> None:
    files = [[name_within(library, path) for path in it.files] for it in groups]
    if as_json:
        print_json({"library": display.path_text(library.root), "would_ask": files})
        return
    print_lines(line(name) for each in files for name in each)
    print_note(f"would be asked again: {counted(sum(map(len, files)), 'take')}")


def _failures(failed: Sequence[Done]) -> Iterator[Line]:
    for it in failed:
        yield line(Span("failed: ", "bad"), display.one_line(it.failure))


def _document(library: Library, done: Sequence[Done]) -> dict[str, Any]:
    return {
        "library": display.path_text(library.root),
        "requests": [
            {
                "session": it.group.session,
                "key": it.group.key,
                "old": [display.path_text(path) for path in it.group.files],
                "new": [display.path_text(path) for path in it.files],
                "failure": it.failure or None,
                "seconds": round(it.seconds, 3),
            }
            for it in done
        ],
    }
