"""`must-not-retry`: asks again for what was refused for good.

Why it matters: the same request is refused in the same way; each further one costs time and
counts against the limits of the key, and a wrong key asked often enough is blocked.
What to do: let such an answer be seen at once.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import duration
from llm_proxy.verdict.attempts import Attempt
from llm_proxy.verdict.finding import Finding, Level, Rule
from llm_proxy.verdict.retry_chains import Chain, pause
from llm_proxy.verdict.retry_hints import forbids
from llm_proxy.verdict.sentences import evidence_of, times

_SOON: Final = 5_000.0
"""Ms after which the same request counts as a new wish, where no SDK counts it as a retry."""
_UNAUTHORISED: Final = 401


def _concerns(chain: Chain) -> bool:
    return any(map(forbids, chain.attempts))


def _judge(chain: Chain) -> Finding | None:
    wrong = [(*pair, level) for pair in chain.followed() if (level := _level(*pair)) is not None]
    if not wrong:
        return None
    first = [pair for pair in wrong if pair[0].status == _UNAUTHORISED][:1]
    levels = [Level.NOTE if it in first else it[2] for it in wrong]
    worst = max(levels, key=lambda it: it.weight)
    before, after, _ = wrong[levels.index(worst)]
    message = (
        f"asked again for what was refused for good, {times(len(wrong))}: {_refusal(before)}, "
        f"and {duration(pause(before, after))} later the same request{_counted(after)}"
    )
    return Finding(worst, message, tuple(evidence_of(*pair[:2]) for pair in wrong))


def _level(before: Attempt, after: Attempt) -> Level | None:
    """How sure it is that one is a retry of the other; None where it is not."""
    if not forbids(before):
        return None
    if after.retry_count:
        return Level.ERROR
    return None if pause(before, after) > _SOON else Level.WARNING


def _refusal(attempt: Attempt) -> str:
    told = ", x-should-retry: false" if attempt.should_retry is False else ""
    return f"HTTP {attempt.status}{told}"


def _counted(after: Attempt) -> str:
    match after.retry_count:
        case None:
            return ""
        case 0:
            return ", which its SDK counts as a new one: the application asked again by itself"
        case count:
            return f", which its SDK counts as retry {count}"


MUST_NOT_RETRY: Final = Rule(
    "must-not-retry",
    "asks again after an answer that says that it would not help",
    "raise at once after 400, 401, 403, 404, 413, 422 and their kin, and after "
    "x-should-retry: false; a 401 may be asked once more with a new key",
    _concerns,
    _judge,
)
