"""Renders the result of an import as a table or a JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy import display
from llm_proxy.cli.output.printing import Line, StyledText, print_lines, print_note
from llm_proxy.cli.output.tables import TableColumn, print_table
from llm_proxy.importing import RefusedItem, aimock
from llm_proxy.importing.aimock import ConvertedFixture
from llm_proxy.importing.source import AlreadyImportedItem, ImportLoss
from llm_proxy.shell.importing import FileReport, ImportedExchange, ImportStatus
from llm_proxy.shell.library.library import Library

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


@dataclass(frozen=True, slots=True)
class ImportRow:
    """The result of importing one file, without its content."""

    file: str
    format_name: str
    """Empty where the format is unknown."""
    status: ImportStatus
    session: str
    imported_count: int
    already_imported_count: int
    """Exchanges or fixtures that had been imported before."""
    refused_items: tuple[RefusedItem, ...]
    file_error: str
    """Why the whole file was refused; empty where it was not."""
    losses: Counter[ImportLoss]
    cassette_paths: tuple[str, ...]
    scenario_file: str
    """The scenario file that it was converted to; empty for none."""
    is_scripted: bool
    """Whether it holds fixtures, which become scenarios, and no exchanges."""

    @classmethod
    def from_report(cls, file_report: FileReport) -> ImportRow:
        """The row of a file, from its report."""
        imported_exchanges = [
            result for result in file_report.results if isinstance(result, ImportedExchange)
        ]
        return cls(
            file=display.path_as_unicode_text(file_report.path),
            format_name=file_report.format,
            status=file_report.status,
            session=file_report.session,
            imported_count=len(imported_exchanges) + file_report.count_results(ConvertedFixture),
            already_imported_count=file_report.count_results(AlreadyImportedItem),
            refused_items=tuple(
                result for result in file_report.results if isinstance(result, RefusedItem)
            ),
            file_error=file_report.why,
            losses=file_report.loss_counts,
            cassette_paths=tuple(
                display.path_as_unicode_text(imported_exchange.path)
                for imported_exchange in imported_exchanges
                if imported_exchange.path
            ),
            scenario_file=display.path_as_unicode_text(file_report.scenario_path)
            if file_report.scenario_path
            else "",
            is_scripted=file_report.format == aimock.TITLE,
        )

    @property
    def counted_unit(self) -> str:
        """What the counts are of: `fixture` or `exchange`."""
        return "fixture" if self.is_scripted else "exchange"

    @property
    def has_refusals(self) -> bool:
        """Whether the file, or anything in it, was refused."""
        return bool(self.refused_items or self.file_error)


def print_report(library: Library, rows: Sequence[ImportRow], *, is_dry_run: bool) -> None:
    """Print a table of the files, the refusals, the losses and a summary."""
    if rows:
        print_table(_COLUMNS, [_row_cells(row) for row in rows])
    refusals = list(_refusal_lines(rows))
    print_lines((StyledText(refusal, "bad"),) for refusal in refusals[:_MAX_SHOWN_REFUSALS])
    if len(refusals) > _MAX_SHOWN_REFUSALS:
        print_note(f"{len(refusals) - _MAX_SHOWN_REFUSALS} more refusals: see --json")
    for unit, some in _rows_by_unit(rows).items():
        for loss, count in _count_losses(some).most_common():
            print_note(f"{loss.name}, of {display.count_with_noun(count, unit)}: {loss.effect}")
    for line in _summary_lines(library, rows, is_dry_run=is_dry_run):
        print_note(line)


def _row_cells(row: ImportRow) -> Line:
    return (
        StyledText(row.file),
        StyledText(row.format_name or "-"),
        StyledText(row.status, _STATUS_STYLES[row.status]),
        StyledText(str(row.imported_count)),
        StyledText(str(row.already_imported_count)),
        StyledText(str(len(row.refused_items))),
        StyledText(", ".join(loss.name for loss in row.losses)),
    )


def _refusal_lines(rows: Iterable[ImportRow]) -> Iterator[str]:
    for row in rows:
        yield from (
            f"{row.file}, {row.counted_unit} {refused_item.number}: {refused_item.reason}"
            for refused_item in row.refused_items
        )
        if row.file_error:
            yield f"{row.file}: {row.file_error}"


def _count_losses(rows: Iterable[ImportRow]) -> Counter[ImportLoss]:
    losses: Counter[ImportLoss] = Counter()
    for row in rows:
        losses.update(row.losses)
    return losses


def _rows_by_unit(rows: Sequence[ImportRow]) -> dict[str, list[ImportRow]]:
    found: dict[str, list[ImportRow]] = {}
    for row in sorted(rows, key=lambda import_row: import_row.is_scripted):
        found.setdefault(row.counted_unit, []).append(row)
    return found


def _summary_lines(
    library: Library, rows: Sequence[ImportRow], *, is_dry_run: bool
) -> Iterator[str]:
    if not rows:
        yield "there is no file to import"
    for unit, some in _rows_by_unit(rows).items():
        written = dict.fromkeys(row.scenario_file for row in some if row.scenario_file)
        places = (
            list(written) if unit == "fixture" else [display.path_as_unicode_text(library.root)]
        )
        yield _unit_summary_line(unit, some, places, is_dry_run=is_dry_run)


def _unit_summary_line(
    unit: str, rows: Sequence[ImportRow], places: Sequence[str], *, is_dry_run: bool
) -> str:
    imported, present = (
        sum(row.imported_count for row in rows),
        sum(row.already_imported_count for row in rows),
    )
    refused = sum(len(row.refused_items) for row in rows)
    files = Counter(row.status for row in rows)
    made = "made scenarios in" if unit == "fixture" else "imported into"
    done = f"would be {made}" if is_dry_run else made
    label = (
        f"{display.count_with_noun(imported, unit)} of {display.count_with_noun(len(rows), 'file')}"
    )
    where = places[0] if len(places) == 1 else display.count_with_noun(len(places), "file")
    parts = [
        f"{label} {done} {where}",
        *([f"{present} there before"] if present else []),
        *([f"{display.count_with_noun(refused, unit)} refused"] if refused else []),
        *(
            f"{display.count_with_noun(files[status], 'file')} {status}"
            for status in _STATUS_STYLES
            if files[status] and status != "imported"
        ),
    ]
    return ", ".join(parts)


def import_document(
    library: Library, rows: Sequence[ImportRow], *, is_dry_run: bool
) -> dict[str, Any]:
    """The report as a JSON document."""
    files = Counter(import_row.status for import_row in rows)
    return {
        "library": display.path_as_unicode_text(library.root),
        "dry_run": is_dry_run,
        "files": [_row_document(row) for row in rows],
        "sum": {
            "files": {status: files[status] for status in _STATUS_STYLES},
            "exchanges": _count_results(
                import_row for import_row in rows if not import_row.is_scripted
            ),
            "fixtures": _count_results(import_row for import_row in rows if import_row.is_scripted),
            "lost": {
                loss.name: {f"{unit}s": count, "text": loss.effect}
                for unit, some in _rows_by_unit(rows).items()
                for loss, count in _count_losses(some).most_common()
            },
        },
    }


def _count_results(rows: Iterable[ImportRow]) -> dict[str, int]:
    some = list(rows)
    return {
        "imported": sum(import_row.imported_count for import_row in some),
        "there before": sum(import_row.already_imported_count for import_row in some),
        "refused": sum(len(import_row.refused_items) for import_row in some),
    }


def _row_document(row: ImportRow) -> dict[str, Any]:
    return {
        "file": row.file,
        "format": row.format_name or None,
        "result": row.status,
        "session": row.session or None,
        "imported": row.imported_count,
        "there_before": row.already_imported_count,
        "refused": [
            {row.counted_unit: refused_item.number, "why": refused_item.reason}
            for refused_item in row.refused_items
        ],
        "why": row.file_error or None,
        "lost": {loss.name: count for loss, count in row.losses.items()},
        "cassettes": row.cassette_paths,
        "scenarios": row.scenario_file or None,
    }
