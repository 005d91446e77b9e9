"""A cassette as a table row, without its body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from llm_proxy import ages, display
from llm_proxy.cassette import Cassette, End, Meta
from llm_proxy.cli.library.cassettes import name_in_library, read_cassettes
from llm_proxy.cli.output.json_documents import meta_document, outcome_document
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Outcome
from llm_proxy.outcome import outcome_of
from llm_proxy.shell.library.library import Library


@dataclass(frozen=True, slots=True)
class CassetteRow:
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
    def from_cassette(
        cls, name: str, path: Path, cassette: Cassette, size: int, now: datetime
    ) -> CassetteRow:
        """The row of a cassette whose file has this size."""
        age = ages.cassette_age(cassette.meta.recorded, now)
        return cls(
            name, path, cassette.meta, cassette.head.status,
            outcome_of(cassette), len(cassette.messages), len(cassette.reads),
            cassette.end, size, age,
        )  # fmt: skip

    def to_document(self) -> dict[str, Any]:
        """As `--json` tells it."""
        age = self.age
        return {
            "file": display.escape_path(self.path),
            "name": display.escape_path(self.name),
            **meta_document(self.meta),
            "status": self.status,
            "outcome": outcome_document(self.outcome),
            "ending": self.end.ending.value,
            "messages": self.messages,
            "reads": self.reads,
            "bytes": self.end.size,
            "file_bytes": self.size,
            "duration_ms": self.end.at_ms,
            "age_days": None if age is None else round(age / timedelta(days=1), 3),
            "sha256": self.end.sha256,
        }


def read_rows(
    library: Library, paths: Iterable[Path], now: datetime
) -> tuple[list[CassetteRow], list[CassetteError]]:
    """The rows of these files, and what cannot be read."""
    rows: list[CassetteRow] = []
    refused: list[CassetteError] = []
    for path, cassette in read_cassettes(library, list(paths)):
        match cassette:
            case Cassette():
                try:
                    size = path.stat().st_size
                except OSError:  # deleted since it was read
                    continue
                rows.append(
                    CassetteRow.from_cassette(
                        name_in_library(library, path), path, cassette, size, now
                    )
                )
            case CassetteError():
                refused.append(cassette)
    return rows, refused
