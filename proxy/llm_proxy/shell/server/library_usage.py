"""Tracks which cassettes a run used, and their ages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from llm_proxy.ages import MaxAge, cassette_age, format_days
from llm_proxy.display import escape_path
from llm_proxy.errors import printable

log: Final = logging.getLogger("llm_proxy")

_LONGEST: Final = 250
"""Characters of a path in the log."""


@dataclass(frozen=True, slots=True)
class TooOldCassette:
    """A cassette that was played, and is older than it may be."""

    file: str
    recorded: str
    days: float


class LibraryUsage:
    """What a run used of a library.  What was played once costs no more when it is again."""

    def __init__(
        self,
        root: Path = Path(),
        max_age: MaxAge | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`root` is the library's folder, and `now` the time of day, with its zone."""
        self._root = root
        self._max_age = max_age
        self._now = now
        self._played: set[str] = set()
        self._recorded: set[str] = set()
        self.too_old: list[TooOldCassette] = []
        """In the order of their playing, each once."""
        self.unused: list[str] = []
        """Those that were there at the start and were not played, once the run is over."""

    @property
    def played_names(self) -> list[str]:
        """The files that answered, by their names within the library."""
        return self._names_of(self._played)

    def record_played(self, file: str, recorded: str) -> None:
        """A cassette answers; `recorded` is the time that its line 1 says."""
        if file in self._played:
            return
        self._played.add(file)
        if self._max_age is None:
            return
        age = cassette_age(recorded, self._now())
        if age is None or age <= self._max_age.max_age:
            return
        self.too_old.append(TooOldCassette(file, recorded, round(age.total_seconds() / 86400, 2)))
        log.warning(
            "%s was recorded %s ago (--max-age %s): record it again",
            printable(file, _LONGEST),
            format_days(age),
            self._max_age,
        )

    def record_recorded(self, file: str) -> None:
        """A cassette was recorded."""
        self._recorded.add(file)

    def finish(self, present_files: Iterable[str]) -> None:
        """The run is over; these were there when it began."""
        self.unused = sorted(set(present_files) - self._played)

    def document(self) -> dict[str, Any]:
        """As the journal tells it, by the files' names within the library."""
        return {
            "played": self.played_names,
            "recorded": self._names_of(self._recorded),
            "unused": self._names_of(self.unused),
            "too_old": [
                {**asdict(too_old_cassette), "file": self._name_of(too_old_cassette.file)}
                for too_old_cassette in self.too_old
            ],
        }

    def _names_of(self, files: Iterable[str]) -> list[str]:
        return sorted(map(self._name_of, files))

    def _name_of(self, file: str) -> str:
        return escape_path(Path(file).relative_to(self._root))
