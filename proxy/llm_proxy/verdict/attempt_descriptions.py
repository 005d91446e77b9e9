"""Describes attempts: what the client received, and what it did then."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from llm_proxy.display import count_with_noun, format_duration
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.attempts import ENDING_CLIENT_GONE, ENDING_CUT, InjectedFault, JournalAttempt
from llm_proxy.verdict.finding import FindingEvidence
from llm_proxy.verdict.retry_chains import RetryChain, pause_ms

_EFFECT_DESCRIPTIONS: Final = {
    FaultEffect.UNANSWERED: "no answer",
    FaultEffect.DISCONNECTED: "a connection that closed before any answer",
    FaultEffect.STALLED: "silence{where}",
    FaultEffect.CUT: "a body that broke off{where}",
    FaultEffect.TRUNCATED: "a body that ended early{where}",
    FaultEffect.FAILED: "the provider's own error{where}",
    FaultEffect.MALFORMED: "what cannot be read{where}",
    FaultEffect.ALTERED: "an answer that was altered{where}",
    FaultEffect.SLOWED: "a slow answer",
}

_ABANDONABLE_EFFECTS: Final = (
    FaultEffect.UNANSWERED,
    FaultEffect.STALLED,
    FaultEffect.TRUNCATED,
    FaultEffect.FAILED,
    FaultEffect.MALFORMED,
)
"""The effects during which a client can either disconnect or stay to the end."""


def chain_evidence(chain: RetryChain) -> tuple[FindingEvidence, ...]:
    """The evidence of all attempts of a chain."""
    next_attempts = (*chain.attempts[1:], None)
    return tuple(
        attempt_evidence(journal_attempt, next_attempt)
        for journal_attempt, next_attempt in zip(chain.attempts, next_attempts, strict=True)
    )


def attempt_evidence(
    attempt: JournalAttempt, next_attempt: JournalAttempt | None
) -> FindingEvidence:
    """The evidence of one attempt; `next_attempt` is None for the last."""
    return FindingEvidence(
        attempt.number,
        attempt.at_ms,
        describe_received(attempt),
        describe_client_action(attempt, next_attempt),
    )


def describe_received(attempt: JournalAttempt) -> str:
    """What the client received: `HTTP 429, told to wait 2.0 s (fault status,code=429)`."""
    fault_texts = [_fault_text(attempt, fault) for fault in attempt.injected_faults]
    descriptions = [*(fault_texts or [_response_text(attempt)])]
    if attempt.retry_after_ms is not None:
        descriptions.append(f"told to wait {format_duration(attempt.retry_after_ms)}")
    if attempt.should_retry is not None:
        descriptions.append(f"x-should-retry: {str(attempt.should_retry).lower()}")
    rule_texts = "; ".join(fault.rule for fault in attempt.injected_faults if fault.rule)
    return ", ".join(dict.fromkeys(descriptions)) + (f" (fault {rule_texts})" if rule_texts else "")


def describe_client_action(attempt: JournalAttempt, next_attempt: JournalAttempt | None) -> str:
    """What the client did: `left after 10.0 s; asked again 350 ms later (#4)`; may be empty."""
    return "; ".join(filter(None, (_departure_text(attempt), _retry_text(attempt, next_attempt))))


def format_evidence(finding_evidence: FindingEvidence) -> str:
    """Evidence as one line: `#3 at 1.2 s: HTTP 429; asked again 350 ms later (#4)`."""
    events_text = "; ".join(filter(None, (finding_evidence.told, finding_evidence.did)))
    time_text = format_duration(max(0.0, finding_evidence.at_ms))
    return f"#{finding_evidence.entry} at {time_text}: {events_text}"


def format_repeat_count(number: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(number) or count_with_noun(number, "time")


def _fault_text(attempt: JournalAttempt, fault: InjectedFault) -> str:
    if fault.effect == FaultEffect.REFUSED:
        return f"HTTP {attempt.status}" if attempt.status else "a refusal"
    template = next(
        (text for effect, text in _EFFECT_DESCRIPTIONS.items() if effect == fault.effect),
        fault.fault,
    )
    return template.format(where=_fault_position_text(fault)) if template else "a fault"


def _fault_position_text(fault: InjectedFault) -> str:
    if fault.event is not None:
        return f" after {count_with_noun(fault.event, 'event')}"
    return "" if fault.byte is None else f" after {count_with_noun(fault.byte, 'byte')}"


def _response_text(attempt: JournalAttempt) -> str:
    if not attempt.status:
        return "no answer"
    is_complete = attempt.status < HTTPStatus.BAD_REQUEST and attempt.ending != ENDING_CUT
    return "an answer" if is_complete else f"HTTP {attempt.status}"


def _departure_text(attempt: JournalAttempt) -> str:
    """How long the client stayed connected; empty where it had no choice."""
    duration_text = format_duration(max(0.0, attempt.ms))
    if not attempt.is_over:
        return "is still there"
    if attempt.ending == ENDING_CLIENT_GONE:
        return f"left after {duration_text}"
    return (
        f"stayed to the end, {duration_text}"
        if attempt.first_fault_with_effect(*_ABANDONABLE_EFFECTS) is not None
        else ""
    )


def _retry_text(attempt: JournalAttempt, next_attempt: JournalAttempt | None) -> str:
    if next_attempt is None:
        return "did not ask again" if attempt.needs_retry else ""
    count = next_attempt.retry_count
    count_text = "" if count is None else f", retry {count} by its SDK's count"
    return (
        f"asked again {format_duration(pause_ms(attempt, next_attempt))} later "
        f"(#{next_attempt.number}{count_text})"
    )
