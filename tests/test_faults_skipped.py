"""Responses in which a fault has no meaning: it is skipped with a reason, and nothing breaks."""

from __future__ import annotations

import gzip

from case_tables import each_row
from fault_injection import (
    apply_faults,
    apply_faults_live,
    encoded_response,
    response_burst,
    sent_body,
    turn_request,
)
from llm_proxy.actions import Begin, Burst, Send, Wait
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.kinds import FAULT_KINDS

CONTENT_TYPES = {
    "sse": "text/event-stream",
    "ndjson": "application/x-ndjson",
    "whole": "application/json",
}
MESSAGE_FAULTS = ["bad-utf8", "malformed-json", "half-event", "duplicate", "drop", "reorder"]
"""Faults that alter a message."""


@each_row("framing", CONTENT_TYPES)
@each_row("name", FAULT_KINDS)
def test_an_empty_body_breaks_no_fault(name: str, framing: str) -> None:
    head = ResponseHead(200, "OK", (("Content-Type", CONTENT_TYPES[framing]),), "length", 0)
    for rewrite in (apply_faults, apply_faults_live):
        _, injection = rewrite(turn_request(), (Wait(1.0), Begin(head)), FAULT_KINDS[name].example)
        assert len(injection.finalize_records()) == (name != "quota")


@each_row("name", MESSAGE_FAULTS)
def test_a_body_without_messages_is_left_unchanged(name: str) -> None:
    head = ResponseHead(200, "OK", (("Content-Type", "text/event-stream"),), "chunked")
    burst = (Wait(1.0), Begin(head))
    for rewrite in (apply_faults, apply_faults_live):
        actions, injection = rewrite(turn_request(), burst, f"{name},after=0")
        assert tuple(actions) == burst
        assert [final_record.skipped for final_record in injection.finalize_records()] == [
            "the body is empty"
        ]


@each_row(
    "rule",
    [
        "truncate,ms=100",
        "malformed-chunk,ms=100",
        "coalesce,ms=100",
        "error-event,ms=100",
        "stall-keepalive,ms=100",
    ],
)
def test_a_response_that_has_not_begun_is_left_unchanged(rule: str) -> None:
    request = turn_request()
    burst = (Wait(500.0), *response_burst(encoded_response(request))[1:])
    for rewrite in (apply_faults, apply_faults_live):
        actions, injection = rewrite(request, burst, rule)
        assert tuple(actions) == burst
        assert [final_record.skipped for final_record in injection.finalize_records()] == [
            "the fault was due before the response began"
        ]


GZIP_PIECES = tuple(
    gzip.compress(b"data: {}\n\n" * 9, mtime=0)[at : at + 10] for at in range(0, 40, 10)
)
"""Pieces of a gzip body: its messages are hidden by the content coding."""


@each_row(
    ("rule", "reason"),
    [
        *((f"{name},after=0", "the body is compressed with gzip") for name in MESSAGE_FAULTS),
        *(
            (name, "the body is compressed with gzip")
            for name in ("bom", "refusal", "finish-length")
        ),
        ("error-event,ms=1s", "the body is compressed with gzip"),
        ("stall-keepalive,after=1", "the body is compressed with gzip"),
        ("reset,after=1", "the body contains no events"),
        ("truncate,at=done", "the body contains no events"),
        ("reset,bytes=15", ""),
        ("slice,size=3", ""),
    ],
)
def test_in_a_compressed_body_only_byte_faults_apply(rule: str, reason: str) -> None:
    headers = (("Content-Type", "text/event-stream"), ("Content-Encoding", "gzip"))
    head = ResponseHead(200, "OK", headers, "chunked")
    burst: Burst = (Wait(1.0), Begin(head), *map(Send, GZIP_PIECES))
    for rewrite in (apply_faults, apply_faults_live):
        actions, injection = rewrite(turn_request(), burst, rule)
        assert [final_record.skipped for final_record in injection.finalize_records()] == [reason]
        assert (tuple(actions) == burst) == bool(reason)


@each_row("rule", ["truncate,after={}", "truncate,fraction=1"])
def test_a_body_is_not_truncated_after_its_last_message(rule: str) -> None:
    request = turn_request()
    response = encoded_response(request)
    actions, injection = apply_faults(
        request, response_burst(response), rule.format(len(response.framed_messages))
    )
    assert actions == response_burst(response)
    assert [record.skipped for record in injection.records] == [
        "nothing followed the fault's location"
    ]


def test_a_later_rule_sees_the_output_of_earlier_rules() -> None:
    request = turn_request()
    response = encoded_response(request)
    count = len(response.framed_messages)
    rules = ["duplicate,after=0", f"truncate,after={count}"]
    actions, injection = apply_faults(request, response_burst(response), *rules)
    assert sent_body(actions) == b"".join(
        (response.framed_messages[0], *response.framed_messages[: count - 1])
    )
    assert [record.skipped for record in injection.records] == ["", ""]
    rules = ["duplicate,after=0", "truncate,fraction=50%"]
    actions, _ = apply_faults(request, response_burst(response), *rules)
    doubled = response.framed_messages[0] + b"".join(response.framed_messages)
    assert sent_body(actions) == doubled[: round(len(doubled) / 2)]
