"""Which cassettes a run used, and how old they were."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from llm_proxy.ages import MaxAge, age_of, days
from llm_proxy.display import path_text
from llm_proxy.errors import printable

log: Final = logging.getLogger("llm_proxy")

_LONGEST: Final = 250
"""Characters of a path in the log."""


@dataclass(frozen=True, slots=True)
class TooOld:
    """A cassette that was played, and is older than it may be."""

    file: str
    recorded: str
    days: float


class Usage:
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
        self.too_old: list[TooOld] = []
        """In the order of their playing, each once."""
        self.unused: list[str] = []
        """Those that were there at the start and were not played, once the run is over."""

    @property
    def played(self) -> list[str]:
        """The files that answered, by their names within the library."""
        return self._names(self._played)

    def play(self, file: str, recorded: str) -> None:
        """A cassette answers; `recorded` is the time that its line 1 says."""
        if file in self._played:
            return
        self._played.add(file)
        if self._max_age is None:
            return
        age = age_of(recorded, self._now())
        if age is None or age <= self._max_age.age:
            return
        self.too_old.append(TooOld(file, recorded, round(age.total_seconds() / 86400, 2)))
        log.warning(
            "%s was recorded %s ago (--max-age %s): record it again",
            printable(file, _LONGEST),
            days(age),
            self._max_age,
        )

    def record(self, file: str) -> None:
        """A cassette was recorded."""
        self._recorded.add(file)

    def close(self, there: Iterable[str]) -> None:
        """The run is over; these were there when it began."""
        self.unused = sorted(set(there) - self._played)

    def document(self) -> dict[str, Any]:
        """As the journal tells it, by the files' names within the library."""
        return {
            "played": self.played,
            "recorded": self._names(self._recorded),
            "unused": self._names(self.unused),
            "too_old": [{**asdict(it), "file": self._name(it.file)} for it in self.too_old],
        }

    def _names(self, files: Iterable[str]) -> list[str]:
        return sorted(map(self._name, files))

    def _name(self, file: str) -> str:
        return path_text(Path(file).relative_to(self._root))
