"""The takes of one request and session, which are reissued together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TakeGroup:
    """All takes of one request in one session, in the order in which they are played."""

    session: str
    key: str
    """The request's key by the rules of this run."""
    provider: str
    paths: tuple[Path, ...]
