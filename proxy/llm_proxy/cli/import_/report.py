"""What became of the files of an import: a table with reasons, or a JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llm_proxy import display
from llm_proxy.cli.output.printing import Line, Span, print_lines, print_note
from llm_proxy.cli.output.tables import Column, print_table
from llm_proxy.importing import Refused
from llm_proxy.importing.source import Loss
from llm_proxy.shell.importing.importing import Imported, Present, Report, Status
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

    @classmethod
    def of(cls, it: Report) -> Row:
        """The row of a file."""
        imported = [each for each in it.results if isinstance(each, Imported)]
        return cls(
            file=display.path_text(it.path),
            format=it.format.name if it.format else "",
            status=it.status,
            session=it.session,
            imported=len(imported),
            present=it.count(Present),
            refused=tuple(each for each in it.results if isinstance(each, Refused)),
            why=it.why,
            losses=it.losses,
            cassettes=tuple(display.path_text(each.path) for each in imported if each.path),
        )

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
    for loss, count in _lost(rows).most_common():
        print_note(f"{loss.name}, of {display.counted(count, 'exchange')}: {loss.text}")
    print_note(_summary(library, rows, is_dry=is_dry))


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
        yield from (f"{row.file}, exchange {it.number}: {it.why}" for it in row.refused)
        if row.why:
            yield f"{row.file}: {row.why}"


def _lost(rows: Iterable[Row]) -> Counter[Loss]:
    found: Counter[Loss] = Counter()
    for row in rows:
        found.update(row.losses)
    return found


def _summary(library: Library, rows: Sequence[Row], *, is_dry: bool) -> str:
    if not rows:
        return "there is no file to import"
    imported, present = sum(it.imported for it in rows), sum(it.present for it in rows)
    refused = sum(len(it.refused) for it in rows)
    files = Counter(it.status for it in rows)
    done = "would be imported" if is_dry else "imported"
    what = f"{display.counted(imported, 'exchange')} of {display.counted(len(rows), 'file')}"
    parts = [
        f"{what} {done} into {display.path_text(library.root)}",
        *([f"{present} there before"] if present else []),
        *([f"{display.counted(refused, 'exchange')} refused"] if refused else []),
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
            "exchanges": {
                "imported": sum(it.imported for it in rows),
                "there before": sum(it.present for it in rows),
                "refused": sum(len(it.refused) for it in rows),
            },
            "lost": {
                loss.name: {"exchanges": count, "text": loss.text}
                for loss, count in _lost(rows).most_common()
            },
        },
    }


def _entry(row: Row) -> dict[str, Any]:
    return {
        "file": row.file,
        "format": row.format or None,
        "result": row.status,
        "session": row.session,
        "imported": row.imported,
        "there_before": row.present,
        "refused": [{"exchange": it.number, "why": it.why} for it in row.refused],
        "why": row.why or None,
        "lost": {loss.name: count for loss, count in row.losses.items()},
        "cassettes": row.cassettes,
    }
