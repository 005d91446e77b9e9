"""Journals written by hand, and what is found in them."""

from __future__ import annotations

import json
from typing import Any

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.verdict.attempts import JournalAttempt, parse_run
from llm_proxy.verdict.judging import RunVerdict, judge_run

Entry = dict[str, Any]


def fault(effect: FaultEffect, at_ms: float = 0.0, **fields: Any) -> Entry:
    """A fault as the journal tells it."""
    return {"rule": f"a rule, {effect}", "fault": effect, "effect": effect, "at_ms": at_ms} | fields


def entry(number: int, at_ms: float = 0.0, *faults: Entry, **fields: Any) -> Entry:
    """A streaming chat that was answered in full within 10 ms, unless `fields` say otherwise."""
    plain = {
        "number": number,
        "session": "default",
        "method": "POST",
        "path": "/v1/chat/completions",
        "model": "m",
        "key": "k",
        "origin": "live",
        "status": 200,
        "ms": 10.0,
        "ending": "sent",
        "at_ms": at_ms,
        "streams": True,
        "faults": list(faults),
    }
    return plain | fields


def refused(number: int, at_ms: float = 0.0, status: int = 503, **fields: Any) -> Entry:
    """A chat that a fault answered with an HTTP error."""
    return entry(number, at_ms, fault(FaultEffect.REFUSED), status=status, **fields)


def document(*entries: Entry, **fields: Any) -> bytes:
    """A journal of these entries."""
    return json.dumps({"requests": len(entries), "entries": entries} | fields).encode()


def attempts(*entries: Entry) -> tuple[JournalAttempt, ...]:
    """What is read of these entries."""
    return parse_run(document(*entries), "a test").entries


def judged(*entries: Entry) -> RunVerdict:
    """The verdict on the client that made these requests."""
    return judge_run(attempts(*entries))


def found(it: RunVerdict) -> list[str]:
    """Its findings, a line each: the rule, the level, and what was found."""
    return [
        f"{case.rule.name}, {case.finding.level}: {case.finding.message}"
        for case in it.findings
        if case.finding is not None
    ]
