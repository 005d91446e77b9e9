"""Attempts in words: what the client met, and what it did then."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from llm_proxy.display import counted, duration
from llm_proxy.faults.fault_record import Effect
from llm_proxy.verdict.attempts import CUT, GONE, Attempt, Fault
from llm_proxy.verdict.finding import Evidence
from llm_proxy.verdict.retry_chains import Chain, pause

_MET: Final = {
    Effect.UNANSWERED: "no answer",
    Effect.DISCONNECTED: "a connection that closed before any answer",
    Effect.STALLED: "silence{where}",
    Effect.CUT: "a body that broke off{where}",
    Effect.TRUNCATED: "a body that ended early{where}",
    Effect.FAILED: "the provider's own error{where}",
    Effect.MALFORMED: "what cannot be read{where}",
    Effect.ALTERED: "an answer that was altered{where}",
    Effect.SLOWED: "a slow answer",
}

_LASTING: Final = (
    Effect.UNANSWERED,
    Effect.STALLED,
    Effect.TRUNCATED,
    Effect.FAILED,
    Effect.MALFORMED,
)
"""What a client can leave before its end, or stay."""


def evidence(chain: Chain) -> tuple[Evidence, ...]:
    """What happened in a chain, attempt by attempt."""
    followers = (*chain.attempts[1:], None)
    return tuple(
        evidence_of(it, after) for it, after in zip(chain.attempts, followers, strict=True)
    )


def evidence_of(attempt: Attempt, after: Attempt | None) -> Evidence:
    """What happened in one attempt; `after` is the next one, where there is any."""
    return Evidence(attempt.number, attempt.at_ms, told(attempt), did(attempt, after))


def told(attempt: Attempt) -> str:
    """What the client met: `HTTP 429, told to wait 2.0 s (fault status,code=429)`."""
    met = [_met(attempt, fault) for fault in attempt.struck]
    words = [*(met or [_came(attempt)])]
    if attempt.retry_after_ms is not None:
        words.append(f"told to wait {duration(attempt.retry_after_ms)}")
    if attempt.should_retry is not None:
        words.append(f"x-should-retry: {str(attempt.should_retry).lower()}")
    rules = "; ".join(fault.rule for fault in attempt.struck if fault.rule)
    return ", ".join(dict.fromkeys(words)) + (f" (fault {rules})" if rules else "")


def did(attempt: Attempt, after: Attempt | None) -> str:
    """What the client did: `left after 10.0 s; asked again 350 ms later (#4)`; may be empty."""
    return "; ".join(filter(None, (_stayed(attempt), _went_on(attempt, after))))


def line(it: Evidence) -> str:
    """One piece of evidence: `#3 at 1.2 s: HTTP 429; asked again 350 ms later (#4)`."""
    happened = "; ".join(filter(None, (it.told, it.did)))
    return f"#{it.entry} at {duration(max(0.0, it.at_ms))}: {happened}"


def times(number: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(number) or counted(number, "time")


def _met(attempt: Attempt, fault: Fault) -> str:
    if fault.effect == Effect.REFUSED:
        return f"HTTP {attempt.status}" if attempt.status else "a refusal"
    words = next((text for effect, text in _MET.items() if effect == fault.effect), fault.fault)
    return words.format(where=_where(fault)) if words else "a fault"


def _where(fault: Fault) -> str:
    if fault.event is not None:
        return f" after {counted(fault.event, 'event')}"
    return "" if fault.byte is None else f" after {counted(fault.byte, 'byte')}"


def _came(attempt: Attempt) -> str:
    if not attempt.status:
        return "no answer"
    is_whole = attempt.status < HTTPStatus.BAD_REQUEST and attempt.ending != CUT
    return "an answer" if is_whole else f"HTTP {attempt.status}"


def _stayed(attempt: Attempt) -> str:
    """How long the client stayed, where that was its own choice."""
    took = duration(max(0.0, attempt.ms))
    if not attempt.is_over:
        return "is still there"
    if attempt.ending == GONE:
        return f"left after {took}"
    return f"stayed to the end, {took}" if attempt.met(*_LASTING) is not None else ""


def _went_on(attempt: Attempt, after: Attempt | None) -> str:
    if after is None:
        return "did not ask again" if attempt.is_spoiled else ""
    count = after.retry_count
    counting = "" if count is None else f", retry {count} by its SDK's count"
    return f"asked again {duration(pause(attempt, after))} later (#{after.number}{counting})"
