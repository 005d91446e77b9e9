"""`failed-accepted`: passes over an error that the provider sends amid its answer.

Why it matters: such an error comes with HTTP 200 before it, so nothing but the stream says it;
what came before it is no answer.
What to do: look for the provider's error among the events, and ask again.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.attempt_descriptions import attempt_evidence
from llm_proxy.verdict.attempts import SENT, JournalAttempt
from llm_proxy.verdict.finding import FindingLevel, VerdictFinding, VerdictRule
from llm_proxy.verdict.retry_chains import RetryChain
from llm_proxy.verdict.spoiled_usage import evidence_of_use, used_spoiled_attempts


def _has_error_event(attempt: JournalAttempt) -> bool:
    return attempt.first_fault_with_effect(FaultEffect.FAILED) is not None


def _applies(chain: RetryChain) -> bool:
    return any(map(_has_error_event, chain.attempts))


def _find(chain: RetryChain) -> VerdictFinding | None:
    if shown := used_spoiled_attempts(chain, _has_error_event):
        message = (
            "used an answer of which the provider said that it failed: it stands in the history "
            "of a later request"
        )
        return VerdictFinding(FindingLevel.ERROR, message, evidence_of_use(chain, shown))
    if _has_error_event(chain.last_attempt) and chain.last_attempt.ending == SENT:
        message = (
            "the provider's error amid an answer was not asked again after, and nothing shows "
            "that it was noticed"
        )
        return VerdictFinding(
            FindingLevel.NOTE, message, (attempt_evidence(chain.last_attempt, None),)
        )
    return None


FAILED_ACCEPTED: Final = VerdictRule(
    "failed-accepted",
    "passes over an error that the provider sends amid its answer",
    "catch what the SDK raises within the loop that reads the stream (APIError of OpenAI's and "
    "Anthropic's), and ask again; Cohere's raises nothing: look for finish_reason ERROR",
    _applies,
    _find,
)
