"""Verdict rules, and findings about a client with their evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from llm_proxy.verdict.retry_chains import RetryChain


class FindingLevel(StrEnum):
    """The severity of a finding, mildest first."""

    NOTE = "note"
    """Worth knowing; the client may be right."""
    WARNING = "warning"
    """Wrong in most applications, or not distinguishable from wrong behaviour."""
    ERROR = "error"
    """Wrong, and proven."""

    @property
    def severity(self) -> int:
        """Larger is worse."""
        return list(FindingLevel).index(self)

    def is_at_least(self, other: FindingLevel) -> bool:
        """Whether it is as severe as the other, or more."""
        return self.severity >= other.severity


@dataclass(frozen=True, slots=True)
class FindingEvidence:
    """What a client received in one attempt, and what it did then."""

    entry: int
    """The number of the request in the journal."""
    at_ms: float
    """When the request was read in full, in ms since the run began."""
    told: str
    """What the client received, as text."""
    did: str
    """What the client did then, as text."""


@dataclass(frozen=True, slots=True)
class VerdictFinding:
    """A violation of a rule in a retry chain."""

    level: FindingLevel
    message: str
    """One sentence, without a full stop."""
    evidence: tuple[FindingEvidence, ...]


@dataclass(frozen=True, slots=True)
class VerdictRule:
    """A rule that detects one kind of wrong client behaviour."""

    name: str
    description: str
    """The wrong behaviour, in a sentence without a full stop."""
    advice: str
    """How to fix it, in the same form."""
    applies_to_chain: Callable[[RetryChain], bool]
    """Whether a chain could violate the rule: a chain that could, and does not, has passed."""
    judge_chain: Callable[[RetryChain], VerdictFinding | None]
    """The finding for a chain that the rule applies to; None where the chain passes."""


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """The result of one rule for one chain that it applies to."""

    rule: VerdictRule
    chain: RetryChain
    finding: VerdictFinding | None
    """None where the client did nothing wrong."""
