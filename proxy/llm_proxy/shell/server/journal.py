"""What was asked and answered in this run."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any, Final

_KEPT: Final = 10_000
"""Entries that are kept; the counts go on."""


@dataclass(slots=True)
class Entry:
    """One request and its answer."""

    number: int
    session: str
    method: str
    path: str
    provider: str = ""
    dialect: str = ""
    model: str = ""
    key: str = ""
    """The first 16 digits."""
    origin: str = ""
    """`live`, a cassette's file, `miss`, `error` or `refused`."""
    status: int = 0
    bytes: int = 0
    """Body bytes sent."""
    ms: float = 0.0
    """From the request read in full to the last byte."""
    late_mean_ms: float = 0.0
    late_worst_ms: float = 0.0
    ending: str = ""
    """`sent`, `cut` (broken off as the source said) or `client_gone`."""
    note: str = ""
    """What went wrong, in a sentence."""

    def as_json(self) -> dict[str, Any]:
        """The entry as the API gives it."""
        return asdict(self)


@dataclass(slots=True)
class Recorded:
    """What became of one recording."""

    file: str
    outcome: str
    complete: bool


@dataclass
class Journal:
    """Everything that happened, newest last."""

    entries: deque[Entry] = field(default_factory=lambda: deque(maxlen=_KEPT))
    recorded: list[Recorded] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Recordings that were lost, in a sentence each."""
    misses: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """What each miss says, at length."""
    requests: int = 0

    def open(self, session: str, method: str, path: str) -> Entry:
        """The entry of a request that has just arrived."""
        self.requests += 1
        entry = Entry(self.requests, session, method, path)
        self.entries.append(entry)
        return entry
