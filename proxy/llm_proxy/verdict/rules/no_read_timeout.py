"""`no-read-timeout`: waits in silence for as long as nobody ends it.

Why it matters: a provider, or something on the way to it, falls silent without closing; who waits
for ever hangs, with all that waits for it.
What to do: set a limit to silence: a read timeout; and one for the whole answer, which keep-alives
do not reset.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import format_duration
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.attempt_descriptions import attempt_evidence
from llm_proxy.verdict.attempts import CUT, JournalAttempt
from llm_proxy.verdict.finding import FindingLevel, VerdictFinding, VerdictRule
from llm_proxy.verdict.retry_chains import RetryChain

_LONGEST: Final = 600_000.0
"""Ms: the longest read timeout that an SDK comes with; who waits longer has none."""
_LONG: Final = 60_000.0
"""Ms of silence that hardly anybody means to wait; shorter ones can be meant."""
_KEPT_ALIVE: Final = "stall-keepalive"
"""The fault whose keep-alives reset a read timeout: only a limit for the whole answer ends it."""

_SILENCES: Final = (FaultEffect.UNANSWERED, FaultEffect.STALLED)


def _met_silence(attempt: JournalAttempt) -> bool:
    return attempt.is_over and attempt.first_fault_with_effect(*_SILENCES) is not None


def _waited_ms(attempt: JournalAttempt) -> float:
    """How long the client sat in silence until we ended it, in ms; 0 where it ended it itself."""
    fault = attempt.first_fault_with_effect(*_SILENCES)
    return 0.0 if fault is None or attempt.ending != CUT else max(0.0, attempt.ms - fault.at_ms)


def _applies(chain: RetryChain) -> bool:
    return any(map(_met_silence, chain.attempts))


def _find(chain: RetryChain) -> VerdictFinding | None:
    patient = [attempt for attempt in chain.attempts if _waited_ms(attempt) > 0]
    if not patient:
        return None
    longest = max(patient, key=_waited_ms)
    waited = _waited_ms(longest)
    is_kept_alive = any(
        injected_fault.fault == _KEPT_ALIVE for injected_fault in longest.injected_faults
    )
    limit = "limit for the whole answer" if is_kept_alive else "read timeout"
    message = f"waited {format_duration(waited)} in silence until it was ended: no {limit}"
    if waited < _LONGEST:
        message += f" below {format_duration(waited)}"
    followers = {before.number: after for before, after in chain.retried_pairs()}
    found = tuple(
        attempt_evidence(journal_attempt, followers.get(journal_attempt.number))
        for journal_attempt in patient
    )
    return VerdictFinding(_level(waited, is_kept_alive=is_kept_alive), message, found)


def _level(waited: float, *, is_kept_alive: bool) -> FindingLevel:
    if waited < _LONG:
        return FindingLevel.NOTE
    return FindingLevel.WARNING if waited < _LONGEST or is_kept_alive else FindingLevel.ERROR


NO_READ_TIMEOUT: Final = VerdictRule(
    "no-read-timeout",
    "waits in silence for as long as nobody ends it",
    "give the client a read timeout (timeout=30 in the SDKs of OpenAI, Anthropic and Ollama, "
    "which come with ten minutes or none), and the whole answer a limit of its own",
    _applies,
    _find,
)
