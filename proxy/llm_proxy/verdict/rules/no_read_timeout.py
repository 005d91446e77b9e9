"""`no-read-timeout`: the client waits in silence without a time limit.

Why it matters: a provider, or a hop on the way to it, stops sending without closing; a client
without a limit hangs, with everything that waits for it.
What to do: set a read timeout, and a limit for the whole response, which keep-alives do not reset.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import format_duration
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.attempt_descriptions import attempt_evidence
from llm_proxy.verdict.attempts import ENDING_CUT, JournalAttempt
from llm_proxy.verdict.finding import FindingLevel, VerdictFinding, VerdictRule
from llm_proxy.verdict.retry_chains import RetryChain

_MAX_SDK_TIMEOUT_MS: Final = 600_000.0
"""The longest default read timeout of an SDK; a client that waits longer has none."""
_LONG_SILENCE_MS: Final = 60_000.0
"""A silence that hardly any client waits for on purpose; shorter waits can be intended."""
_KEEP_ALIVE_FAULT: Final = "stall-keepalive"
"""The fault whose keep-alives reset a read timeout: only a limit for the whole response ends it."""

_SILENT_EFFECTS: Final = (FaultEffect.UNANSWERED, FaultEffect.STALLED)


def _met_silence(attempt: JournalAttempt) -> bool:
    return attempt.is_over and attempt.first_fault_with_effect(*_SILENT_EFFECTS) is not None


def _waited_in_silence_ms(attempt: JournalAttempt) -> float:
    """The client's wait in silence, in ms, until the proxy ended it; 0 if the client did."""
    fault = attempt.first_fault_with_effect(*_SILENT_EFFECTS)
    return (
        0.0 if fault is None or attempt.ending != ENDING_CUT else max(0.0, attempt.ms - fault.at_ms)
    )


def _applies_to_chain(chain: RetryChain) -> bool:
    return any(map(_met_silence, chain.attempts))


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    silent_attempts = [attempt for attempt in chain.attempts if _waited_in_silence_ms(attempt) > 0]
    if not silent_attempts:
        return None
    longest_attempt = max(silent_attempts, key=_waited_in_silence_ms)
    waited_ms = _waited_in_silence_ms(longest_attempt)
    is_kept_alive = any(
        injected_fault.fault == _KEEP_ALIVE_FAULT
        for injected_fault in longest_attempt.injected_faults
    )
    limit = "limit for the whole answer" if is_kept_alive else "read timeout"
    message = f"waited {format_duration(waited_ms)} in silence until it was ended: no {limit}"
    if waited_ms < _MAX_SDK_TIMEOUT_MS:
        message += f" below {format_duration(waited_ms)}"
    next_attempts = {before.number: after for before, after in chain.retried_pairs()}
    evidence = tuple(
        attempt_evidence(journal_attempt, next_attempts.get(journal_attempt.number))
        for journal_attempt in silent_attempts
    )
    return VerdictFinding(_finding_level(waited_ms, is_kept_alive=is_kept_alive), message, evidence)


def _finding_level(waited_ms: float, *, is_kept_alive: bool) -> FindingLevel:
    if waited_ms < _LONG_SILENCE_MS:
        return FindingLevel.NOTE
    return (
        FindingLevel.WARNING
        if waited_ms < _MAX_SDK_TIMEOUT_MS or is_kept_alive
        else FindingLevel.ERROR
    )


NO_READ_TIMEOUT: Final = VerdictRule(
    "no-read-timeout",
    "waits in silence for as long as nobody ends it",
    "give the client a read timeout (timeout=30 in the SDKs of OpenAI, Anthropic and Ollama, "
    "which come with ten minutes or none), and the whole answer a limit of its own",
    _applies_to_chain,
    _judge_chain,
)
