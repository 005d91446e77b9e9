"""`malformed-accepted`: passes over what it cannot read, and takes the rest.

Why it matters: an answer with a hole in it looks like any other; of a tool call, it is another
call.
What to do: let a part that cannot be read end the answer, and ask again.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import duration
from llm_proxy.faults.fault_record import Effect
from llm_proxy.verdict.attempts import SENT, Attempt, Fault
from llm_proxy.verdict.finding import Finding, Level, Rule
from llm_proxy.verdict.retry_chains import Chain
from llm_proxy.verdict.sentences import evidence_of
from llm_proxy.verdict.use_of_spoiled import evidence_of_taking, taken

_TIME_TO_LEAVE: Final = 200.0
"""Ms between what cannot be read and the end, in which a client that minds would have left; where
all was sent sooner, nothing can be told."""

_READABLE: Final = frozenset(("bom",))
"""Faults that some clients stumble over and others rightly do not: server-sent events may begin
with a byte order mark."""


def _malformed(attempt: Attempt) -> Fault | None:
    met = (it for it in attempt.struck if it.effect == Effect.MALFORMED)
    return next((it for it in met if it.fault not in _READABLE), None)


def _is_malformed(attempt: Attempt) -> bool:
    return _malformed(attempt) is not None


def _stayed_for(attempt: Attempt) -> float:
    """How long the client read on, in ms."""
    fault = _malformed(attempt)
    return 0.0 if fault is None else attempt.ms - fault.at_ms


def _concerns(chain: Chain) -> bool:
    return any(map(_is_malformed, chain.attempts))


def _judge(chain: Chain) -> Finding | None:
    if shown := taken(chain, _is_malformed):
        message = (
            "used an answer that cannot be read in full: it stands in the history of a later "
            "request"
        )
        return Finding(Level.ERROR, message, evidence_of_taking(chain, shown))
    last = chain.last
    stayed = _stayed_for(last)
    if last.ending == SENT and last.streams and stayed >= _TIME_TO_LEAVE:
        message = (
            f"read on for {duration(stayed)} behind what cannot be read, to the end, and did not "
            "ask again"
        )
        return Finding(Level.WARNING, message, (evidence_of(last, None),))
    return None


MALFORMED_ACCEPTED: Final = Rule(
    "malformed-accepted",
    "passes over what it cannot read, and takes the rest of the answer",
    "let what cannot be read end the answer as an error, and ask again; do not catch and continue "
    "within the loop that reads the stream",
    _concerns,
    _judge,
)
