"""What became of the files of an import: a table with reasons, or a JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy import display
from llm_proxy.cli.output.printing import Line, Span, print_lines, print_note
from llm_proxy.cli.output.tables import Column, print_table
from llm_proxy.importing import Refused, aimock
from llm_proxy.importing.aimock import Scripted
from llm_proxy.importing.source import Loss, Present
from llm_proxy.shell.importing.importing import Imported, Report, Status
from llm_proxy.shell.library.library import Library

_HEADS: Final = (
    Column("file"),
    Column("format"),
    Column("result"),
    Column("imported", right=True),
    Column("there before", right=True, spare=2),
    Column("refused", right=True),
    Column("lost", spare=1),
)
_STYLES: Final[Mapping[Status, str]] = {
    "imported": "good",
    "partly imported": "doubtful",
    "refused": "bad",
}
_SHOWN: Final = 40
"""Lines of refusals that are shown; --json has all."""


@dataclass(frozen=True, slots=True)
class Row:
    """What became of a file, without what is in it."""

    file: str
    format: str
    """Empty where it is of none that is known."""
    status: Status
    session: str
    imported: int
    present: int
    refused: tuple[Refused, ...]
    why: str
    losses: Counter[Loss]
    cassettes: tuple[str, ...]
    scenarios: str
    """The file of its scenarios; empty where it has none."""
    is_scripted: bool
    """Whether it holds fixtures, and no exchanges."""

    @classmethod
    def of(cls, it: Report) -> Row:
        """The row of a file."""
        filed = [each for each in it.results if isinstance(each, Imported)]
        return cls(
            file=display.path_text(it.path),
            format=it.format,
            status=it.status,
            session=it.session,
            imported=len(filed) + it.count(Scripted),
            present=it.count(Present),
            refused=tuple(each for each in it.results if isinstance(each, Refused)),
            why=it.why,
            losses=it.losses,
            cassettes=tuple(display.path_text(each.path) for each in filed if each.path),
            scenarios=display.path_text(it.scenarios) if it.scenarios else "",
            is_scripted=it.format == aimock.TITLE,
        )

    @property
    def unit(self) -> str:
        """What it is counted by."""
        return "fixture" if self.is_scripted else "exchange"

    @property
    def is_refused(self) -> bool:
        """Whether anything of it was."""
        return bool(self.refused or self.why)


def print_report(library: Library, rows: Sequence[Row], *, is_dry: bool) -> None:
    """Print what became of each file, and of all of them."""
    if rows:
        print_table(_HEADS, [_cells(row) for row in rows])
    refusals = list(_refusals(rows))
    print_lines((Span(it, "bad"),) for it in refusals[:_SHOWN])
    if len(refusals) > _SHOWN:
        print_note(f"{len(refusals) - _SHOWN} more refusals: see --json")
    for unit, some in _by_unit(rows).items():
        for loss, count in _lost(some).most_common():
            print_note(f"{loss.name}, of {display.counted(count, unit)}: {loss.text}")
    for line in _summary(library, rows, is_dry=is_dry):
        print_note(line)


def _cells(row: Row) -> Line:
    return (
        Span(row.file),
        Span(row.format or "-"),
        Span(row.status, _STYLES[row.status]),
        Span(str(row.imported)),
        Span(str(row.present)),
        Span(str(len(row.refused))),
        Span(", ".join(it.name for it in row.losses)),
    )


def _refusals(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        yield from (f"{row.file}, {row.unit} {it.number}: {it.why}" for it in row.refused)
        if row.why:
            yield f"{row.file}: {row.why}"


def _lost(rows: Iterable[Row]) -> Counter[Loss]:
    found: Counter[Loss] = Counter()
    for row in rows:
        found.update(row.losses)
    return found


def _by_unit(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of exchanges and of fixtures, as far as there are any."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda it: it.is_scripted):
        found.setdefault(row.unit, []).append(row)
    return found


def _summary(library: Library, rows: Sequence[Row], *, is_dry: bool) -> Iterator[str]:
    if not rows:
        yield "there is no file to import"
    for unit, some in _by_unit(rows).items():
        written = dict.fromkeys(row.scenarios for row in some if row.scenarios)
        places = list(written) if unit == "fixture" else [display.path_text(library.root)]
        yield _sum(unit, some, places, is_dry=is_dry)


def _sum(unit: str, rows: Sequence[Row], places: Sequence[str], *, is_dry: bool) -> str:
    """What became of all files that are counted by this."""
    imported, present = sum(it.imported for it in rows), sum(it.present for it in rows)
    refused = sum(len(it.refused) for it in rows)
    files = Counter(it.status for it in rows)
    made = "made scenarios in" if unit == "fixture" else "imported into"
    done = f"would be {made}" if is_dry else made
    what = f"{display.counted(imported, unit)} of {display.counted(len(rows), 'file')}"
    where = places[0] if len(places) == 1 else display.counted(len(places), "file")
    parts = [
        f"{what} {done} {where}",
        *([f"{present} there before"] if present else []),
        *([f"{display.counted(refused, unit)} refused"] if refused else []),
        *(
            f"{display.counted(files[it], 'file')} {it}"
            for it in _STYLES
            if files[it] and it != "imported"
        ),
    ]
    return ", ".join(parts)


def document(library: Library, rows: Sequence[Row], *, is_dry: bool) -> dict[str, Any]:
    """The same as JSON."""
    files = Counter(it.status for it in rows)
    return {
        "library": display.path_text(library.root),
        "dry_run": is_dry,
        "files": [_entry(row) for row in rows],
        "sum": {
            "files": {it: files[it] for it in _STYLES},
            "exchanges": _counts(it for it in rows if not it.is_scripted),
            "fixtures": _counts(it for it in rows if it.is_scripted),
            "lost": {
                loss.name: {f"{unit}s": count, "text": loss.text}
                for unit, some in _by_unit(rows).items()
                for loss, count in _lost(some).most_common()
            },
        },
    }


def _counts(rows: Iterable[Row]) -> dict[str, int]:
    some = list(rows)
    return {
        "imported": sum(it.imported for it in some),
        "there before": sum(it.present for it in some),
        "refused": sum(len(it.refused) for it in some),
    }


def _entry(row: Row) -> dict[str, Any]:
    return {
        "file": row.file,
        "format": row.format or None,
        "result": row.status,
        "session": row.session or None,
        "imported": row.imported,
        "there_before": row.present,
        "refused": [{row.unit: it.number, "why": it.why} for it in row.refused],
        "why": row.why or None,
        "lost": {loss.name: count for loss, count in row.losses.items()},
        "cassettes": row.cassettes,
        "scenarios": row.scenarios or None,
    }
