"""`malformed-accepted`: passes over what it cannot read, and takes the rest.

Why it matters: an answer with a hole in it looks like any other; of a tool call, it is another
call.
What to do: let a part that cannot be read end the answer, and ask again.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import format_duration
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.attempt_descriptions import attempt_evidence
from llm_proxy.verdict.attempts import SENT, InjectedFault, JournalAttempt
from llm_proxy.verdict.finding import FindingLevel, VerdictFinding, VerdictRule
from llm_proxy.verdict.retry_chains import RetryChain
from llm_proxy.verdict.spoiled_usage import evidence_of_use, used_spoiled_attempts

_TIME_TO_LEAVE: Final = 200.0
"""Ms between what cannot be read and the end, in which a client that minds would have left; where
all was sent sooner, nothing can be told."""

_READABLE: Final = frozenset(("bom",))
"""Faults that some clients stumble over and others rightly do not: server-sent events may begin
with a byte order mark."""


def _malformed_fault(attempt: JournalAttempt) -> InjectedFault | None:
    met = (
        injected_fault
        for injected_fault in attempt.injected_faults
        if injected_fault.effect == FaultEffect.MALFORMED
    )
    return next(
        (injected_fault for injected_fault in met if injected_fault.fault not in _READABLE), None
    )


def _is_malformed(attempt: JournalAttempt) -> bool:
    return _malformed_fault(attempt) is not None


def _read_on_ms(attempt: JournalAttempt) -> float:
    """How long the client read on, in ms."""
    fault = _malformed_fault(attempt)
    return 0.0 if fault is None else attempt.ms - fault.at_ms


def _applies(chain: RetryChain) -> bool:
    return any(map(_is_malformed, chain.attempts))


def _find(chain: RetryChain) -> VerdictFinding | None:
    if shown := used_spoiled_attempts(chain, _is_malformed):
        message = (
            "used an answer that cannot be read in full: it stands in the history of a later "
            "request"
        )
        return VerdictFinding(FindingLevel.ERROR, message, evidence_of_use(chain, shown))
    last = chain.last_attempt
    stayed = _read_on_ms(last)
    if last.ending == SENT and last.streams and stayed >= _TIME_TO_LEAVE:
        message = (
            f"read on for {format_duration(stayed)} behind what cannot be read, to the end, and "
            f"did not "
            "ask again"
        )
        return VerdictFinding(FindingLevel.WARNING, message, (attempt_evidence(last, None),))
    return None


MALFORMED_ACCEPTED: Final = VerdictRule(
    "malformed-accepted",
    "passes over what it cannot read, and takes the rest of the answer",
    "let what cannot be read end the answer as an error, and ask again; do not catch and continue "
    "within the loop that reads the stream",
    _applies,
    _find,
)
