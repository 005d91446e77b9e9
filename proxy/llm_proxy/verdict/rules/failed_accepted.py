"""`failed-accepted`: the client ignores an error event within a response.

Why it matters: the status was HTTP 200 already, so only the stream reports such an error; the text
before it is no complete response.
What to do: check the events for the provider's error, and retry.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.journal_document import ENDING_SENT, JournalEntry
from llm_proxy.verdict.findings import (
    FindingLevel,
    VerdictFinding,
    VerdictRule,
    attempt_evidence,
    evidence_of_use,
)
from llm_proxy.verdict.retry_chains import RetryChain


def _has_error_event(attempt: JournalEntry) -> bool:
    return attempt.first_fault_with_effect(FaultEffect.FAILED) is not None


def _applies_to_chain(chain: RetryChain) -> bool:
    return any(map(_has_error_event, chain.attempts))


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    if used_attempts := chain.used_attempts(_has_error_event):
        message = (
            "used an answer of which the provider said that it failed: it stands in the history "
            "of a later request"
        )
        return VerdictFinding(FindingLevel.ERROR, message, evidence_of_use(chain, used_attempts))
    if _has_error_event(chain.last_attempt) and chain.last_attempt.ending == ENDING_SENT:
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
    _applies_to_chain,
    _judge_chain,
)
