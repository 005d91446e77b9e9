"""Faults of bodies and heads: error pages, empty bodies, and heads that do not match the body."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from fault_injection import (
    DIALECTS_BY_FRAMING,
    apply_faults,
    apply_faults_live,
    encoded_response,
    response_burst,
    sent_body,
    split_at,
    turn_request,
)
from llm_proxy.actions import Abort, Action, Begin, Burst, Send, SendRaw, Wait
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Request, ResponseHead, header_value
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule

FRAMINGS = st.sampled_from(list(DIALECTS_BY_FRAMING))
CUTS = st.lists(st.integers(0, 4000), max_size=20)
BOM = b"\xef\xbb\xbf"


def sent_head(actions: Burst | list[Action]) -> ResponseHead:
    """The head that is sent."""
    return next(action.head for action in actions if isinstance(action, Begin))


def error_burst(request: Request) -> Burst:
    """A response that is an HTTP error, as actions."""
    response = encoded_response(request)
    return response_burst(replace(response, head=replace(response.head, status=500)))


# html


@each_row("stream", [True, False])
def test_html_is_a_gateway_error_page(stream: bool) -> None:
    request = turn_request(stream=stream)
    actions, injection = apply_faults(request, response_burst(encoded_response(request)), "html")
    page = (
        b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n"
        b"<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>gateway</center>\r\n"
        b"</body>\r\n</html>\r\n"
    )
    headers = (("Content-Type", "text/html"),)
    assert actions == (
        Begin(ResponseHead(502, "Bad Gateway", headers, "length", len(page))),
        Send(page),
    )
    assert injection.records[0].effect is FaultEffect.REFUSED


@each_row(("code", "reason"), [(200, "OK"), (404, "Not Found"), (599, "")])
def test_a_page_has_any_status(code: int, reason: str) -> None:
    request = turn_request()
    actions, _ = apply_faults(
        request, response_burst(encoded_response(request)), f"html,code={code}"
    )
    assert (sent_head(actions).status, sent_head(actions).reason) == (code, reason)


@each_row("code", ["204", "304", "100", "600", "x"])
def test_a_page_has_no_status_without_a_body(code: str) -> None:
    with pytest.raises(UsageError, match="is not an HTTP status from 200 to 599"):
        parse_rule(f"html,code={code}")


@each_row("rule", ["html", "status,code=503", "rate-limit", "overloaded"])
def test_a_head_request_gets_only_a_head(rule: str) -> None:
    request = replace(turn_request(), method="HEAD")
    actions, _ = apply_faults(request, (), rule)
    assert [type(item) for item in actions] == [Begin]
    assert (sent_head(actions).framing, (sent_head(actions).content_length or 0) > 0) == (
        "none",
        True,
    )


# empty


@given(FRAMINGS, st.booleans())
def test_an_empty_stream_has_its_head_and_ends_at_once(framing: str, is_live: bool) -> None:
    request = turn_request(DIALECTS_BY_FRAMING[framing])
    response = encoded_response(request)
    rewrite = apply_faults_live if is_live else apply_faults
    actions, injection = rewrite(request, response_burst(response), "empty")
    assert list(actions) == [Wait(10), Begin(response.head)]
    assert injection.records[0].effect is FaultEffect.TRUNCATED


def test_an_empty_body_has_content_length_0() -> None:
    request = turn_request(stream=False)
    response = encoded_response(request)
    actions, _ = apply_faults(request, response_burst(response), "empty")
    assert actions == (Wait(10), Begin(replace(response.head, content_length=0)))


def test_an_error_response_keeps_its_body() -> None:
    actions, injection = apply_faults(turn_request(), error_burst(turn_request()), "empty")
    assert actions == error_burst(turn_request())
    assert injection.records[0].skipped == "the status of the response is not 2xx"


# wrong-length


def test_fewer_bytes_are_sent_than_declared() -> None:
    request = turn_request(stream=False)
    response = encoded_response(request)
    size = len(response.framed_messages[0])
    for rewrite in (apply_faults, apply_faults_live):
        actions, injection = rewrite(request, response_burst(response), "wrong-length,by=7")
        assert (sent_head(actions).content_length, sent_body(actions)) == (
            size + 7,
            response.framed_messages[0],
        )
        assert actions[-1] == Abort("fin")
        assert injection.records[0].effect is FaultEffect.CUT


def test_a_length_stays_wrong_where_another_fault_makes_the_body_shorter() -> None:
    request = turn_request(stream=False)
    response = encoded_response(request)
    for rules in (("truncate,bytes=9", "wrong-length,by=7"), ("wrong-length,by=7", "bom")):
        actions, _ = apply_faults(request, response_burst(response), *rules)
        assert sent_head(actions).content_length == len(sent_body(actions)) + 7


def test_a_body_cut_after_another_fault_declares_its_uncut_length() -> None:
    request = turn_request(stream=False)
    response = encoded_response(request)
    actions, _ = apply_faults(
        request, response_burst(response), "truncate,bytes=9", "close,bytes=5"
    )
    assert (sent_head(actions).content_length, len(sent_body(actions))) == (9, 5)


def test_a_stream_in_chunks_has_no_length_to_be_wrong() -> None:
    request = turn_request()
    burst = response_burst(encoded_response(request))
    actions, injection = apply_faults(request, burst, "wrong-length")
    assert actions == burst
    assert injection.records[0].skipped == ("wrong-length does not apply to a chunked body")


def test_a_length_difference_of_0_is_refused() -> None:
    with pytest.raises(UsageError, match="by= must be at least 1 byte"):
        parse_rule("wrong-length,by=0")


# malformed-chunk


@given(FRAMINGS, CUTS, st.integers(0, 6), st.booleans())
def test_a_malformed_chunk_is_sent_at_its_location_and_ends_the_body(
    framing: str, cuts: list[int], events: int, is_live: bool
) -> None:
    request = turn_request(DIALECTS_BY_FRAMING[framing])
    response = encoded_response(request)
    events = min(events, len(response.framed_messages))
    rewrite = apply_faults_live if is_live else apply_faults
    burst = response_burst(response, split_at(b"".join(response.framed_messages), cuts))
    actions, injection = rewrite(request, burst, f"malformed-chunk,after={events}")
    assert sent_body(actions) == b"".join(response.framed_messages[:events])
    assert list(actions[-2:]) == [SendRaw(b"zz\r\n"), Abort("fin")]
    assert injection.records[0].effect is FaultEffect.MALFORMED


def test_a_body_of_a_declared_length_has_no_chunks() -> None:
    request = turn_request(stream=False)
    burst = response_burst(encoded_response(request))
    actions, injection = apply_faults(request, burst, "malformed-chunk")
    assert actions == burst
    assert injection.records[0].skipped == (
        "malformed-chunk does not apply to a body with a Content-Length"
    )


# bad-encoding


@each_row("stream", [True, False])
def test_a_head_claims_gzip_for_a_body_that_is_as_it_was(stream: bool) -> None:
    request = turn_request(stream=stream)
    burst = response_burst(encoded_response(request))
    for rewrite in (apply_faults, apply_faults_live):
        actions, _ = rewrite(request, burst, "bad-encoding")
        assert header_value(sent_head(actions).headers, "content-encoding") == "gzip"
        assert sent_body(actions) == sent_body(burst)


def test_a_head_claims_another_coding_than_the_real_one() -> None:
    request = turn_request()
    response = encoded_response(request)
    gzip_head = replace(
        response.head, headers=(*response.head.headers, ("content-encoding", "gzip"))
    )
    actions, _ = apply_faults(
        request, response_burst(replace(response, head=gzip_head)), "bad-encoding"
    )
    codings = [
        value for name, value in sent_head(actions).headers if name.lower() == "content-encoding"
    ]
    assert codings == ["deflate"]


# bom


@given(st.sampled_from(["sse", "events", "ndjson"]), CUTS, st.booleans())
def test_a_byte_order_mark_comes_first(framing: str, cuts: list[int], is_live: bool) -> None:
    request = turn_request(DIALECTS_BY_FRAMING[framing])
    whole = b"".join(encoded_response(request).framed_messages)
    rewrite = apply_faults_live if is_live else apply_faults
    burst = response_burst(encoded_response(request), split_at(whole, cuts))
    actions, _ = rewrite(request, burst, "bom")
    assert sent_body(actions) == BOM + whole
    assert len(actions) == len(burst)  # it is sent with the first bytes


def test_a_byte_order_mark_counts_in_the_declared_length() -> None:
    request = turn_request(stream=False)
    response = encoded_response(request)
    for rewrite in (apply_faults, apply_faults_live):
        actions, _ = rewrite(request, response_burst(response), "bom")
        assert (
            sent_head(actions).content_length
            == len(sent_body(actions))
            == len(response.framed_messages[0]) + 3
        )


def test_frames_have_no_byte_order_mark() -> None:
    request = turn_request("bedrock")
    burst = response_burst(encoded_response(request))
    actions, injection = apply_faults(request, burst, "bom")
    assert actions == burst
    assert injection.records[0].skipped == "bom does not apply to a body in the format eventstream"


@each_row("rule", ["bom", "bad-encoding", "wrong-length"])
def test_a_response_without_a_body_is_left_unchanged(rule: str) -> None:
    request = turn_request()
    bodiless_head = replace(encoded_response(request).head, framing="none")
    actions, injection = apply_faults(request, (Begin(bodiless_head),), rule)
    assert actions == (Begin(bodiless_head),)
    assert injection.records[0].skipped == f"{rule} does not apply to a response without a body"


@each_row("rule", ["html", "empty", "wrong-length", "bad-encoding", "bom"])
@each_row("location", ["after=2", "at=done", "bytes=7", "ms=3", "fraction=20%"])
def test_a_fault_of_the_whole_response_has_no_location(rule: str, location: str) -> None:
    with pytest.raises(UsageError, match="does not support a location"):
        parse_rule(f"{rule},{location}")
