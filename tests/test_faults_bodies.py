"""Faults of what is sent: pages, nothing at all, and heads that say what is not so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_injection import DIALECTS, answer_of, asked, body, burst_of, cut, live, struck
from llm_proxy.actions import Abort, Action, Begin, Burst, Send, SendRaw, Wait
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Request, ResponseHead, header_value
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule

FRAMINGS = st.sampled_from(list(DIALECTS))
CUTS = st.lists(st.integers(0, 4000), max_size=20)
BOM = b"\xef\xbb\xbf"


def head(actions: Burst | list[Action]) -> ResponseHead:
    """The head that goes out."""
    return next(action.head for action in actions if isinstance(action, Begin))


def failed(request: Request) -> Burst:
    """An answer that is an HTTP error."""
    response = answer_of(request)
    return burst_of(replace(response, head=replace(response.head, status=500)))


# html


@pytest.mark.parametrize("stream", [True, False])
def test_a_gateway_answers_with_a_page(stream: bool) -> None:
    request = asked(stream=stream)
    gone, injection = struck(request, burst_of(answer_of(request)), "html")
    page = (
        b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n"
        b"<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>gateway</center>\r\n"
        b"</body>\r\n</html>\r\n"
    )
    headers = (("Content-Type", "text/html"),)
    assert gone == (
        Begin(ResponseHead(502, "Bad Gateway", headers, "length", len(page))),
        Send(page),
    )
    assert injection.records[0].effect is FaultEffect.REFUSED


@pytest.mark.parametrize(("code", "reason"), [(200, "OK"), (404, "Not Found"), (599, "")])
def test_a_page_has_any_status(code: int, reason: str) -> None:
    request = asked()
    gone, _ = struck(request, burst_of(answer_of(request)), f"html,code={code}")
    assert (head(gone).status, head(gone).reason) == (code, reason)


@pytest.mark.parametrize("code", ["204", "304", "100", "600", "x"])
def test_a_page_has_no_status_without_a_body(code: str) -> None:
    with pytest.raises(UsageError, match="is not the status of a page"):
        parse_rule(f"html,code={code}")


@pytest.mark.parametrize("rule", ["html", "status,code=503", "rate-limit", "overloaded"])
def test_head_is_answered_by_a_head(rule: str) -> None:
    request = replace(asked(), method="HEAD")
    gone, _ = struck(request, (), rule)
    assert [type(item) for item in gone] == [Begin]
    assert (head(gone).framing, (head(gone).length or 0) > 0) == ("none", True)


# empty


@given(FRAMINGS, st.booleans())
def test_an_empty_stream_has_its_head_and_ends_at_once(framing: str, is_live: bool) -> None:
    request = asked(DIALECTS[framing])
    answer = answer_of(request)
    strike = live if is_live else struck
    gone, injection = strike(request, burst_of(answer), "empty")
    assert list(gone) == [Wait(10), Begin(answer.head)]
    assert injection.records[0].effect is FaultEffect.TRUNCATED


def test_an_empty_body_declares_that_it_is() -> None:
    request = asked(stream=False)
    answer = answer_of(request)
    gone, _ = struck(request, burst_of(answer), "empty")
    assert gone == (Wait(10), Begin(replace(answer.head, length=0)))


def test_what_is_no_success_keeps_its_body() -> None:
    gone, injection = struck(asked(), failed(asked()), "empty")
    assert gone == failed(asked())
    assert injection.records[0].skipped == "the answer is no success"


# wrong-length


def test_fewer_bytes_come_than_are_declared() -> None:
    request = asked(stream=False)
    answer = answer_of(request)
    size = len(answer.messages[0])
    for strike in (struck, live):
        gone, injection = strike(request, burst_of(answer), "wrong-length,by=7")
        assert (head(gone).length, body(gone)) == (size + 7, answer.messages[0])
        assert gone[-1] == Abort("fin")
        assert injection.records[0].effect is FaultEffect.CUT


def test_a_length_stays_wrong_where_another_fault_makes_the_body_shorter() -> None:
    request = asked(stream=False)
    answer = answer_of(request)
    for rules in (("truncate,bytes=9", "wrong-length,by=7"), ("wrong-length,by=7", "bom")):
        gone, _ = struck(request, burst_of(answer), *rules)
        assert head(gone).length == len(body(gone)) + 7


def test_a_body_that_is_cut_behind_another_fault_declares_what_it_would_have_been() -> None:
    request = asked(stream=False)
    answer = answer_of(request)
    gone, _ = struck(request, burst_of(answer), "truncate,bytes=9", "close,bytes=5")
    assert (head(gone).length, len(body(gone))) == (9, 5)


def test_a_stream_in_chunks_has_no_length_to_be_wrong() -> None:
    request = asked()
    burst = burst_of(answer_of(request))
    gone, injection = struck(request, burst, "wrong-length")
    assert gone == burst
    assert injection.records[0].skipped == (
        "wrong-length has no meaning in a body that comes in chunks"
    )


def test_a_length_that_is_right_is_refused() -> None:
    with pytest.raises(UsageError, match="by must be 1 byte or more"):
        parse_rule("wrong-length,by=0")


# malformed-chunk


@given(FRAMINGS, CUTS, st.integers(0, 6), st.booleans())
def test_a_chunk_without_a_size_comes_at_its_place_and_nothing_behind_it(
    framing: str, cuts: list[int], events: int, is_live: bool
) -> None:
    request = asked(DIALECTS[framing])
    answer = answer_of(request)
    events = min(events, len(answer.messages))
    strike = live if is_live else struck
    burst = burst_of(answer, cut(b"".join(answer.messages), cuts))
    gone, injection = strike(request, burst, f"malformed-chunk,after={events}")
    assert body(gone) == b"".join(answer.messages[:events])
    assert list(gone[-2:]) == [SendRaw(b"zz\r\n"), Abort("fin")]
    assert injection.records[0].effect is FaultEffect.MALFORMED


def test_a_body_of_a_declared_length_has_no_chunks() -> None:
    request = asked(stream=False)
    burst = burst_of(answer_of(request))
    gone, injection = struck(request, burst, "malformed-chunk")
    assert gone == burst
    assert injection.records[0].skipped == (
        "malformed-chunk has no meaning in a body of a declared length"
    )


# bad-encoding


@pytest.mark.parametrize("stream", [True, False])
def test_a_head_claims_gzip_for_a_body_that_is_as_it_was(stream: bool) -> None:
    request = asked(stream=stream)
    burst = burst_of(answer_of(request))
    for strike in (struck, live):
        gone, _ = strike(request, burst, "bad-encoding")
        assert header_value(head(gone).headers, "content-encoding") == "gzip"
        assert body(gone) == body(burst)


def test_a_head_claims_another_coding_than_the_real_one() -> None:
    request = asked()
    answer = answer_of(request)
    packed = replace(answer.head, headers=(*answer.head.headers, ("content-encoding", "gzip")))
    gone, _ = struck(request, burst_of(replace(answer, head=packed)), "bad-encoding")
    codings = [value for name, value in head(gone).headers if name.lower() == "content-encoding"]
    assert codings == ["deflate"]


# bom


@given(st.sampled_from(["sse", "events", "ndjson"]), CUTS, st.booleans())
def test_a_byte_order_mark_stands_in_front(framing: str, cuts: list[int], is_live: bool) -> None:
    request = asked(DIALECTS[framing])
    whole = b"".join(answer_of(request).messages)
    strike = live if is_live else struck
    burst = burst_of(answer_of(request), cut(whole, cuts))
    gone, _ = strike(request, burst, "bom")
    assert body(gone) == BOM + whole
    assert len(gone) == len(burst)  # it goes with the first bytes


def test_a_byte_order_mark_is_declared() -> None:
    request = asked(stream=False)
    answer = answer_of(request)
    for strike in (struck, live):
        gone, _ = strike(request, burst_of(answer), "bom")
        assert head(gone).length == len(body(gone)) == len(answer.messages[0]) + 3


def test_frames_have_no_byte_order_mark() -> None:
    request = asked("bedrock")
    burst = burst_of(answer_of(request))
    gone, injection = struck(request, burst, "bom")
    assert gone == burst
    assert injection.records[0].skipped == "bom has no meaning in a body of eventstream"


@pytest.mark.parametrize("rule", ["bom", "bad-encoding", "wrong-length"])
def test_what_has_no_body_is_left_as_it_is(rule: str) -> None:
    request = asked()
    bare = replace(answer_of(request).head, framing="none")
    gone, injection = struck(request, (Begin(bare),), rule)
    assert gone == (Begin(bare),)
    assert injection.records[0].skipped == f"{rule} has no meaning in an answer without a body"


@pytest.mark.parametrize("rule", ["html", "empty", "wrong-length", "bad-encoding", "bom"])
@pytest.mark.parametrize("place", ["after=2", "at=done", "bytes=7", "ms=3", "fraction=20%"])
def test_what_concerns_the_whole_answer_has_no_place(rule: str, place: str) -> None:
    with pytest.raises(UsageError, match="has no place in the stream"):
        parse_rule(f"{rule},{place}")
