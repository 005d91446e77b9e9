"""`failed-accepted`: passes over an error that the provider sends amid its answer.

Why it matters: such an error comes with HTTP 200 before it, so nothing but the stream says it;
what came before it is no answer.
What to do: look for the provider's error among the events, and ask again.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.faults.fault_record import Effect
from llm_proxy.verdict.attempts import SENT, Attempt
from llm_proxy.verdict.finding import Finding, Level, Rule
from llm_proxy.verdict.retry_chains import Chain
from llm_proxy.verdict.sentences import evidence_of
from llm_proxy.verdict.use_of_spoiled import evidence_of_taking, taken


def _is_failed(attempt: Attempt) -> bool:
    return attempt.met(Effect.FAILED) is not None


def _concerns(chain: Chain) -> bool:
    return any(map(_is_failed, chain.attempts))


def _judge(chain: Chain) -> Finding | None:
    if shown := taken(chain, _is_failed):
        message = (
            "used an answer of which the provider said that it failed: it stands in the history "
            "of a later request"
        )
        return Finding(Level.ERROR, message, evidence_of_taking(chain, shown))
    if _is_failed(chain.last) and chain.last.ending == SENT:
        message = (
            "the provider's error amid an answer was not asked again after, and nothing shows "
            "that it was noticed"
        )
        return Finding(Level.NOTE, message, (evidence_of(chain.last, None),))
    return None


FAILED_ACCEPTED: Final = Rule(
    "failed-accepted",
    "passes over an error that the provider sends amid its answer",
    "catch what the SDK raises within the loop that reads the stream (APIError of OpenAI's and "
    "Anthropic's), and ask again; Cohere's raises nothing: look for finish_reason ERROR",
    _concerns,
    _judge,
)
