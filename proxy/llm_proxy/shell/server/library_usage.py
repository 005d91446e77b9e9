"""Tracks which cassettes a run used, and their ages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from llm_proxy.ages import MaxAge, cassette_age, format_age
from llm_proxy.display import path_as_unicode_text
from llm_proxy.errors import printable_excerpt

log: Final = logging.getLogger("llm_proxy")

_MAX_PATH_CHARS: Final = 250
"""Maximum length of a path in the log."""


@dataclass(frozen=True, slots=True)
class TooOldCassette:
    """A cassette that was played and exceeds the maximum age."""

    file: str
    recorded: str
    days: float


class LibraryUsage:
    """Which cassettes of a library a run played and recorded; playing one again costs nothing."""

    def __init__(
        self,
        root: Path = Path(),
        max_age: MaxAge | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`root` is the library's folder; `now` returns an aware datetime."""
        self._root = root
        self._max_age = max_age
        self._now = now
        self._played_files: set[str] = set()
        self._recorded_files: set[str] = set()
        self.too_old_cassettes: list[TooOldCassette] = []
        """In the order in which they were first played, each once."""
        self.unused_files: list[str] = []
        """Files that existed at the start and were not played; set by `finish`."""

    @property
    def played_file_names(self) -> list[str]:
        """The files that were played, relative to the library's folder."""
        return self._relative_names(self._played_files)

    def mark_played(self, file: str, recorded_at: str) -> None:
        """Add a cassette that is played; `recorded_at` is the time in its line 1."""
        if file in self._played_files:
            return
        self._played_files.add(file)
        if self._max_age is None:
            return
        age = cassette_age(recorded_at, self._now())
        if age is None or age <= self._max_age.max_age:
            return
        self.too_old_cassettes.append(
            TooOldCassette(file, recorded_at, round(age.total_seconds() / 86400, 2))
        )
        log.warning(
            "%s was recorded %s ago (--max-age %s): record it again",
            printable_excerpt(file, _MAX_PATH_CHARS),
            format_age(age),
            self._max_age,
        )

    def mark_recorded(self, file: str) -> None:
        """Add a cassette that was recorded."""
        self._recorded_files.add(file)

    def determine_unused_files(self, present_files: Iterable[str]) -> None:
        """End the run; `present_files` are those that existed when it began."""
        self.unused_files = sorted(set(present_files) - self._played_files)

    def to_json_document(self) -> dict[str, Any]:
        """The journal's `library` object, with files relative to the library's folder."""
        return {
            "played": self.played_file_names,
            "recorded": self._relative_names(self._recorded_files),
            "unused": self._relative_names(self.unused_files),
            "too_old": [
                {**asdict(too_old_cassette), "file": self._relative_name(too_old_cassette.file)}
                for too_old_cassette in self.too_old_cassettes
            ],
        }

    def _relative_names(self, files: Iterable[str]) -> list[str]:
        return sorted(map(self._relative_name, files))

    def _relative_name(self, file: str) -> str:
        return path_as_unicode_text(Path(file).relative_to(self._root))
