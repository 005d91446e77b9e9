"""`truncated-accepted`: the client takes an incomplete response for a complete one.

Why it matters: a body that is complete by HTTP but lacks the provider's terminator raises nothing
in almost any SDK; half a response is displayed, stored, or acted upon.
What to do: check for the end that the provider sends: a finish reason, `message_stop`, `done`.
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
from llm_proxy.verdict.retry_chains import RetryChain, is_disguised_failure

_DETECTABLE_EFFECTS: Final = (FaultEffect.CUT, FaultEffect.STALLED)
"""The effects that HTTP itself reveals: a client that keeps the partial response knows it."""


def _is_truncated(attempt: JournalEntry) -> bool:
    return attempt.first_fault_with_effect(
        FaultEffect.TRUNCATED
    ) is not None or is_disguised_failure(attempt)


def _is_partial(attempt: JournalEntry) -> bool:
    return attempt.first_fault_with_effect(*_DETECTABLE_EFFECTS) is not None


def _applies_to_chain(chain: RetryChain) -> bool:
    return any(map(_is_truncated, chain.attempts)) or bool(chain.used_attempts(_is_partial))


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    if used_attempts := chain.used_attempts(_is_truncated):
        message = "took half an answer for a whole one: it stands in the history of a later request"
        return VerdictFinding(FindingLevel.ERROR, message, evidence_of_use(chain, used_attempts))
    if partial_attempts := chain.used_attempts(_is_partial):
        message = "went on with half an answer: it stands in the history of a later request"
        return VerdictFinding(
            FindingLevel.WARNING, message, evidence_of_use(chain, partial_attempts)
        )
    last = chain.last_attempt
    if not _is_truncated(last) or last.ending != ENDING_SENT:
        return None
    # Without streaming, half a document cannot be parsed at all.
    can_pass_as_complete = last.streams or is_disguised_failure(last)
    return VerdictFinding(
        FindingLevel.WARNING if can_pass_as_complete else FindingLevel.NOTE,
        "an answer that was not whole was not asked for again, and nothing shows that it "
        "was noticed",
        (attempt_evidence(last, None),),
    )


TRUNCATED_ACCEPTED: Final = VerdictRule(
    "truncated-accepted",
    "takes an answer that is not whole for a whole one",
    "use no answer without its end: a finish_reason (OpenAI), message_stop and a stop_reason "
    "(Anthropic), a finishReason (Gemini), done (Ollama); where it is missing, ask again",
    _applies_to_chain,
    _judge_chain,
)
