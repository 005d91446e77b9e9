"""Findings about a client, with the evidence in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Final

from llm_proxy.display import count_with_noun, format_duration
from llm_proxy.faults.fault_record import FaultEffect, FaultRecord
from llm_proxy.journal_document import ENDING_CLIENT_GONE, ENDING_CUT, JournalEntry
from llm_proxy.verdict.retry_chains import RetryChain, pause_ms

_EFFECT_DESCRIPTIONS: Final[dict[str, str]] = {
    FaultEffect.UNANSWERED: "no response",
    FaultEffect.DISCONNECTED: "connection closed before the response",
    FaultEffect.STALLED: "no more data{where}",
    FaultEffect.CUT: "body cut off{where}",
    FaultEffect.TRUNCATED: "body ended early{where}",
    FaultEffect.FAILED: "provider error{where}",
    FaultEffect.MALFORMED: "malformed data{where}",
    FaultEffect.ALTERED: "altered response{where}",
    FaultEffect.SLOWED: "slow response",
}
_ABANDONABLE_EFFECTS: Final = (
    FaultEffect.UNANSWERED,
    FaultEffect.STALLED,
    FaultEffect.TRUNCATED,
    FaultEffect.FAILED,
    FaultEffect.MALFORMED,
)
"""The effects during which a client can either disconnect or stay to the end."""


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


@dataclass(frozen=True, slots=True)
class FindingEvidence:
    """What a client received in one attempt, and what it did then."""

    entry: int
    """The number of the request in the journal."""
    at_ms: float
    """When the request was read in full, in ms since the run began."""
    received: str
    """What the client received, as text."""
    reaction: str
    """What the client did then, as text."""

    def __str__(self) -> str:
        """One line: `#3 at 1.2 s: HTTP 429; retried after 350 ms (#4)`."""
        events_text = "; ".join(filter(None, (self.received, self.reaction)))
        return f"#{self.entry} at {format_duration(max(0.0, self.at_ms))}: {events_text}"


@dataclass(frozen=True, slots=True)
class VerdictFinding:
    """A violation of a rule in a retry chain."""

    level: FindingLevel
    message: str
    """One sentence, without a full stop."""
    evidence: tuple[FindingEvidence, ...]


def chain_evidence(chain: RetryChain) -> tuple[FindingEvidence, ...]:
    """The evidence of all attempts of a chain."""
    next_attempts = (*chain.attempts[1:], None)
    return tuple(map(attempt_evidence, chain.attempts, next_attempts))


def attempt_evidence(attempt: JournalEntry, next_attempt: JournalEntry | None) -> FindingEvidence:
    """The evidence of one attempt; `next_attempt` is None for the last."""
    retry_text = ""
    if next_attempt is not None:
        count = next_attempt.retry_count
        count_text = "" if count is None else f", SDK retry count {count}"
        retry_text = (
            f"retried after {format_duration(pause_ms(attempt, next_attempt))} "
            f"(#{next_attempt.number}{count_text})"
        )
    elif attempt.needs_retry:
        retry_text = "no retry arrived"
    actions = filter(None, (_departure_text(attempt), retry_text))
    return FindingEvidence(
        attempt.number, attempt.at_ms, describe_received(attempt), "; ".join(actions)
    )


def evidence_of_use(
    chain: RetryChain, spoiled: Sequence[JournalEntry]
) -> tuple[FindingEvidence, ...]:
    """The evidence: each spoiled response that was used, and the request that contains it."""
    return tuple(
        FindingEvidence(
            attempt.number,
            attempt.at_ms,
            describe_received(attempt),
            "sent in the history of request "
            f"#{chain.follow_up_by_attempt_number[attempt.number].number}",
        )
        for attempt in spoiled
    )


def describe_received(attempt: JournalEntry) -> str:
    """What the client received: `HTTP 429, Retry-After 2.0 s (fault status,code=429)`."""
    faults = attempt.injected_faults
    descriptions = [_fault_text(attempt, fault) for fault in faults]
    if not faults and not attempt.status:
        descriptions.append("no response")
    elif not faults:
        is_complete = attempt.status < HTTPStatus.BAD_REQUEST and attempt.ending != ENDING_CUT
        descriptions.append("complete response" if is_complete else f"HTTP {attempt.status}")
    if attempt.retry_after_ms is not None:
        descriptions.append(f"Retry-After {format_duration(attempt.retry_after_ms)}")
    if attempt.should_retry is not None:
        descriptions.append(f"x-should-retry: {str(attempt.should_retry).lower()}")
    rule_texts = "; ".join(fault.rule for fault in faults if fault.rule)
    return ", ".join(dict.fromkeys(descriptions)) + (f" (fault {rule_texts})" if rule_texts else "")


def format_repeat_count(number: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(number) or count_with_noun(number, "time")


def _fault_text(attempt: JournalEntry, fault: FaultRecord) -> str:
    if fault.effect == FaultEffect.REFUSED:
        return f"HTTP {attempt.status}" if attempt.status else "an error response"
    where = ""
    if fault.event is not None:
        where = f" after {count_with_noun(fault.event, 'event')}"
    elif fault.byte is not None:
        where = f" after {count_with_noun(fault.byte, 'byte')}"
    template = _EFFECT_DESCRIPTIONS.get(fault.effect, fault.fault)
    return template.format(where=where) if template else "a fault"


def _departure_text(attempt: JournalEntry) -> str:
    """How long the client stayed connected; empty where it had no choice."""
    if not attempt.is_over:
        return "is still connected"
    duration_text = format_duration(max(0.0, attempt.ms))
    if attempt.ending == ENDING_CLIENT_GONE:
        return f"disconnected after {duration_text}"
    has_stayed = attempt.first_fault_with_effect(*_ABANDONABLE_EFFECTS) is not None
    return f"stayed connected until the end of the response ({duration_text})" if has_stayed else ""
