"""`no-read-timeout`: the client waits in silence without a time limit.

Why it matters: a provider, or a hop on the way to it, stops sending without closing; a client
without a limit hangs, with everything that waits for it.
What to do: set a read timeout, and a limit for the whole response, which keep-alives do not reset.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import format_duration
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.journal_document import ENDING_CUT, JournalEntry
from llm_proxy.verdict.findings import FindingLevel, VerdictFinding, VerdictRule, attempt_evidence
from llm_proxy.verdict.retry_chains import RetryChain

_MAX_SDK_TIMEOUT_MS: Final = 600_000.0
"""The longest default read timeout of an SDK; a client that waits longer has none."""
_LONG_SILENCE_MS: Final = 60_000.0
"""A silence that hardly any client waits for on purpose; shorter waits can be intended."""
_KEEP_ALIVE_FAULT: Final = "stall-keepalive"
"""The fault whose keep-alives reset a read timeout: only a limit for the whole response ends it."""

_SILENT_EFFECTS: Final = (FaultEffect.UNANSWERED, FaultEffect.STALLED)


def _waited_in_silence_ms(attempt: JournalEntry) -> float:
    """The client's wait in silence, in ms, until the proxy ended it; 0 if the client did."""
    fault = attempt.first_fault_with_effect(*_SILENT_EFFECTS)
    return (
        0.0 if fault is None or attempt.ending != ENDING_CUT else max(0.0, attempt.ms - fault.at_ms)
    )


def _applies_to_chain(chain: RetryChain) -> bool:
    return any(
        attempt.is_over and attempt.first_fault_with_effect(*_SILENT_EFFECTS) is not None
        for attempt in chain.attempts
    )


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    silent_attempts = [attempt for attempt in chain.attempts if _waited_in_silence_ms(attempt) > 0]
    if not silent_attempts:
        return None
    longest_attempt = max(silent_attempts, key=_waited_in_silence_ms)
    waited_ms = _waited_in_silence_ms(longest_attempt)
    is_kept_alive = any(
        fault.fault == _KEEP_ALIVE_FAULT for fault in longest_attempt.injected_faults
    )
    limit = "limit for the whole answer" if is_kept_alive else "read timeout"
    message = f"waited {format_duration(waited_ms)} in silence until it was ended: no {limit}"
    if waited_ms < _MAX_SDK_TIMEOUT_MS:
        message += f" below {format_duration(waited_ms)}"
    level = FindingLevel.ERROR
    if waited_ms < _LONG_SILENCE_MS:
        level = FindingLevel.NOTE
    elif waited_ms < _MAX_SDK_TIMEOUT_MS or is_kept_alive:
        level = FindingLevel.WARNING
    next_attempts = {before.number: after for before, after in chain.retried_pairs()}
    evidence = tuple(
        attempt_evidence(attempt, next_attempts.get(attempt.number)) for attempt in silent_attempts
    )
    return VerdictFinding(level, message, evidence)


NO_READ_TIMEOUT: Final = VerdictRule(
    "no-read-timeout",
    "waits in silence for as long as nobody ends it",
    "give the client a read timeout (timeout=30 in the SDKs of OpenAI, Anthropic and Ollama, "
    "which come with ten minutes or none), and the whole answer a limit of its own",
    _applies_to_chain,
    _judge_chain,
)
