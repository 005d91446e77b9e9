"""The verdict on a run: its counts, its findings, and its JSON and JUnit output."""

from __future__ import annotations

import json
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from journal_documents import (
    Entry,
    fault_entry,
    finding_lines,
    judge_entries,
    refused_entry,
    request_entry,
)
from journal_documents import journal_document as journal_json
from llm_proxy.cli.report import run_figures
from llm_proxy.errors import UsageError
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.journal_document import ENDING_CLIENT_GONE, JournalDocument, parse_journal
from llm_proxy.verdict.findings import FindingLevel
from llm_proxy.verdict.judging import RunVerdict, judge_run, verdict_document
from llm_proxy.verdict.junit import junit_xml

BAD: Final = (
    refused_entry(1, 100.0, 429, retry_after_ms=2000.0, session="bad"),
    request_entry(2, 400.0, session="bad"),
)
GOOD: Final = (refused_entry(3, 500.0, session="good"), request_entry(4, 1000.0, session="good"))
LOST: Final = (request_entry(5, 0, fault_entry(FaultEffect.FAILED, 5, event=2), key="lost"),)


def parse_xml(xml: bytes) -> ET.Element:
    """Parse JUnit XML."""
    return ET.fromstring(xml)  # noqa: S314 # our own XML


def test_it_counts_faults_requests_and_sessions() -> None:
    twice = request_entry(
        6,
        0,
        fault_entry(FaultEffect.SLOWED),
        fault_entry(FaultEffect.ALTERED, skipped="no"),
        key="slow",
    )
    verdict = judge_entries(*BAD, *GOOD, *LOST, twice, request_entry(7, 0, key="untouched"))
    assert (
        verdict.fault_count,
        verdict.skipped_fault_count,
        verdict.faulted_request_count,
        verdict.faulted_session_count,
    ) == (
        4,
        1,
        4,
        3,
    )


def test_the_worst_finding_comes_first() -> None:
    assert finding_lines(judge_entries(*LOST, *GOOD, *BAD)) == [
        ("too-soon, error: retried too early once: after 290 ms instead of 2.0 s"),
        (
            "failed-accepted, note: did not retry after an error within a response, and may "
            "have ignored the error"
        ),
    ]


@each_row(("level", "number"), [("note", 2), ("warning", 1), ("error", 1)])
def test_a_level_is_reached_by_what_is_as_bad_or_worse(level: str, number: int) -> None:
    assert len(judge_entries(*LOST, *BAD).cases_at_or_above(FindingLevel(level))) == number


@each_row(
    "entries",
    [
        [],
        [request_entry(1)],
        [request_entry(1, status=500)],
        [request_entry(1, 0, fault_entry(FaultEffect.CUT, skipped="no body"))],
    ],
    ids=["nobody asked", "all well", "an error of the provider's own", "skipped"],
)
def test_where_nothing_was_injected_nothing_is_judged(entries: list[Entry]) -> None:
    verdict = judge_entries(*entries)
    assert (verdict.fault_count, verdict.cases) == (0, ())


def test_a_request_that_is_being_answered_is_not_judged_yet() -> None:
    waiting = request_entry(1, 0, fault_entry(FaultEffect.UNANSWERED), status=0, ending="", ms=0.0)
    assert finding_lines(judge_entries(waiting)) == []


def test_the_document_holds_the_finding_and_its_evidence() -> None:
    [finding] = verdict_document(judge_entries(*BAD))["findings"]
    advice = finding.pop("advice")
    assert advice.startswith("before a retry, wait for the time in the retry-after-ms")
    assert finding == {
        "rule": "too-soon",
        "level": "error",
        "message": "retried too early once: after 290 ms instead of 2.0 s",
        "session": "bad",
        "method": "POST",
        "path": "/v1/chat/completions",
        "model": "m",
        "key": "k",
        "attempts": [1, 2],
        "evidence": [
            {
                "entry": 1,
                "at_ms": 100.0,
                "received": "HTTP 429, Retry-After 2.0 s (fault a rule, refused)",
                "reaction": "retried after 290 ms (#2)",
            }
        ],
    }


def test_the_document_says_what_it_is_and_whether_all_is_well() -> None:
    document = verdict_document(judge_entries(*LOST), FindingLevel.NOTE)
    del document["findings"]
    assert document == {
        "verdict": 1,
        "ok": False,
        "level": "note",
        "faults": 1,
        "skipped": 0,
        "requests": 1,
        "sessions": 1,
    }
    assert verdict_document(judge_entries(*LOST))["ok"]


def test_junit_has_a_case_for_each_rule_that_a_request_could_break() -> None:
    root = parse_xml(junit_xml(judge_entries(*BAD, *LOST), FindingLevel.WARNING))
    [suite] = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    assert suite.attrib == {
        "name": "llm-proxy verdict", "tests": "4", "failures": "1", "errors": "0", "skipped": "0",
    }  # fmt: skip
    name = "POST /v1/chat/completions, session bad, #1"
    cases = [
        (item.attrib["classname"], item.attrib["name"], [part.tag for part in item])
        for item in suite
    ]
    assert cases == [
        ("llm-proxy.gave-up", name, []),
        ("llm-proxy.too-soon", name, ["failure"]),
        ("llm-proxy.retry-storm", name, []),
        (
            "llm-proxy.failed-accepted",
            "POST /v1/chat/completions, session default, #5",
            ["system-out"],
        ),
    ]


def test_a_failure_in_junit_holds_its_evidence() -> None:
    failure = parse_xml(junit_xml(judge_entries(*BAD), FindingLevel.WARNING)).find(".//failure")
    assert failure is not None
    assert failure.attrib["type"] == "too-soon.error"
    assert failure.attrib["message"].startswith("retried too early once")
    assert (failure.text or "").splitlines()[:2] == [
        "2 attempts:",
        (
            "#1 at 100 ms: HTTP 429, Retry-After 2.0 s (fault a rule, refused); retried after "
            "290 ms (#2)"
        ),
    ]


def test_junit_of_a_run_without_faults_has_one_case_that_is_skipped() -> None:
    [suite] = parse_xml(junit_xml(judge_entries(), FindingLevel.WARNING))
    [case] = suite
    assert suite.attrib["skipped"] == suite.attrib["tests"] == "1"
    assert [item.attrib for item in case] == [{"message": "no faults were injected"}]


def test_junit_holds_no_character_that_xml_cannot_have() -> None:
    odd_entry = refused_entry(1, 0, session="a\x00b\x1b[0m\ufffe", path="/<&>\"'")
    root = parse_xml(junit_xml(judge_entries(odd_entry), FindingLevel.WARNING))
    [name, *_] = [item.attrib["name"] for item in root.iter("testcase")]
    assert name == "POST /<&>\"', session a\\x00b\\x1b[0m\\ufffe, #1"


@each_row(
    ("text", "reason"),
    [
        (b"", "JSON"),
        (b"not JSON", "JSON is malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "missing required field `entries`"),
        (b'{"entries":[{"number":"1"}]}', "Expected `int`, got `str` - at `$.entries[0].number`"),
        (b'{"entries":[{"number":1,"ms":1e300}]}', "`float` <= 1e+18"),
        (b'{"entries":[{"number":1,"faults":3}]}', "at `$.entries[0].faults`"),
        (b'{"entries":[],"x":' + b"[" * 9_999 + b"]" * 9_999 + b"}", "recursion"),
        (b'{"entries":[{"number":1,"path":"\xff"}]}', "utf-8"),
    ],
    ids=["empty", "text", "list", "no entries", "type", "size", "shape", "depth", "encoding"],
)
def test_an_invalid_journal_is_refused_with_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(UsageError, match=r"^a\.json is not a valid journal ") as refusal:
        parse_journal(text, "a.json")
    assert reason.lower() in str(refusal.value).lower()


def test_a_journal_of_a_later_version_is_read() -> None:
    later = request_entry(1, 0, fault_entry(FaultEffect.CUT) | {"later": 1}, later=[1, 2])
    assert parse_journal(journal_json(later, later={"a": 1}), "a.json").entries[0].number == 1


# Arbitrary journals

TIMES = st.sampled_from([0.0, 1.0, 80.0, 500.0, 5000.0, 700_000.0, 1e18, -1e18]) | st.floats(
    -1e18, 1e18
)
FAULTS = st.fixed_dictionaries(
    {
        "rule": st.text(max_size=5),
        "effect": st.sampled_from([*FaultEffect, "later"]),
        "at_ms": TIMES,
    },
    optional={
        "skipped": st.sampled_from(["", "no"]),
        "event": st.none() | st.integers(-1, 9),
        "byte": st.none() | st.integers(-1, 9),
        "fault": st.sampled_from(["stall-keepalive", "status"]),
    },
)
ENTRIES = st.fixed_dictionaries(
    {"number": st.integers(-1, 12), "key": st.sampled_from(["", "a", "b"]), "at_ms": TIMES},
    optional={
        "session": st.text(max_size=3),
        "path": st.text(max_size=3),
        "status": st.sampled_from([0, 200, 204, 302, 400, 401, 404, 408, 429, 500, 503, -1]),
        "ms": TIMES,
        "ending": st.sampled_from(["", "sent", "cut", ENDING_CLIENT_GONE, "later"]),
        "streams": st.booleans(),
        "retry_count": st.none() | st.integers(-1, 4),
        "retry_after_ms": st.none() | TIMES,
        "should_retry": st.none() | st.booleans(),
        "continues": st.none() | st.integers(-1, 12),
        "late_mean_ms": TIMES,
        "late_worst_ms": TIMES,
        "timed_writes": st.integers(-(2**53), 2**53),
        "faults": st.lists(FAULTS, max_size=2),
        "simulated": st.none()
        | st.fixed_dictionaries({"failure": st.sampled_from(["", "timeout", "thrown", "x"])}),
    },
)


def _parse_journal(entries: list[Any]) -> JournalDocument:
    return parse_journal(journal_json(*entries), "a.json")


def _verdict_json(verdict: RunVerdict) -> str:
    return json.dumps(verdict_document(verdict))


@given(st.lists(ENTRIES, max_size=14))
def test_every_journal_can_be_judged_and_reported(entries: list[Any]) -> None:
    run = _parse_journal(entries)
    verdict = judge_run(run.entries)
    parse_xml(junit_xml(verdict, FindingLevel.WARNING))
    assert verdict_document(verdict)["ok"] == (not verdict.cases_at_or_above(FindingLevel.WARNING))
    assert run_figures(run)["kept"] == len(entries)


@given(st.data(), st.lists(ENTRIES, max_size=6, unique_by=lambda fields: fields["number"]))
def test_the_order_of_entries_does_not_count(data: st.DataObject, entries: list[Any]) -> None:
    shuffled = data.draw(st.permutations(entries))
    assert _verdict_json(judge_run(_parse_journal(shuffled).entries)) == _verdict_json(
        judge_run(_parse_journal(entries).entries)
    )
