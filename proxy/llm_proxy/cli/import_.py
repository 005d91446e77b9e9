"""`import`: converts recordings of other tools to cassettes, and their fixtures to scenarios."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.commands import GroupedCommand
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
    match_rules_option,
    shared_library_option,
)
from llm_proxy.cli.output import (
    StyledText,
    TableColumn,
    print_json,
    print_lines,
    print_note,
    print_table,
)
from llm_proxy.display import count_with_noun, folder_name, path_as_unicode_text
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.importing import ImportSettings, RefusedItem, aimock
from llm_proxy.importing.aimock import ConvertedFixture
from llm_proxy.importing.source import AlreadyImportedItem, ImportLoss
from llm_proxy.pacing import Pace, RecordedPace, parse_pace
from llm_proxy.redaction import environment_secret_spellings
from llm_proxy.routing import RoutingSettings, is_valid_name
from llm_proxy.shell.importing import (
    FileReport,
    ImportedExchange,
    Importer,
    ImportStatus,
    assign_session_names,
    find_files,
)
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording.cassette_filer import timestamp_now
from llm_proxy.version import __version__

_COLUMNS: Final = (
    TableColumn("file"),
    TableColumn("format"),
    TableColumn("result"),
    TableColumn("imported", is_right_aligned=True),
    TableColumn("already imported", is_right_aligned=True, drop_priority=2),
    TableColumn("refused", is_right_aligned=True),
    TableColumn("not preserved", drop_priority=1),
)
_STATUS_STYLES: Final[Mapping[ImportStatus, str]] = {
    "imported": "good",
    "partly imported": "doubtful",
    "refused": "bad",
}
_UNITS: Final = ("exchange", "fixture")
_MAX_SHOWN_REFUSALS: Final = 40
"""Lines of refusals that are shown; --json has all."""

_FileDocument = Mapping[str, Any]


def _check_provider_name(name: str) -> None:
    if not is_valid_name(name):
        raise UsageError(
            f"'{printable_excerpt(name, 100)}' is not a valid provider name; use letters, digits, "
            "'.', '-' and '_', at most 100 characters"
        )


def _parse_import_pace(text: str) -> Pace:
    """The pace of responses without times.  Raises `UsageError` for a pace that needs them."""
    pace = parse_pace(text)
    if isinstance(pace, RecordedPace):
        raise UsageError(
            f"'{text}' needs recorded times; for an import, use instant, a rate such as 50tps, or "
            "a model such as profile:gpt-4o"
        )
    return pace


@click.command(name="import", cls=GroupedCommand)
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE, metavar="FILE|FOLDER...")
@cassettes_option
@shared_library_option
@CONFIG_OPTION
@SettingOption(
    "--session", default=DEFAULT_SESSION, metavar="NAME",
    type=CheckedTextType("session", check_session_name),
    help="Session of all imported exchanges.",
)  # fmt: skip
@click.option(
    "--session-per-file", is_flag=True, help="Import each file into a session named after the file."
)
@click.option(
    "--provider", metavar="NAME", type=CheckedTextType("provider", _check_provider_name),
    help="Provider of all imported requests.  [default: detected from the host or path]",
)  # fmt: skip
@click.option(
    "--pace", "times", metavar="PACE", type=ParsedType("pace", _parse_import_pace),
    help="Pace of responses without recorded read times: 50tps, profile:gpt-4o, …  "
    "[default: the recorded times, or instant]",
)  # fmt: skip
@click.option("--seed", type=IntRangeType(0), default=0, help="Seed for random read times.")
@match_rules_option
@SettingOption(
    "--scenarios", type=PATH_TYPE, default=Path("scenarios"),
    help="Folder for the scenario files made from aimock fixtures.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Report what would be imported; write nothing.")
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
    r"""Convert recordings from other tools to cassettes, and aimock fixtures to scenarios.

    Formats: VCR.py, VCR for Ruby and R, go-vcr, httprr, HAR, mitmproxy, reel-vcr, nock and the
    Datadog test agent. The format of a file is detected from its content. Redaction and matching
    rules apply as in record mode. Existing cassettes are never changed. Exchanges that were already
    imported are skipped.

    Each file of aimock fixtures is converted to a scenario file for llm-proxy simulate. Existing
    scenario files are never changed.

    The exit code is 1 if a file, an exchange or a fixture cannot be imported. The output lists
    each failure with its reason. The output also lists data that could not be preserved, such as
    times.

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
        raise UsageError("set either --session-per-file or --session NAME, not both")
    library = Library(cassettes, is_shared=fields["shared_library"])
    library.refresh()
    names = assign_session_names(files)
    settings = ImportSettings(
        routing_settings=RoutingSettings(
            fields["session"], fields["normalise"], environment_secret_spellings(os.environ)
        ),
        importer=f"llm-proxy {__version__}",
        imported_at=timestamp_now(),
        pace=fields["times"],
        seed=fields["seed"],
        provider=fields["provider"] or "",
    )
    own_names = names if session_per_file else {}
    importer = Importer(library, settings, own_names, dry_run, fields["scenarios"], names)
    documents: list[_FileDocument] = []
    losses: dict[str, Counter[ImportLoss]] = {unit: Counter() for unit in _UNITS}
    for report in importer.import_files(paths_with_progress(files)):
        # The report itself holds whole cassettes.
        documents.append(_file_document(report))
        losses[_unit_of(documents[-1])].update(report.loss_counts)
    if as_json:
        print_json(
            {
                "library": library.root,
                "dry_run": dry_run,
                "files": documents,
                "sum": _sum_document(documents, losses, settings.pace),
            }
        )
    else:
        _print_report(library, documents, losses, settings.pace, is_dry_run=dry_run)
    has_refusals = any(document["refused"] or document["reason"] for document in documents)
    raise click.exceptions.Exit(1 if has_refusals else 0)


def _file_document(report: FileReport) -> _FileDocument:
    """The result of importing one file, as `--json` prints it."""
    unit = _unit_of({"format": report.format})
    exchanges = [result for result in report.results if isinstance(result, ImportedExchange)]
    return {
        "file": path_as_unicode_text(report.path),
        "format": report.format or None,
        "result": report.status,
        "session": report.session or None,
        "imported": len(exchanges) + report.count_results(ConvertedFixture),
        "already_imported": report.count_results(AlreadyImportedItem),
        "refused": [
            {unit: result.number, "reason": result.reason}
            for result in report.results
            if isinstance(result, RefusedItem)
        ],
        "reason": report.reason or None,
        "lost": {loss.name: count for loss, count in report.loss_counts.items()},
        "cassettes": [exchange.path for exchange in exchanges if exchange.path],
        "scenarios": report.scenario_path,
    }


def _unit_of(document: _FileDocument) -> str:
    """What the counts of a file are of: `exchange`, or `fixture` if it becomes scenarios."""
    return "fixture" if document["format"] == aimock.TITLE else "exchange"


def _sum_document(
    documents: Sequence[_FileDocument],
    losses: Mapping[str, Counter[ImportLoss]],
    pace: Pace | None,
) -> dict[str, Any]:
    files = Counter(document["result"] for document in documents)
    counts = {
        f"{unit}s": _count_results([item for item in documents if _unit_of(item) == unit])
        for unit in _UNITS
    }
    return {
        "files": {status: files[status] for status in _STATUS_STYLES},
        **counts,
        "lost": {
            loss.name: {f"{unit}s": count, "text": loss.effect_with(pace)}
            for unit, unit_losses in losses.items()
            for loss, count in unit_losses.most_common()
        },
    }


def _count_results(documents: Sequence[_FileDocument]) -> dict[str, int]:
    return {
        "imported": sum(document["imported"] for document in documents),
        "already_imported": sum(document["already_imported"] for document in documents),
        "refused": sum(len(document["refused"]) for document in documents),
    }


def _print_report(
    library: Library,
    documents: Sequence[_FileDocument],
    losses: Mapping[str, Counter[ImportLoss]],
    pace: Pace | None,
    *,
    is_dry_run: bool,
) -> None:
    """Print a table of the files, the refusals, the losses and a summary."""
    cells: list[Sequence[str]] = []
    refusals: list[str] = []
    for document in documents:
        file, status, refused = document["file"], document["result"], document["refused"]
        cells.append(
            (
                file,
                document["format"] or "-",
                StyledText(status, _STATUS_STYLES[status]),
                str(document["imported"]),
                str(document["already_imported"]),
                str(len(refused)),
                ", ".join(document["lost"]),
            )
        )
        unit = _unit_of(document)
        refusals += [f"{file}, {unit} {item[unit]}: {item['reason']}" for item in refused]
        if document["reason"]:
            refusals.append(f"{file}: {document['reason']}")
    if documents:
        print_table(_COLUMNS, cells)
    else:
        print_note("no files to import")
    print_lines(StyledText(refusal, "bad") for refusal in refusals[:_MAX_SHOWN_REFUSALS])
    if len(refusals) > _MAX_SHOWN_REFUSALS:
        print_note(f"{len(refusals) - _MAX_SHOWN_REFUSALS} more failures; use --json to list all")
    for unit, unit_losses in losses.items():
        for loss, count in unit_losses.most_common():
            label = f"{loss.name} ({count_with_noun(count, unit)})"
            print_note(f"{label}: {loss.effect_with(pace)}")
    for unit in _UNITS:
        if of_unit := [document for document in documents if _unit_of(document) == unit]:
            print_note(_summary_line(library, unit, of_unit, is_dry_run=is_dry_run))


def _summary_line(
    library: Library, unit: str, documents: Sequence[_FileDocument], *, is_dry_run: bool
) -> str:
    counts = _count_results(documents)
    files = Counter(document["result"] for document in documents)
    places: set[Path] = {library.root}
    verb, done, preposition = "import", "imported", "into"
    if unit == "fixture":
        places = {document["scenarios"] for document in documents if document["scenarios"]}
        verb, done, preposition = "convert", "converted", "to scenarios in"
    name_of_place = path_as_unicode_text if unit == "fixture" else folder_name
    where = name_of_place(*places) if len(places) == 1 else count_with_noun(len(places), "file")
    file_count = count_with_noun(len(documents), "file")
    label = f"{count_with_noun(counts['imported'], unit)} from {file_count}"
    parts = [
        f"would {verb} {label} {preposition} {where}"
        if is_dry_run
        else f"{label} {done} {preposition} {where}"
    ]
    if present := counts["already_imported"]:
        parts.append(f"{present} already imported")
    if refused := counts["refused"]:
        parts.append(f"{count_with_noun(refused, unit)} refused")
    parts += [
        f"{count_with_noun(files[status], 'file')} {status}"
        for status in _STATUS_STYLES
        if files[status] and status != "imported"
    ]
    return ", ".join(parts)
