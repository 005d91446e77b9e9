"""Run reports: the figures of a run."""

from __future__ import annotations

from typing import Any

from journal_documents import Entry, fault_entry, journal_document, refused_entry, request_entry
from llm_proxy.cli.report import run_figures
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.journal_document import parse_journal


def make_report(*entries: Entry, **fields: object) -> dict[str, Any]:
    return run_figures(parse_journal(journal_document(*entries, **fields), "a test"))


def fault_figures(rule: str, injected: int, skipped: int, *why: str) -> dict[str, Any]:
    return {"rule": rule, "injected": injected, "skipped": skipped, "reasons": list(why)}


def test_a_run_is_counted_in_every_respect() -> None:
    entries = [
        request_entry(1, origin="cassettes/openai-chat/m/1234-1.jsonl", ms=10.0, pace="4x"),
        request_entry(2, simulated={"source": "refund, turn 1"}, origin="refund, turn 1", ms=30.0),
        refused_entry(3, retry_count=1, ms=20.0),
        request_entry(4, origin="miss", status=424, ending="", ms=1.0),
        request_entry(5, session="b", status=0, ending="cut", ms=400.0),
        request_entry(6, session="b", status=0, ending="", ms=0.0),
    ]
    assert make_report(*entries, requests=9) == {
        "requests": 9,
        "kept": 6,
        "origins": {"live": 3, "cassette": 1, "miss": 1, "simulated": 1},
        "statuses": {"200": 2, "none": 2, "424": 1, "503": 1},
        "endings": {"sent": 4, "cut": 1, "running": 1},
        "sessions": 2,
        "retries": 1,
        "times": {"median": 20.0, "p95": 400.0, "worst": 400.0},
        "paces": {"4x": 1},
        "lateness": None,
        "faults": [fault_figures("a rule, refused", 1, 0)],
        "never_injected": [],
        "nearest": 0,
        "misses": (),
    }


def test_an_empty_run_has_no_times() -> None:
    report = make_report()
    assert [report[name] for name in ("requests", "times", "lateness", "faults")] == [
        0,
        None,
        None,
        [],
    ]


def test_the_mean_lateness_is_that_of_all_writes() -> None:
    entries = [
        request_entry(1, late_mean_ms=1.0, late_worst_ms=5.0, timed_writes=30),
        request_entry(2, late_mean_ms=2.0, late_worst_ms=3.0, timed_writes=10),
        request_entry(3),
    ]
    assert make_report(*entries)["lateness"] == {
        "mean": 1.25,
        "worst": 5.0,
        "writes": 40,
        "requests": 2,
    }


def test_without_write_counts_the_mean_lateness_is_per_request() -> None:
    entries = [
        request_entry(1, late_mean_ms=1.0, late_worst_ms=5.0),
        request_entry(2, late_mean_ms=2.0),
    ]
    assert make_report(*entries)["lateness"] == {
        "mean": 1.5,
        "worst": 5.0,
        "writes": None,
        "requests": 2,
    }


def test_fault_rules_are_reported_with_applied_and_skipped_counts() -> None:
    entries = [
        request_entry(
            1,
            0,
            fault_entry(FaultEffect.CUT, rule="a"),
            fault_entry(FaultEffect.CUT, rule="b", skipped="no body"),
        ),
        request_entry(
            2,
            0,
            fault_entry(FaultEffect.CUT, rule="a"),
            fault_entry(FaultEffect.CUT, rule="c", skipped="whole"),
        ),
        request_entry(3, 0, fault_entry(FaultEffect.CUT, rule="c", skipped="whole")),
    ]
    rules = [{"rule": "a", "matched": 3, "injected": 2}, {"rule": "d", "matched": 0, "injected": 0}]
    report = make_report(*entries, faults=rules)
    assert report["faults"] == [
        fault_figures("a", 2, 0),
        fault_figures("b", 0, 1, "no body"),
        fault_figures("c", 0, 2, "whole"),
    ]
    assert report["never_injected"] == ["d"]
