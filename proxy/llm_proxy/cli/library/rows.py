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
    http_status: int
    outcome: Outcome
    message_count: int
    read_count: int
    response_end: CassetteEnd
    file_size_bytes: int
    """Size of the file on disk."""
    age: timedelta | None
    """Time since it was recorded; None where line 1 has no time."""

    @classmethod
    def from_cassette(
        cls, relative_path: str, path: Path, cassette: Cassette, file_bytes: int, now: datetime
    ) -> CassetteRow:
        """The row of a cassette, from what was loaded and the size of its file."""
        age = ages.cassette_age(cassette.meta.recorded_at, now)
        return cls(
            relative_path, path, cassette.meta, cassette.response_head.status,
            cassette_outcome(cassette), len(cassette.framed_messages), len(cassette.reads),
            cassette.response_end, file_bytes, age,
        )  # fmt: skip

    def to_document(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        age = self.age
        return {
            "file": display.path_as_unicode_text(self.path),
            "name": display.path_as_unicode_text(self.relative_path),
            **meta_document(self.meta),
            "status": self.http_status,
            "outcome": outcome_document(self.outcome),
            "ending": self.response_end.ending.value,
            "messages": self.message_count,
            "reads": self.read_count,
            "bytes": self.response_end.size_bytes,
            "file_bytes": self.file_size_bytes,
            "duration_ms": self.response_end.at_ms,
            "age_days": None if age is None else round(age / timedelta(days=1), 3),
            "sha256": self.response_end.sha256,
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
