"""A cassette as a table row, without its body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from llm_proxy import ages, display
from llm_proxy.cassette import Cassette, CassetteEnd, CassetteMeta
from llm_proxy.cli.library.cassettes import name_in_library, read_cassettes
from llm_proxy.cli.output.json_documents import meta_document, outcome_document
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Outcome
from llm_proxy.outcome import cassette_outcome
from llm_proxy.shell.library.library import Library


@dataclass(frozen=True, slots=True)
class CassetteRow:
    """A cassette, without its body."""

    relative_path: str
    """The path within the library."""
    path: Path
    meta: CassetteMeta
    status: int
    outcome: Outcome
    message_count: int
    read_count: int
    end: CassetteEnd
    file_bytes: int
    """Size of the file on disk."""
    age: timedelta | None
    """Time since it was recorded; None where line 1 has no time."""

    @classmethod
    def from_cassette(
        cls, relative_path: str, path: Path, cassette: Cassette, file_bytes: int, now: datetime
    ) -> CassetteRow:
        """The row of a cassette, from what was loaded and the size of its file."""
        age = ages.cassette_age(cassette.meta.recorded, now)
        return cls(
            relative_path, path, cassette.meta, cassette.head.status,
            cassette_outcome(cassette), len(cassette.messages), len(cassette.reads),
            cassette.end, file_bytes, age,
        )  # fmt: skip

    def to_document(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        age = self.age
        return {
            "file": display.path_as_utf8(self.path),
            "name": display.path_as_utf8(self.relative_path),
            **meta_document(self.meta),
            "status": self.status,
            "outcome": outcome_document(self.outcome),
            "ending": self.end.ending.value,
            "messages": self.message_count,
            "reads": self.read_count,
            "bytes": self.end.size_bytes,
            "file_bytes": self.file_bytes,
            "duration_ms": self.end.at_ms,
            "age_days": None if age is None else round(age / timedelta(days=1), 3),
            "sha256": self.end.sha256,
        }


def read_rows(
    library: Library, paths: Iterable[Path], now: datetime
) -> tuple[list[CassetteRow], list[CassetteError]]:
    """The rows of these files, and the errors of those that cannot be read."""
    rows: list[CassetteRow] = []
    errors: list[CassetteError] = []
    for path, cassette in read_cassettes(library, list(paths)):
        match cassette:
            case Cassette():
                try:
                    file_bytes = path.stat().st_size
                except OSError:  # deleted since it was read
                    continue
                rows.append(
                    CassetteRow.from_cassette(
                        name_in_library(library, path), path, cassette, file_bytes, now
                    )
                )
            case CassetteError():
                errors.append(cassette)
    return rows, errors
