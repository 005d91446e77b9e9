"""Describes attempts: what the client received, and what it did then."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from llm_proxy.display import count_noun, format_duration
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.attempts import CUT, GONE, InjectedFault, JournalAttempt
from llm_proxy.verdict.finding import FindingEvidence
from llm_proxy.verdict.retry_chains import RetryChain, pause_ms

_MET: Final = {
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

_LASTING: Final = (
    FaultEffect.UNANSWERED,
    FaultEffect.STALLED,
    FaultEffect.TRUNCATED,
    FaultEffect.FAILED,
    FaultEffect.MALFORMED,
)
"""What a client can leave before its end, or stay."""


def chain_evidence(chain: RetryChain) -> tuple[FindingEvidence, ...]:
    """What happened in a chain, attempt by attempt."""
    followers = (*chain.attempts[1:], None)
    return tuple(
        attempt_evidence(journal_attempt, after)
        for journal_attempt, after in zip(chain.attempts, followers, strict=True)
    )


def attempt_evidence(attempt: JournalAttempt, after: JournalAttempt | None) -> FindingEvidence:
    """What happened in one attempt; `after` is the next one, where there is any."""
    return FindingEvidence(
        attempt.number,
        attempt.at_ms,
        describe_received(attempt),
        describe_client_action(attempt, after),
    )


def describe_received(attempt: JournalAttempt) -> str:
    """What the client met: `HTTP 429, told to wait 2.0 s (fault status,code=429)`."""
    met = [_fault_text(attempt, fault) for fault in attempt.injected_faults]
    words = [*(met or [_response_text(attempt)])]
    if attempt.retry_after_ms is not None:
        words.append(f"told to wait {format_duration(attempt.retry_after_ms)}")
    if attempt.should_retry is not None:
        words.append(f"x-should-retry: {str(attempt.should_retry).lower()}")
    rules = "; ".join(fault.rule for fault in attempt.injected_faults if fault.rule)
    return ", ".join(dict.fromkeys(words)) + (f" (fault {rules})" if rules else "")


def describe_client_action(attempt: JournalAttempt, after: JournalAttempt | None) -> str:
    """What the client did: `left after 10.0 s; asked again 350 ms later (#4)`; may be empty."""
    return "; ".join(filter(None, (_stay_text(attempt), _next_step_text(attempt, after))))


def evidence_line(finding_evidence: FindingEvidence) -> str:
    """One piece of evidence: `#3 at 1.2 s: HTTP 429; asked again 350 ms later (#4)`."""
    happened = "; ".join(filter(None, (finding_evidence.told, finding_evidence.did)))
    at = format_duration(max(0.0, finding_evidence.at_ms))
    return f"#{finding_evidence.entry} at {at}: {happened}"


def times_in_words(number: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(number) or count_noun(number, "time")


def _fault_text(attempt: JournalAttempt, fault: InjectedFault) -> str:
    if fault.effect == FaultEffect.REFUSED:
        return f"HTTP {attempt.status}" if attempt.status else "a refusal"
    words = next((text for effect, text in _MET.items() if effect == fault.effect), fault.fault)
    return words.format(where=_fault_position(fault)) if words else "a fault"


def _fault_position(fault: InjectedFault) -> str:
    if fault.event is not None:
        return f" after {count_noun(fault.event, 'event')}"
    return "" if fault.byte is None else f" after {count_noun(fault.byte, 'byte')}"


def _response_text(attempt: JournalAttempt) -> str:
    if not attempt.status:
        return "no answer"
    is_whole = attempt.status < HTTPStatus.BAD_REQUEST and attempt.ending != CUT
    return "an answer" if is_whole else f"HTTP {attempt.status}"


def _stay_text(attempt: JournalAttempt) -> str:
    """How long the client stayed, where that was its own choice."""
    took = format_duration(max(0.0, attempt.ms))
    if not attempt.is_over:
        return "is still there"
    if attempt.ending == GONE:
        return f"left after {took}"
    return (
        f"stayed to the end, {took}"
        if attempt.first_fault_with_effect(*_LASTING) is not None
        else ""
    )


def _next_step_text(attempt: JournalAttempt, after: JournalAttempt | None) -> str:
    if after is None:
        return "did not ask again" if attempt.is_spoiled else ""
    count = after.retry_count
    counting = "" if count is None else f", retry {count} by its SDK's count"
    return (
        f"asked again {format_duration(pause_ms(attempt, after))} later (#{after.number}{counting})"
    )
