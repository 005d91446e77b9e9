"""`truncated-accepted`: the client takes an incomplete response for a complete one.

Why it matters: a body that is complete by HTTP but lacks the provider's terminator raises nothing
in almost any SDK; half a response is displayed, stored, or acted upon.
What to do: check for the end that the provider sends: a finish reason, `message_stop`, `done`.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.attempt_descriptions import attempt_evidence
from llm_proxy.verdict.attempts import ENDING_SENT, JournalAttempt
from llm_proxy.verdict.finding import FindingLevel, VerdictFinding, VerdictRule
from llm_proxy.verdict.retry_chains import RetryChain
from llm_proxy.verdict.retry_hints import is_disguised_failure
from llm_proxy.verdict.spoiled_response_use import evidence_of_use, used_spoiled_attempts

_DETECTABLE_EFFECTS: Final = (FaultEffect.CUT, FaultEffect.STALLED)
"""The effects that HTTP itself reveals: a client that keeps the partial response knows it."""


def _is_truncated(attempt: JournalAttempt) -> bool:
    return attempt.first_fault_with_effect(
        FaultEffect.TRUNCATED
    ) is not None or is_disguised_failure(attempt)


def _was_partial_used(attempt: JournalAttempt, chain: RetryChain) -> bool:
    return (
        attempt.number in chain.follow_up_by_attempt_number
        and attempt.first_fault_with_effect(*_DETECTABLE_EFFECTS) is not None
    )


def _can_pass_as_complete(attempt: JournalAttempt) -> bool:
    """Whether it looks complete: without streaming, half a document cannot be parsed at all."""
    return attempt.streams or is_disguised_failure(attempt)


def _applies_to_chain(chain: RetryChain) -> bool:
    return any(
        _is_truncated(attempt) or _was_partial_used(attempt, chain) for attempt in chain.attempts
    )


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    used_attempts = used_spoiled_attempts(chain, _is_truncated)
    if used_attempts:
        message = "took half an answer for a whole one: it stands in the history of a later request"
        return VerdictFinding(FindingLevel.ERROR, message, evidence_of_use(chain, used_attempts))
    if used_partial_attempts := used_spoiled_attempts(
        chain, lambda journal_attempt: _was_partial_used(journal_attempt, chain)
    ):
        message = "went on with half an answer: it stands in the history of a later request"
        return VerdictFinding(
            FindingLevel.WARNING, message, evidence_of_use(chain, used_partial_attempts)
        )
    if _is_truncated(chain.last_attempt) and chain.last_attempt.ending == ENDING_SENT:
        message = "an answer that was not whole was not asked for again, and nothing shows that it "
        level = (
            FindingLevel.WARNING if _can_pass_as_complete(chain.last_attempt) else FindingLevel.NOTE
        )
        return VerdictFinding(
            level, message + "was noticed", (attempt_evidence(chain.last_attempt, None),)
        )
    return None


TRUNCATED_ACCEPTED: Final = VerdictRule(
    "truncated-accepted",
    "takes an answer that is not whole for a whole one",
    "use no answer without its end: a finish_reason (OpenAI), message_stop and a stop_reason "
    "(Anthropic), a finishReason (Gemini), done (Ollama); where it is missing, ask again",
    _applies_to_chain,
    _judge_chain,
)
