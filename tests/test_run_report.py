"""A run in figures."""

from __future__ import annotations

from journal_documents import Entry, document, entry, fault, refused
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.run_report import (
    FaultRuleFigures,
    LatencyFigures,
    LatenessFigures,
    RunReport,
    run_report,
)
from llm_proxy.verdict.attempts import parse_run


def told(*entries: Entry, **fields: object) -> RunReport:
    return run_report(parse_run(document(*entries, **fields), "a test"))


def test_a_run_is_counted_in_every_respect() -> None:
    entries = [
        entry(1, origin="cassettes/openai-chat/m/1234-1.jsonl", ms=10.0, pace="4x"),
        entry(2, simulated={"source": "refund, turn 1"}, origin="refund, turn 1", ms=30.0),
        refused(3, retry_count=1, ms=20.0),
        entry(4, origin="miss", status=424, ending="", ms=1.0),
        entry(5, session="b", status=0, ending="cut", ms=400.0),
        entry(6, session="b", status=0, ending="", ms=0.0),
    ]
    assert told(*entries, requests=9) == RunReport(
        requests=9,
        kept=6,
        origins={"live": 3, "cassette": 1, "miss": 1, "simulated": 1},
        statuses={"200": 2, "none": 2, "424": 1, "503": 1},
        endings={"sent": 4, "cut": 1, "running": 1},
        sessions=2,
        retries=1,
        times=LatencyFigures(median=20.0, p95=400.0, worst=400.0),
        paces={"4x": 1},
        lateness=None,
        faults=(FaultRuleFigures("a rule, refused", 1, 0, ()),),
        never=(),
    )


def test_an_empty_run_has_no_times() -> None:
    it = told()
    assert (it.requests, it.times, it.lateness, it.faults) == (0, None, None, ())


def test_the_mean_lateness_is_that_of_all_writes() -> None:
    entries = [
        entry(1, late_mean_ms=1.0, late_worst_ms=5.0, timed_writes=30),
        entry(2, late_mean_ms=2.0, late_worst_ms=3.0, timed_writes=10),
        entry(3),
    ]
    assert told(*entries).lateness == LatenessFigures(mean=1.25, worst=5.0, writes=40, requests=2)


def test_where_nobody_counted_the_writes_it_is_that_of_the_requests() -> None:
    entries = [entry(1, late_mean_ms=1.0, late_worst_ms=5.0), entry(2, late_mean_ms=2.0)]
    assert told(*entries).lateness == LatenessFigures(mean=1.5, worst=5.0, writes=None, requests=2)


def test_rules_are_told_by_how_often_they_struck_and_why_not() -> None:
    entries = [
        entry(
            1,
            0,
            fault(FaultEffect.CUT, rule="a"),
            fault(FaultEffect.CUT, rule="b", skipped="no body"),
        ),
        entry(
            2,
            0,
            fault(FaultEffect.CUT, rule="a"),
            fault(FaultEffect.CUT, rule="c", skipped="whole"),
        ),
        entry(3, 0, fault(FaultEffect.CUT, rule="c", skipped="whole")),
    ]
    rules = [{"rule": "a", "seen": 3, "struck": 2}, {"rule": "d", "seen": 0, "struck": 0}]
    it = told(*entries, faults=rules)
    assert it.faults == (
        FaultRuleFigures("a", 2, 0, ()),
        FaultRuleFigures("b", 0, 1, ("no body",)),
        FaultRuleFigures("c", 0, 2, ("whole",)),
    )
    assert it.never == ("d",)
