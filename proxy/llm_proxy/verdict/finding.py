"""What is said of a client, and by what evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from llm_proxy.verdict.retry_chains import Chain


class Level(StrEnum):
    """How bad it is, mildest first."""

    NOTE = "note"
    """Worth knowing; a client that does so may be right."""
    WARNING = "warning"
    """Wrong in most applications, or not to be told from what is wrong."""
    ERROR = "error"
    """Wrong, and shown."""

    @property
    def weight(self) -> int:
        """Larger is worse."""
        return list(Level).index(self)

    def reaches(self, other: Level) -> bool:
        """Whether it is as bad as that one, or worse."""
        return self.weight >= other.weight


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a client met, and what it did then."""

    entry: int
    """The number of the request in the journal."""
    at_ms: float
    """When it was read in full, since the run began."""
    told: str
    """What the client met."""
    did: str
    """What it did."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule has found in a chain."""

    level: Level
    message: str
    """One sentence, without a full stop."""
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that a client can do wrong."""

    name: str
    looks_for: str
    """What it finds, in a sentence without a full stop."""
    advice: str
    """What to do about it, in the same form."""
    concerns: Callable[[Chain], bool]
    """Whether a chain could break it: a chain that could, and does not, has passed."""
    judge: Callable[[Chain], Finding | None]
    """What it finds in a chain that it concerns."""


@dataclass(frozen=True, slots=True)
class Case:
    """One rule, held against one chain that it concerns."""

    rule: Rule
    chain: Chain
    finding: Finding | None
    """None where the client did nothing wrong."""
