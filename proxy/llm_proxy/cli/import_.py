"""`import`: converts recordings of other tools to cassettes, and their fixtures to scenarios."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.library import paths_with_progress
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    PATH_TYPE,
    CheckedTextType,
    IntRangeType,
    ParsedType,
    SettingOption,
    cassettes_option,
    check_session_name,
    json_option,
    normalise_option,
)
from llm_proxy.cli.output import (
    StyledText,
    TableColumn,
    print_json,
    print_lines,
    print_note,
    print_table,
)
from llm_proxy.display import count_with_noun, path_as_unicode_text
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.importing import ImportSettings, RefusedItem, aimock
from llm_proxy.importing.aimock import ConvertedFixture
from llm_proxy.importing.source import AlreadyImportedItem, ImportLoss
from llm_proxy.pacing import Pace, RecordedPace, parse_pace
from llm_proxy.routing import RoutingSettings, is_valid_name
from llm_proxy.shell.importing import (
    FileReport,
    ImportedExchange,
    Importer,
    ImportStatus,
    assign_session_names,
    find_files,
    timestamp_now,
)
from llm_proxy.shell.library.library import Library
from llm_proxy.version import __version__

_COLUMNS: Final = (
    TableColumn("file"),
    TableColumn("format"),
    TableColumn("result"),
    TableColumn("imported", is_right_aligned=True),
    TableColumn("there before", is_right_aligned=True, drop_priority=2),
    TableColumn("refused", is_right_aligned=True),
    TableColumn("lost", drop_priority=1),
)
_STATUS_STYLES: Final[Mapping[ImportStatus, str]] = {
    "imported": "good",
    "partly imported": "doubtful",
    "refused": "bad",
}
_MAX_SHOWN_REFUSALS: Final = 40
"""Lines of refusals that are shown; --json has all."""


def _check_provider_name(name: str) -> None:
    if not is_valid_name(name):
        raise UsageError(
            f"'{printable_excerpt(name, 100)}' is no provider name: use letters, digits, dot, "
            "dash and underscore, at most 100 of them"
        )


def _parse_import_pace(text: str) -> Pace:
    """The pace of responses without times.  Raises `UsageError` for a pace that needs them."""
    pace = parse_pace(text)
    if isinstance(pace, RecordedPace):
        raise UsageError(
            f"'{text}' needs recorded times: write instant, a rate such as 50tps, or a model such "
            "as profile:gpt-4o"
        )
    return pace


@click.command(name="import")
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE, metavar="FILE|FOLDER...")
@cassettes_option
@CONFIG_OPTION
@SettingOption(
    "--session", default=DEFAULT_SESSION, metavar="NAME",
    type=CheckedTextType("session", check_session_name),
    help="The session of all that is imported.",
)  # fmt: skip
@click.option("--session-per-file", is_flag=True, help="A session for each file, called like it.")
@click.option(
    "--provider", metavar="NAME", type=CheckedTextType("provider", _check_provider_name),
    help="The provider of all requests.  [default: by their host, else by their path]",
)  # fmt: skip
@click.option(
    "--pace", "times", metavar="PACE", type=ParsedType("pace", _parse_import_pace),
    help="The times of answers whose source keeps none of their pieces: 50tps, profile:gpt-4o, …; "
    "see docs/pacing.md.  [default: as the source says, else at once]",
)  # fmt: skip
@click.option("--seed", type=IntRangeType(0), default=0, help="What chance in times is made of.")
@normalise_option
@SettingOption(
    "--scenarios", type=PATH_TYPE, default=Path("scenarios"),
    help="The folder of the scenario files that fixtures of aimock become.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would become of the files; write nothing.")
@json_option
def import_(
    paths: tuple[Path, ...],
    cassettes: Path,
    *,
    session_per_file: bool,
    dry_run: bool,
    as_json: bool,
    **fields: Any,
) -> None:
    r"""Make cassettes of the recordings of other tools, and scenarios of their fixtures.

    VCR.py, VCR for Ruby and R, go-vcr, httprr, HAR, mitmproxy, reel-vcr, nock and Datadog's test
    agent are known by what their files hold, whatever these are called. Requests are redacted,
    keyed and numbered as if they had been recorded here; takes that are there stay, and what was
    imported before is not imported again. What a source does not keep, such as times, is said. A
    file or an exchange that cannot be imported, or has a body that is not understood, is named
    with the reason, and makes the exit code 1.

    Fixtures of aimock script answers, and hold no request: each file becomes a file of scenarios,
    for simulate, and what these say otherwise is told. A file that is there is never changed.

    \b
    Examples:
      llm-proxy import tests/cassettes
      llm-proxy import tests/cassettes --session-per-file --cassettes recorded
      llm-proxy import session.har flows.mitm --pace profile:gpt-4o
      llm-proxy import fixtures/chat.json --scenarios tests/scenarios
      llm-proxy import tests/cassettes --dry-run --json | jq .sum
    """
    files = find_files(paths)
    if session_per_file and fields["session"] != DEFAULT_SESSION:
        raise UsageError("--session-per-file and --session NAME: give one of them")
    library = Library(cassettes)
    library.refresh()
    names = assign_session_names(files)
    settings = ImportSettings(
        routing_settings=RoutingSettings(fields["session"], fields["normalise"]),
        importer=f"llm-proxy {__version__}",
        imported_at=timestamp_now(),
        pace=fields["times"],
        seed=fields["seed"],
        provider=fields["provider"] or "",
    )
    own_names = names if session_per_file else {}
    importer = Importer(library, settings, own_names, dry_run, fields["scenarios"], names)
    rows = list(map(_import_row, importer.import_files(paths_with_progress(files))))
    if as_json:
        print_json(_import_document(library, rows, is_dry_run=dry_run))
    else:
        _print_report(library, rows, is_dry_run=dry_run)
    has_refusals = any(row.document["refused"] or row.document["why"] for row in rows)
    raise click.exceptions.Exit(1 if has_refusals else 0)


class _ImportRow(NamedTuple):
    """The result of importing one file, without its content."""

    unit: str
    """What its counts are of: `exchange`, or `fixture` for a file that becomes scenarios."""
    document: Mapping[str, Any]
    """The result as `--json` prints it."""
    losses: Counter[ImportLoss]


def _import_row(report: FileReport) -> _ImportRow:
    unit = "fixture" if report.format == aimock.TITLE else "exchange"
    exchanges = [result for result in report.results if isinstance(result, ImportedExchange)]
    losses = report.loss_counts
    document = {
        "file": path_as_unicode_text(report.path),
        "format": report.format or None,
        "result": report.status,
        "session": report.session or None,
        "imported": len(exchanges) + report.count_results(ConvertedFixture),
        "there_before": report.count_results(AlreadyImportedItem),
        "refused": [
            {unit: result.number, "why": result.reason}
            for result in report.results
            if isinstance(result, RefusedItem)
        ],
        "why": report.why or None,
        "lost": {loss.name: count for loss, count in losses.items()},
        "cassettes": [exchange.path for exchange in exchanges if exchange.path],
        "scenarios": report.scenario_path,
    }
    return _ImportRow(unit, document, losses)


def _print_report(library: Library, rows: Sequence[_ImportRow], *, is_dry_run: bool) -> None:
    """Print a table of the files, the refusals, the losses and a summary."""
    cells: list[Sequence[str]] = []
    refusals: list[str] = []
    for unit, document, _ in rows:
        file, status, refused = document["file"], document["result"], document["refused"]
        cells.append(
            (
                file,
                document["format"] or "-",
                StyledText(status, _STATUS_STYLES[status]),
                str(document["imported"]),
                str(document["there_before"]),
                str(len(refused)),
                ", ".join(document["lost"]),
            )
        )
        refusals += [f"{file}, {unit} {item[unit]}: {item['why']}" for item in refused]
        if document["why"]:
            refusals.append(f"{file}: {document['why']}")
    if rows:
        print_table(_COLUMNS, cells)
    else:
        print_note("there is no file to import")
    print_lines(StyledText(refusal, "bad") for refusal in refusals[:_MAX_SHOWN_REFUSALS])
    if len(refusals) > _MAX_SHOWN_REFUSALS:
        print_note(f"{len(refusals) - _MAX_SHOWN_REFUSALS} more refusals: see --json")
    rows_by_unit = _rows_by_unit(rows)
    for unit, some in rows_by_unit.items():
        for loss, count in _count_losses(some).most_common():
            print_note(f"{loss.name}, of {count_with_noun(count, unit)}: {loss.effect}")
    for unit, some in rows_by_unit.items():
        print_note(_summary_line(library, unit, some, is_dry_run=is_dry_run))


def _count_losses(rows: Iterable[_ImportRow]) -> Counter[ImportLoss]:
    losses: Counter[ImportLoss] = Counter()
    for row in rows:
        losses.update(row.losses)
    return losses


def _rows_by_unit(rows: Sequence[_ImportRow]) -> dict[str, list[_ImportRow]]:
    """The rows of each unit that there is, exchanges first."""
    found: dict[str, list[_ImportRow]] = {}
    for row in sorted(rows, key=lambda row: row.unit):
        found.setdefault(row.unit, []).append(row)
    return found


def _summary_line(
    library: Library, unit: str, rows: Sequence[_ImportRow], *, is_dry_run: bool
) -> str:
    counts = _count_results(rows)
    present, refused = counts["there before"], counts["refused"]
    files = Counter(row.document["result"] for row in rows)
    places: set[Path] = {library.root}
    made = "imported into"
    if unit == "fixture":
        places = {row.document["scenarios"] for row in rows if row.document["scenarios"]}
        made = "made scenarios in"
    where = (
        path_as_unicode_text(*places) if len(places) == 1 else count_with_noun(len(places), "file")
    )
    label = f"{count_with_noun(counts['imported'], unit)} of {count_with_noun(len(rows), 'file')}"
    parts = [f"{label} {'would be ' if is_dry_run else ''}{made} {where}"]
    if present:
        parts.append(f"{present} there before")
    if refused:
        parts.append(f"{count_with_noun(refused, unit)} refused")
    parts += [
        f"{count_with_noun(files[status], 'file')} {status}"
        for status in _STATUS_STYLES
        if files[status] and status != "imported"
    ]
    return ", ".join(parts)


def _import_document(
    library: Library, rows: Sequence[_ImportRow], *, is_dry_run: bool
) -> dict[str, Any]:
    """The report as a JSON document."""
    files = Counter(row.document["result"] for row in rows)
    rows_by_unit = _rows_by_unit(rows)
    return {
        "library": library.root,
        "dry_run": is_dry_run,
        "files": [row.document for row in rows],
        "sum": {
            "files": {status: files[status] for status in _STATUS_STYLES},
            "exchanges": _count_results(rows_by_unit.get("exchange", ())),
            "fixtures": _count_results(rows_by_unit.get("fixture", ())),
            "lost": {
                loss.name: {f"{unit}s": count, "text": loss.effect}
                for unit, some in rows_by_unit.items()
                for loss, count in _count_losses(some).most_common()
            },
        },
    }


def _count_results(rows: Iterable[_ImportRow]) -> dict[str, int]:
    return {
        "imported": sum(row.document["imported"] for row in rows),
        "there before": sum(row.document["there_before"] for row in rows),
        "refused": sum(len(row.document["refused"]) for row in rows),
    }
