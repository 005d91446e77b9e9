"""`must-not-retry`: asks again for what was refused for good.

Why it matters: the same request is refused in the same way; each further one costs time and
counts against the limits of the key, and a wrong key asked often enough is blocked.
What to do: let such an answer be seen at once.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import format_duration
from llm_proxy.verdict.attempt_descriptions import attempt_evidence, times_in_words
from llm_proxy.verdict.attempts import JournalAttempt
from llm_proxy.verdict.finding import FindingLevel, VerdictFinding, VerdictRule
from llm_proxy.verdict.retry_chains import RetryChain, pause_ms
from llm_proxy.verdict.retry_hints import forbids_retry

_SOON: Final = 5_000.0
"""Ms after which the same request counts as a new wish, where no SDK counts it as a retry."""
_UNAUTHORISED: Final = 401


def _applies(chain: RetryChain) -> bool:
    return any(map(forbids_retry, chain.attempts))


def _find(chain: RetryChain) -> VerdictFinding | None:
    wrong = [
        (*pair, level) for pair in chain.retried_pairs() if (level := _level(*pair)) is not None
    ]
    if not wrong:
        return None
    first = [pair for pair in wrong if pair[0].status == _UNAUTHORISED][:1]
    levels = [FindingLevel.NOTE if values in first else values[2] for values in wrong]
    worst = max(levels, key=lambda finding_level: finding_level.severity)
    before, after, _ = wrong[levels.index(worst)]
    message = (
        f"asked again for what was refused for good, {times_in_words(len(wrong))}: "
        f"{_refusal_text(before)}, "
        f"and {format_duration(pause_ms(before, after))} later the same "
        f"request{_counts_as_retry(after)}"
    )
    return VerdictFinding(worst, message, tuple(attempt_evidence(*pair[:2]) for pair in wrong))


def _level(before: JournalAttempt, after: JournalAttempt) -> FindingLevel | None:
    """How sure it is that one is a retry of the other; None where it is not."""
    if not forbids_retry(before):
        return None
    if after.retry_count:
        return FindingLevel.ERROR
    return None if pause_ms(before, after) > _SOON else FindingLevel.WARNING


def _refusal_text(attempt: JournalAttempt) -> str:
    told = ", x-should-retry: false" if attempt.should_retry is False else ""
    return f"HTTP {attempt.status}{told}"


def _counts_as_retry(after: JournalAttempt) -> str:
    match after.retry_count:
        case None:
            return ""
        case 0:
            return ", which its SDK counts as a new one: the application asked again by itself"
        case count:
            return f", which its SDK counts as retry {count}"


MUST_NOT_RETRY: Final = VerdictRule(
    "must-not-retry",
    "asks again after an answer that says that it would not help",
    "raise at once after 400, 401, 403, 404, 413, 422 and their kin, and after "
    "x-should-retry: false; a 401 may be asked once more with a new key",
    _applies,
    _find,
)
