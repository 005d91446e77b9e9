"""`truncated-accepted`: takes an answer that is not whole for a whole one.

Why it matters: a body that HTTP calls complete and that lacks the provider's own end raises
nothing in almost any SDK; half an answer is shown, stored, or acted upon.
What to do: look for the end that the provider sends: a finish reason, `message_stop`, `done`.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.faults.fault_record import Effect
from llm_proxy.verdict.attempts import SENT, Attempt
from llm_proxy.verdict.finding import Finding, Level, Rule
from llm_proxy.verdict.retry_chains import Chain
from llm_proxy.verdict.retry_hints import stands_in
from llm_proxy.verdict.sentences import evidence_of
from llm_proxy.verdict.use_of_spoiled import evidence_of_taking, taken

_BROKEN_OFF: Final = (Effect.CUT, Effect.STALLED)
"""After these HTTP itself says that something is missing: who keeps the part knows it."""


def _is_short(attempt: Attempt) -> bool:
    return attempt.met(Effect.TRUNCATED) is not None or stands_in(attempt)


def _is_kept(attempt: Attempt, chain: Chain) -> bool:
    return attempt.number in chain.continued and attempt.met(*_BROKEN_OFF) is not None


def _can_pass(attempt: Attempt) -> bool:
    """Whether it can be taken for whole: half a document is none, and whatever reads it raises."""
    return attempt.streams or stands_in(attempt)


def _concerns(chain: Chain) -> bool:
    return any(_is_short(it) or _is_kept(it, chain) for it in chain.attempts)


def _judge(chain: Chain) -> Finding | None:
    shown = taken(chain, _is_short)
    if shown:
        message = "took half an answer for a whole one: it stands in the history of a later request"
        return Finding(Level.ERROR, message, evidence_of_taking(chain, shown))
    if kept := taken(chain, lambda it: _is_kept(it, chain)):
        message = "went on with half an answer: it stands in the history of a later request"
        return Finding(Level.WARNING, message, evidence_of_taking(chain, kept))
    if _is_short(chain.last) and chain.last.ending == SENT:
        message = "an answer that was not whole was not asked for again, and nothing shows that it "
        level = Level.WARNING if _can_pass(chain.last) else Level.NOTE
        return Finding(level, message + "was noticed", (evidence_of(chain.last, None),))
    return None


TRUNCATED_ACCEPTED: Final = Rule(
    "truncated-accepted",
    "takes an answer that is not whole for a whole one",
    "use no answer without its end: a finish_reason (OpenAI), message_stop and a stop_reason "
    "(Anthropic), a finishReason (Gemini), done (Ollama); where it is missing, ask again",
    _concerns,
    _judge,
)
