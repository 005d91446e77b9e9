"""Answers in which a fault has no meaning: it is left out, with the reason, and nothing breaks."""

from __future__ import annotations

import gzip

import pytest

from fault_injection import answer_of, asked, body, burst_of, live, struck
from llm_proxy.actions import Begin, Burst, Send, Wait
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.kinds import KINDS

TYPES = {"sse": "text/event-stream", "ndjson": "application/x-ndjson", "whole": "application/json"}
TAKING = ["bad-utf8", "malformed-json", "half-event", "duplicate", "drop", "reorder"]
"""Faults that do something with a message."""


@pytest.mark.parametrize("framing", TYPES)
@pytest.mark.parametrize("name", KINDS)
def test_an_empty_body_breaks_no_fault(name: str, framing: str) -> None:
    head = ResponseHead(200, "OK", (("Content-Type", TYPES[framing]),), "length", 0)
    for strike in (struck, live):
        _, injection = strike(asked(), (Wait(1.0), Begin(head)), KINDS[name].example)
        assert len(injection.final_records()) == (name != "quota")


@pytest.mark.parametrize("name", TAKING)
def test_a_body_without_a_message_has_none_to_spoil(name: str) -> None:
    head = ResponseHead(200, "OK", (("Content-Type", "text/event-stream"),), "chunked")
    burst = (Wait(1.0), Begin(head))
    for strike in (struck, live):
        gone, injection = strike(asked(), burst, f"{name},after=0")
        assert tuple(gone) == burst
        assert [final_record.skipped for final_record in injection.final_records()] == [
            "the body is empty"
        ]


@pytest.mark.parametrize(
    "rule",
    [
        "truncate,ms=100",
        "malformed-chunk,ms=100",
        "coalesce,ms=100",
        "error-event,ms=100",
        "stall-keepalive,ms=100",
    ],
)
def test_an_answer_that_has_not_begun_has_no_body_to_spoil(rule: str) -> None:
    request = asked()
    burst = (Wait(500.0), *burst_of(answer_of(request))[1:])
    for strike in (struck, live):
        gone, injection = strike(request, burst, rule)
        assert tuple(gone) == burst
        assert [final_record.skipped for final_record in injection.final_records()] == [
            "the answer had not begun"
        ]


PACKED = tuple(gzip.compress(b"data: {}\n\n" * 9, mtime=0)[at : at + 10] for at in range(0, 40, 10))
"""A stream whose messages are hidden by a content coding."""


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        *((f"{name},after=0", "the body is packed with gzip") for name in TAKING),
        *((name, "the body is packed with gzip") for name in ("bom", "refusal", "finish-length")),
        ("error-event,ms=1s", "the body is packed with gzip"),
        ("stall-keepalive,after=1", "the body is packed with gzip"),
        ("reset,after=1", "the body does not come in messages"),
        ("truncate,at=done", "the body does not come in messages"),
        ("reset,bytes=15", ""),
        ("slice,size=3", ""),
    ],
)
def test_in_a_packed_body_there_are_bytes_alone(rule: str, why: str) -> None:
    headers = (("Content-Type", "text/event-stream"), ("Content-Encoding", "gzip"))
    head = ResponseHead(200, "OK", headers, "chunked")
    burst: Burst = (Wait(1.0), Begin(head), *map(Send, PACKED))
    for strike in (struck, live):
        gone, injection = strike(asked(), burst, rule)
        assert [final_record.skipped for final_record in injection.final_records()] == [why]
        assert (tuple(gone) == burst) == bool(why)


@pytest.mark.parametrize("rule", ["truncate,after={}", "truncate,fraction=1"])
def test_behind_its_last_message_a_body_is_not_truncated(rule: str) -> None:
    request = asked()
    answer = answer_of(request)
    gone, injection = struck(request, burst_of(answer), rule.format(len(answer.messages)))
    assert gone == burst_of(answer)
    assert [record.skipped for record in injection.records] == ["there was nothing behind it"]


def test_what_is_behind_a_place_is_what_the_rules_before_left() -> None:
    request = asked()
    answer = answer_of(request)
    count = len(answer.messages)
    rules = ["duplicate,after=0", f"truncate,after={count}"]
    gone, injection = struck(request, burst_of(answer), *rules)
    assert body(gone) == b"".join((answer.messages[0], *answer.messages[: count - 1]))
    assert [record.skipped for record in injection.records] == ["", ""]
    rules = ["duplicate,after=0", "truncate,fraction=50%"]
    gone, _ = struck(request, burst_of(answer), *rules)
    doubled = answer.messages[0] + b"".join(answer.messages)
    assert body(gone) == doubled[: round(len(doubled) / 2)]
