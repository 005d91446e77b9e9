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
from llm_proxy.importing.source import AlreadyImported, ImportLoss
from llm_proxy.shell.importing.importer import FileReport, ImportedExchange, Status
from llm_proxy.shell.library.library import Library

_HEADS: Final = (
    TableColumn("file"),
    TableColumn("format"),
    TableColumn("result"),
    TableColumn("imported", right=True),
    TableColumn("there before", right=True, spare=2),
    TableColumn("refused", right=True),
    TableColumn("lost", spare=1),
)
_STYLES: Final[Mapping[Status, str]] = {
    "imported": "good",
    "partly imported": "doubtful",
    "refused": "bad",
}
_SHOWN: Final = 40
"""Lines of refusals that are shown; --json has all."""


@dataclass(frozen=True, slots=True)
class ImportRow:
    """What became of a file, without what is in it."""

    file: str
    format: str
    """Empty where it is of none that is known."""
    status: Status
    session: str
    imported: int
    present: int
    refused: tuple[RefusedItem, ...]
    why: str
    losses: Counter[ImportLoss]
    cassettes: tuple[str, ...]
    scenarios: str
    """The file of its scenarios; empty where it has none."""
    is_scripted: bool
    """Whether it holds fixtures, and no exchanges."""

    @classmethod
    def from_report(cls, file_report: FileReport) -> ImportRow:
        """The row of a file."""
        filed = [result for result in file_report.results if isinstance(result, ImportedExchange)]
        return cls(
            file=display.escape_path(file_report.path),
            format=file_report.format,
            status=file_report.status,
            session=file_report.session,
            imported=len(filed) + file_report.count(ConvertedFixture),
            present=file_report.count(AlreadyImported),
            refused=tuple(
                result for result in file_report.results if isinstance(result, RefusedItem)
            ),
            why=file_report.why,
            losses=file_report.losses,
            cassettes=tuple(
                display.escape_path(imported_exchange.path)
                for imported_exchange in filed
                if imported_exchange.path
            ),
            scenarios=display.escape_path(file_report.scenarios) if file_report.scenarios else "",
            is_scripted=file_report.format == aimock.TITLE,
        )

    @property
    def counted_unit(self) -> str:
        """What it is counted by."""
        return "fixture" if self.is_scripted else "exchange"

    @property
    def has_refusals(self) -> bool:
        """Whether anything of it was."""
        return bool(self.refused or self.why)


def print_report(library: Library, rows: Sequence[ImportRow], *, is_dry: bool) -> None:
    """Print what became of each file, and of all of them."""
    if rows:
        print_table(_HEADS, [_row_cells(row) for row in rows])
    refusals = list(_refusal_lines(rows))
    print_lines((StyledText(refusal, "bad"),) for refusal in refusals[:_SHOWN])
    if len(refusals) > _SHOWN:
        print_note(f"{len(refusals) - _SHOWN} more refusals: see --json")
    for unit, some in _rows_by_unit(rows).items():
        for loss, count in _loss_lines(some).most_common():
            print_note(f"{loss.name}, of {display.count_noun(count, unit)}: {loss.text}")
    for line in _summary_lines(library, rows, is_dry=is_dry):
        print_note(line)


def _row_cells(row: ImportRow) -> Line:
    return (
        StyledText(row.file),
        StyledText(row.format or "-"),
        StyledText(row.status, _STYLES[row.status]),
        StyledText(str(row.imported)),
        StyledText(str(row.present)),
        StyledText(str(len(row.refused))),
        StyledText(", ".join(loss.name for loss in row.losses)),
    )


def _refusal_lines(rows: Iterable[ImportRow]) -> Iterator[str]:
    for row in rows:
        yield from (
            f"{row.file}, {row.counted_unit} {refused_item.number}: {refused_item.reason}"
            for refused_item in row.refused
        )
        if row.why:
            yield f"{row.file}: {row.why}"


def _loss_lines(rows: Iterable[ImportRow]) -> Counter[ImportLoss]:
    found: Counter[ImportLoss] = Counter()
    for row in rows:
        found.update(row.losses)
    return found


def _rows_by_unit(rows: Sequence[ImportRow]) -> dict[str, list[ImportRow]]:
    found: dict[str, list[ImportRow]] = {}
    for row in sorted(rows, key=lambda import_row: import_row.is_scripted):
        found.setdefault(row.counted_unit, []).append(row)
    return found


def _summary_lines(library: Library, rows: Sequence[ImportRow], *, is_dry: bool) -> Iterator[str]:
    if not rows:
        yield "there is no file to import"
    for unit, some in _rows_by_unit(rows).items():
        written = dict.fromkeys(row.scenarios for row in some if row.scenarios)
        places = list(written) if unit == "fixture" else [display.escape_path(library.root)]
        yield _summary_of_unit(unit, some, places, is_dry=is_dry)


def _summary_of_unit(
    unit: str, rows: Sequence[ImportRow], places: Sequence[str], *, is_dry: bool
) -> str:
    imported, present = sum(row.imported for row in rows), sum(row.present for row in rows)
    refused = sum(len(row.refused) for row in rows)
    files = Counter(row.status for row in rows)
    made = "made scenarios in" if unit == "fixture" else "imported into"
    done = f"would be {made}" if is_dry else made
    label = f"{display.count_noun(imported, unit)} of {display.count_noun(len(rows), 'file')}"
    where = places[0] if len(places) == 1 else display.count_noun(len(places), "file")
    parts = [
        f"{label} {done} {where}",
        *([f"{present} there before"] if present else []),
        *([f"{display.count_noun(refused, unit)} refused"] if refused else []),
        *(
            f"{display.count_noun(files[style], 'file')} {style}"
            for style in _STYLES
            if files[style] and style != "imported"
        ),
    ]
    return ", ".join(parts)


def import_document(library: Library, rows: Sequence[ImportRow], *, is_dry: bool) -> dict[str, Any]:
    """The same as JSON."""
    files = Counter(import_row.status for import_row in rows)
    return {
        "library": display.escape_path(library.root),
        "dry_run": is_dry,
        "files": [_row_document(row) for row in rows],
        "sum": {
            "files": {style: files[style] for style in _STYLES},
            "exchanges": _count_results(
                import_row for import_row in rows if not import_row.is_scripted
            ),
            "fixtures": _count_results(import_row for import_row in rows if import_row.is_scripted),
            "lost": {
                loss.name: {f"{unit}s": count, "text": loss.text}
                for unit, some in _rows_by_unit(rows).items()
                for loss, count in _loss_lines(some).most_common()
            },
        },
    }


def _count_results(rows: Iterable[ImportRow]) -> dict[str, int]:
    some = list(rows)
    return {
        "imported": sum(import_row.imported for import_row in some),
        "there before": sum(import_row.present for import_row in some),
        "refused": sum(len(import_row.refused) for import_row in some),
    }


def _row_document(row: ImportRow) -> dict[str, Any]:
    return {
        "file": row.file,
        "format": row.format or None,
        "result": row.status,
        "session": row.session or None,
        "imported": row.imported,
        "there_before": row.present,
        "refused": [
            {row.counted_unit: refused_item.number, "why": refused_item.reason}
            for refused_item in row.refused
        ],
        "why": row.why or None,
        "lost": {loss.name: count for loss, count in row.losses.items()},
        "cassettes": row.cassettes,
        "scenarios": row.scenarios or None,
    }
