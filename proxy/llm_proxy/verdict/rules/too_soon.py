"""`too-soon`: the client retries before the time in `Retry-After`.

Why it matters: a provider counts early requests against the limit, and limits the client longer.
What to do: wait for the time in the header: in seconds, in ms, or until a date.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import format_duration
from llm_proxy.journal_document import JournalEntry
from llm_proxy.verdict.findings import (
    FindingLevel,
    VerdictFinding,
    VerdictRule,
    attempt_evidence,
    format_repeat_count,
)
from llm_proxy.verdict.retry_chains import RetryChain, pause_ms

_TOLERANCE_FRACTION: Final = 0.05
"""The fraction of the time that may be missing because of clocks and rounding."""
_TOLERANCE_MS: Final = 50.0
"""The ms that may always be missing: by how much a timer and a scheduler may be early."""


def _is_early(before: JournalEntry, after: JournalEntry) -> bool:
    retry_after_ms = before.retry_after_ms or 0.0
    tolerance_ms = max(_TOLERANCE_FRACTION * retry_after_ms, _TOLERANCE_MS)
    return retry_after_ms > 0 and pause_ms(before, after) < retry_after_ms - tolerance_ms


def _applies_to_chain(chain: RetryChain) -> bool:
    return any((before.retry_after_ms or 0.0) > 0 for before, _ in chain.retried_pairs())


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    early_retries = [pair for pair in chain.retried_pairs() if _is_early(*pair)]
    if not early_retries:
        return None
    before, after = min(early_retries, key=lambda pair: pause_ms(*pair))
    message = (
        f"asked again too soon, {format_repeat_count(len(early_retries))}: after "
        f"{format_duration(pause_ms(before, after))}, "
        f"where it was told to wait {format_duration(before.retry_after_ms or 0.0)}"
    )
    return VerdictFinding(
        FindingLevel.ERROR, message, tuple(attempt_evidence(*pair) for pair in early_retries)
    )


TOO_SOON: Final = VerdictRule(
    "too-soon",
    "asks again before Retry-After allows it",
    "wait for the time in retry-after-ms or Retry-After before asking again; the SDKs of OpenAI "
    "and Anthropic do where their retries are left on",
    _applies_to_chain,
    _judge_chain,
)
