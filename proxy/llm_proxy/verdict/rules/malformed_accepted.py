"""`malformed-accepted`: the client skips what it cannot parse, and uses the rest.

Why it matters: a response with a gap looks like any other; within a tool call, a gap makes it
another call.
What to do: treat the response as failed where a part cannot be parsed, and retry.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.display import format_duration
from llm_proxy.faults.fault_record import FaultEffect, FaultRecord
from llm_proxy.journal_document import ENDING_SENT, JournalEntry
from llm_proxy.verdict.findings import (
    FindingLevel,
    VerdictFinding,
    VerdictRule,
    attempt_evidence,
    evidence_of_use,
)
from llm_proxy.verdict.retry_chains import RetryChain

_MIN_READ_ON_MS: Final = 200.0
"""A client that reads on for this long after the malformed part has ignored it.  A response that
ends sooner shows nothing."""

_TOLERABLE_FAULTS: Final = frozenset(("bom",))
"""Faults that break some clients and that others rightly accept: server-sent events may begin with
a byte order mark."""


def _malformed_fault(attempt: JournalEntry) -> FaultRecord | None:
    return next(
        (
            fault
            for fault in attempt.injected_faults
            if fault.effect == FaultEffect.MALFORMED and fault.fault not in _TOLERABLE_FAULTS
        ),
        None,
    )


def _is_malformed(attempt: JournalEntry) -> bool:
    return _malformed_fault(attempt) is not None


def _applies_to_chain(chain: RetryChain) -> bool:
    return any(map(_is_malformed, chain.attempts))


def _judge_chain(chain: RetryChain) -> VerdictFinding | None:
    if used_attempts := chain.used_attempts(_is_malformed):
        message = (
            "used an answer that cannot be read in full: it stands in the history of a later "
            "request"
        )
        return VerdictFinding(FindingLevel.ERROR, message, evidence_of_use(chain, used_attempts))
    last = chain.last_attempt
    fault = _malformed_fault(last)
    read_on_ms = 0.0 if fault is None else last.ms - fault.at_ms
    if last.ending == ENDING_SENT and last.streams and read_on_ms >= _MIN_READ_ON_MS:
        message = (
            f"read on for {format_duration(read_on_ms)} behind what cannot be read, to the "
            "end, and did not ask again"
        )
        return VerdictFinding(FindingLevel.WARNING, message, (attempt_evidence(last, None),))
    return None


MALFORMED_ACCEPTED: Final = VerdictRule(
    "malformed-accepted",
    "passes over what it cannot read, and takes the rest of the answer",
    "let what cannot be read end the answer as an error, and ask again; do not catch and continue "
    "within the loop that reads the stream",
    _applies_to_chain,
    _judge_chain,
)
