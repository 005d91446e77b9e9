"""`rerecord`: sends recorded requests again, and replaces their cassettes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from llm_proxy.cli.commands import GroupedCommand
from llm_proxy.cli.interruption import run_interruptibly
from llm_proxy.cli.library import (
    CassetteFilters,
    CassetteRow,
    filter_options,
    find_cassette_path,
    name_in_library,
    read_rows,
)
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    IntRangeType,
    build_reissue_settings,
    cassettes_option,
    json_option,
    match_rules_option,
    shared_library_option,
    upstream_options,
)
from llm_proxy.cli.output import StyledText, print_json, print_lines, print_note, progress_reporter
from llm_proxy.display import count_with_noun, escape_line, path_as_unicode_text
from llm_proxy.errors import UsageError
from llm_proxy.matching import KEY_RULES_VERSION, RuleSet, request_key
from llm_proxy.shell.library.library import Library, TakeGroup, parse_take_path

if TYPE_CHECKING:
    from llm_proxy.shell.reissuing import ReissueSettings, RerecordedGroup


@click.command(cls=GroupedCommand)
@click.argument("names", nargs=-1, metavar="[CASSETTE...]")
@cassettes_option
@shared_library_option
@CONFIG_OPTION
@filter_options
@match_rules_option
@upstream_options
@click.option("--all", "all_of_them", is_flag=True, help="Re-record every cassette of the library.")
@click.option("--jobs", type=IntRangeType(1, 64), default=1, show_default=True, metavar="N",
              help="Number of concurrent requests.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List the cassettes; send no request.")
@json_option
def rerecord(names: tuple[str, ...], cassettes: Path, *, all_of_them: bool, **values: Any) -> None:
    r"""Send recorded requests again, and replace their cassettes with the new responses.

    CASSETTE is a file, or the first characters of a cassette's name or key. Filters restrict the
    command to matching cassettes. All takes of a request in a session are replaced together. If a
    new response is incomplete, or is an error with a different status, the command keeps all old
    takes of the request. API keys come from the environment (OPENAI_API_KEY, ...).

    Requests are sent exactly as recorded, so later requests of a conversation still contain the old
    responses. Requests whose secrets were redacted cannot be sent. The exit code is 1 if a request
    failed.

    \b
    Examples:
      llm-proxy rerecord dc8593
      llm-proxy rerecord --older-than 90d --dry-run
      llm-proxy rerecord --model gpt-4o --jobs 4
      llm-proxy rerecord --all --upstream openai=http://127.0.0.1:8000
    """
    filters = CassetteFilters(**{name: values.pop(name) for name in CassetteFilters.__slots__})
    if not names and not all_of_them and filters == CassetteFilters():
        raise UsageError("no cassettes selected; specify cassettes, a filter, or --all")
    library = Library(cassettes, is_shared=values["shared_library"])
    groups = list(_select_groups(library, names, filters, values["normalise"]))
    if values["dry_run"]:
        files = [[name_in_library(library, path) for path in group.paths] for group in groups]
        if values["as_json"]:
            print_json({"library": library.root, "would_rerecord": files})
            return
        print_lines(name for group_files in files for name in group_files)
        print_note(f"would re-record {count_with_noun(sum(map(len, files)), 'take')}")
        return
    results = _run_rerecording(build_reissue_settings(values), library, groups, values["jobs"])
    failed = [result for result in results if result.failure]
    if values["as_json"]:
        print_json({"library": library.root, "requests": list(map(_result_document, results))})
    else:
        print_lines(
            (StyledText("failed: ", "bad"), escape_line(result.failure)) for result in failed
        )
        takes = sum(len(result.new_paths) for result in results)
        rest = f"; {count_with_noun(len(failed), 'request')} failed" if failed else ""
        print_note(f"{count_with_noun(takes, 'take')} re-recorded{rest}")
    raise click.exceptions.Exit(1 if failed else 0)


def _run_rerecording(
    reissue_settings: ReissueSettings, library: Library, groups: Sequence[TakeGroup], jobs: int
) -> list[RerecordedGroup]:
    from llm_proxy.shell.reissuing import (  # noqa: PLC0415 # not for --dry-run
        check_api_keys,
        rerecord_groups,
    )

    check_api_keys(reissue_settings, {group.provider for group in groups})

    async def run() -> list[RerecordedGroup]:
        done: list[RerecordedGroup] = []
        with progress_reporter(len(groups)) as progress:
            async with aclosing(
                rerecord_groups(reissue_settings, library, groups, jobs)
            ) as results:
                async for result in results:
                    done.append(result)
                    progress.finish_step(
                        path_as_unicode_text(name_in_library(library, result.group.paths[0])),
                        result.failure or count_with_noun(len(result.new_paths), "take"),
                        result.duration_s,
                    )
        return done

    return run_interruptibly(run()) if groups else []


def _select_groups(
    library: Library, names: Sequence[str], filters: CassetteFilters, rules: RuleSet
) -> Iterator[TakeGroup]:
    """The groups to send again, by session and in the order of their recording."""
    rows, errors = read_rows(library)
    for error in errors:
        print_note(f"skipped {error}")
    chosen_paths = {row.path for row in rows if filters.matches(row)}
    if names:
        chosen_paths &= {path for name in names for path in _paths_by_name(library, rows, name)}
    rows_by_group: dict[tuple[str, str], list[CassetteRow]] = {}
    for row in rows:
        group = (row.meta.session, _current_key(library, row, rules))
        rows_by_group.setdefault(group, []).append(row)

    def recording_order(group: tuple[str, str]) -> tuple[str, str]:
        return group[0], min(row.meta.recorded_at for row in rows_by_group[group])

    def take_order(row: CassetteRow) -> tuple[int, str]:
        take = parse_take_path(library.root, row.path)
        return (take.number if take else 0), row.relative_path

    for session, key in sorted(rows_by_group, key=recording_order):
        takes = rows_by_group[session, key]
        if any(row.path in chosen_paths for row in takes):
            paths = tuple(row.path for row in sorted(takes, key=take_order))
            yield TakeGroup(session, key, takes[0].meta.provider, paths)


def _paths_by_name(library: Library, rows: Sequence[CassetteRow], name: str) -> list[Path]:
    """The files that a CASSETTE argument names.  Raises `UsageError` for none of the library."""
    found = [
        row.path
        for row in rows
        if any(text.startswith(name) for text in (row.path.name, row.relative_path, row.meta.key))
    ]
    if name and found:
        return found
    path = find_cassette_path(library, name)
    found = [row.path for row in rows if row.path.resolve() == path.resolve()]
    if not found:
        raise UsageError(
            f"{path} is not in the library {library.root}; set --cassettes to the library that "
            "contains the file"
        )
    return found


def _current_key(library: Library, row: CassetteRow, rules: RuleSet) -> str:
    if row.meta.key_rules_version == KEY_RULES_VERSION and row.meta.match_rules == rules.rule_texts:
        return row.meta.key
    return request_key(row.meta.provider, library.load_cassette(row.path).request, rules)


def _result_document(result: RerecordedGroup) -> dict[str, Any]:
    return {
        "session": result.group.session,
        "key": result.group.key,
        "old": result.group.paths,
        "new": result.new_paths,
        "failure": result.failure or None,
        "seconds": round(result.duration_s, 3),
    }
