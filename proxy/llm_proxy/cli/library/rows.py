"""Cassettes as rows: what is told of one without its body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from llm_proxy import ages, display
from llm_proxy.cassette import Cassette, End, Meta
from llm_proxy.cli.library.cassettes import name_within, read_all
from llm_proxy.cli.output.json_documents import meta_document, outcome_document
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Outcome
from llm_proxy.outcome import outcome
from llm_proxy.shell.library.library import Library


@dataclass(frozen=True, slots=True)
class Row:
    """A cassette, without its body."""

    name: str
    """Its path within the library."""
    path: Path
    meta: Meta
    status: int
    outcome: Outcome
    messages: int
    reads: int
    end: End
    size: int
    """Bytes of its file."""
    age: timedelta | None
    """Since it was recorded; None where line 1 says no time."""

    @classmethod
    def of(cls, name: str, path: Path, it: Cassette, size: int, now: datetime) -> Row:
        """The row of a cassette whose file has this size."""
        age = ages.age_of(it.meta.recorded, now)
        return cls(
            name, path, it.meta, it.head.status, outcome(it), len(it.messages), len(it.reads),
            it.end, size, age,
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """As `--json` tells it."""
        age = self.age
        return {
            "file": display.path_text(self.path),
            "name": display.path_text(self.name),
            **meta_document(self.meta),
            "status": self.status,
            "outcome": outcome_document(self.outcome),
            "ending": self.end.ending.value,
            "messages": self.messages,
            "reads": self.reads,
            "bytes": self.end.size,
            "file_bytes": self.size,
            "duration_ms": self.end.at,
            "age_days": None if age is None else round(age / timedelta(days=1), 3),
            "sha256": self.end.sha256,
        }


def read_rows(
    library: Library, paths: Iterable[Path], now: datetime
) -> tuple[list[Row], list[CassetteError]]:
    """The rows of these files, and what cannot be read."""
    rows: list[Row] = []
    refused: list[CassetteError] = []
    for path, it in read_all(library, list(paths)):
        match it:
            case Cassette():
                try:
                    size = path.stat().st_size
                except OSError:  # deleted since it was read
                    continue
                rows.append(Row.of(name_within(library, path), path, it, size, now))
            case CassetteError():
                refused.append(it)
    return rows, refused
