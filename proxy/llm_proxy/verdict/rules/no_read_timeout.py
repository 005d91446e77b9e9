"""`no-read-timeout`: waits in silence for as long as nobody ends it.

Why it matters: a provider, or something on the way to it, falls silent without closing; who waits
for ever hangs, with all that waits for it.
What to do: set a limit to silence: a read timeout; and one for the whole answer, which keep-alives
do not reset.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import duration
from llm_proxy.faults.fault_record import Effect
from llm_proxy.verdict.attempts import CUT, Attempt
from llm_proxy.verdict.finding import Finding, Level, Rule
from llm_proxy.verdict.retry_chains import Chain
from llm_proxy.verdict.sentences import evidence_of

_LONGEST: Final = 600_000.0
"""Ms: the longest read timeout that an SDK comes with; who waits longer has none."""
_LONG: Final = 60_000.0
"""Ms of silence that hardly anybody means to wait; shorter ones can be meant."""
_KEPT_ALIVE: Final = "stall-keepalive"
"""The fault whose keep-alives reset a read timeout: only a limit for the whole answer ends it."""

_SILENCES: Final = (Effect.UNANSWERED, Effect.STALLED)


def _is_silent(attempt: Attempt) -> bool:
    return attempt.is_over and attempt.met(*_SILENCES) is not None


def _waited(attempt: Attempt) -> float:
    """How long the client sat in silence until we ended it, in ms; 0 where it ended it itself."""
    fault = attempt.met(*_SILENCES)
    return 0.0 if fault is None or attempt.ending != CUT else max(0.0, attempt.ms - fault.at_ms)


def _concerns(chain: Chain) -> bool:
    return any(map(_is_silent, chain.attempts))


def _judge(chain: Chain) -> Finding | None:
    patient = [it for it in chain.attempts if _waited(it) > 0]
    if not patient:
        return None
    longest = max(patient, key=_waited)
    waited = _waited(longest)
    is_kept_alive = any(it.fault == _KEPT_ALIVE for it in longest.struck)
    limit = "limit for the whole answer" if is_kept_alive else "read timeout"
    message = f"waited {duration(waited)} in silence until it was ended: no {limit}"
    if waited < _LONGEST:
        message += f" below {duration(waited)}"
    followers = {before.number: after for before, after in chain.followed()}
    found = tuple(evidence_of(it, followers.get(it.number)) for it in patient)
    return Finding(_level(waited, is_kept_alive=is_kept_alive), message, found)


def _level(waited: float, *, is_kept_alive: bool) -> Level:
    if waited < _LONG:
        return Level.NOTE
    return Level.WARNING if waited < _LONGEST or is_kept_alive else Level.ERROR


NO_READ_TIMEOUT: Final = Rule(
    "no-read-timeout",
    "waits in silence for as long as nobody ends it",
    "give the client a read timeout (timeout=30 in the SDKs of OpenAI, Anthropic and Ollama, "
    "which come with ten minutes or none), and the whole answer a limit of its own",
    _concerns,
    _judge,
)
