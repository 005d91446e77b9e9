"""Builds journal documents, and judges them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.journal_document import JournalEntry, ListenerClosure, parse_journal
from llm_proxy.verdict.judging import RunVerdict, judge_run

Entry = dict[str, Any]


def fault_entry(effect: FaultEffect, at_ms: float = 0.0, **fields: Any) -> Entry:
    """A fault, as the journal records it."""
    return {"rule": f"a rule, {effect}", "fault": effect, "effect": effect, "at_ms": at_ms} | fields


def request_entry(number: int, at_ms: float = 0.0, *faults: Entry, **fields: Any) -> Entry:
    """The entry of a streaming chat that completed within 10 ms; `fields` override its fields."""
    default_fields = {
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
    return default_fields | fields


def refused_entry(number: int, at_ms: float = 0.0, status: int = 503, **fields: Any) -> Entry:
    """The entry of a chat to which a fault responded with an HTTP error."""
    return request_entry(number, at_ms, fault_entry(FaultEffect.REFUSED), status=status, **fields)


def journal_document(*entries: Entry, **fields: Any) -> bytes:
    """Encode a journal of these entries."""
    return json.dumps({"requests": len(entries), "entries": entries} | fields).encode()


def parse_attempts(*entries: Entry) -> tuple[JournalEntry, ...]:
    """Parse the attempts of these entries."""
    return parse_journal(journal_document(*entries), "a test").entries


def judge_entries(*entries: Entry, listener_closures: Sequence[ListenerClosure] = ()) -> RunVerdict:
    """Return the verdict on the client that made these requests."""
    document = journal_document(*entries, listener_closures=listener_closures)
    journal = parse_journal(document, "a test")
    return judge_run(journal.entries, journal.listener_closures)


def finding_lines(verdict: RunVerdict) -> list[str]:
    """Return the findings of a verdict, one line each: rule, level and message."""
    return [
        f"{assessment.rule.name}, {assessment.finding.level}: {assessment.finding.message}"
        for assessment in verdict.cases_with_findings
        if assessment.finding is not None
    ]
