"""A finding about a client, with its evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from llm_proxy.verdict.retry_chains import RetryChain


class FindingLevel(StrEnum):
    """How bad it is, mildest first."""

    NOTE = "note"
    """Worth knowing; a client that does so may be right."""
    WARNING = "warning"
    """Wrong in most applications, or not to be told from what is wrong."""
    ERROR = "error"
    """Wrong, and shown."""

    @property
    def severity(self) -> int:
        """Larger is worse."""
        return list(FindingLevel).index(self)

    def is_at_least(self, other: FindingLevel) -> bool:
        """Whether it is as bad as that one, or worse."""
        return self.severity >= other.severity


@dataclass(frozen=True, slots=True)
class FindingEvidence:
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
class VerdictFinding:
    """What a rule has found in a chain."""

    level: FindingLevel
    message: str
    """One sentence, without a full stop."""
    evidence: tuple[FindingEvidence, ...]


@dataclass(frozen=True, slots=True)
class VerdictRule:
    """One thing that a client can do wrong."""

    name: str
    looks_for: str
    """What it finds, in a sentence without a full stop."""
    advice: str
    """What to do about it, in the same form."""
    concerns: Callable[[RetryChain], bool]
    """Whether a chain could break it: a chain that could, and does not, has passed."""
    judge: Callable[[RetryChain], VerdictFinding | None]
    """What it finds in a chain that it concerns."""


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """One rule, held against one chain that it concerns."""

    rule: VerdictRule
    chain: RetryChain
    finding: VerdictFinding | None
    """None where the client did nothing wrong."""
