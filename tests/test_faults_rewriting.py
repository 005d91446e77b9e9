"""Faults apply exactly at their location, however the stream was split on its way."""

from __future__ import annotations

import re
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
from llm_proxy.actions import Abort, Begin, Burst, Send, Wait
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults import rewriting
from llm_proxy.faults.fault_record import FaultEffect, FaultRecord
from llm_proxy.faults.rewriting import RewritingTooExpensive

FRAMINGS = st.sampled_from(list(DIALECTS_BY_FRAMING))
CUTS = st.lists(st.integers(0, 4000), max_size=30)


@given(FRAMINGS, CUTS, st.integers(0, 6), st.booleans())
def test_after_is_a_location_between_whole_messages_however_they_arrive(
    framing: str, cuts: list[int], events: int, is_live: bool
) -> None:
    request = turn_request(DIALECTS_BY_FRAMING[framing])
    response = encoded_response(request)
    whole = b"".join(response.framed_messages)
    events = min(events, len(response.framed_messages))
    rewrite = apply_faults_live if is_live else apply_faults
    actions, injection = rewrite(
        request, response_burst(response, split_at(whole, cuts)), f"reset,after={events}"
    )
    assert sent_body(actions) == b"".join(response.framed_messages[:events])
    assert actions[-1] == Abort("rst")
    (record,) = injection.records
    assert (record.event, record.byte) == (events, len(sent_body(actions)))
    assert record.effect is FaultEffect.CUT


@given(FRAMINGS, CUTS, st.integers(0, 4000), st.booleans())
def test_bytes_are_counted_to_the_byte(
    framing: str, cuts: list[int], size: int, is_live: bool
) -> None:
    request = turn_request(DIALECTS_BY_FRAMING[framing])
    response = encoded_response(request)
    whole = b"".join(response.framed_messages)
    size %= len(whole) + 1
    rewrite = apply_faults_live if is_live else apply_faults
    actions, _ = rewrite(
        request, response_burst(response, split_at(whole, cuts)), f"close,bytes={size}"
    )
    assert sent_body(actions) == whole[:size]
    assert actions[-1] == Abort("fin")


@given(CUTS, st.sampled_from(["content_block_delta", "message_delta", "message_stop", "finish"]))
def test_an_event_type_location_is_before_the_event(cuts: list[int], at: str) -> None:
    request = turn_request("anthropic")
    response = encoded_response(request)
    event_type = "message_delta" if at == "finish" else at
    before = list(response.framed_messages)
    index = next(
        number
        for number, message in enumerate(before)
        if f"event: {event_type}\n".encode() in message
    )
    for rewrite in (apply_faults_live, apply_faults):
        actions, _ = rewrite(
            request, response_burst(response, split_at(b"".join(before), cuts)), f"truncate,at={at}"
        )
        assert sent_body(actions) == b"".join(before[:index])
        assert not isinstance(actions[-1], Abort)


@given(st.integers(0, 300), st.booleans())
def test_a_time_location_is_between_the_actions_due_before_and_after_it(
    ms: int, is_live: bool
) -> None:
    request = turn_request()
    response = encoded_response(request)
    burst = response_burst(response)
    rewrite = apply_faults_live if is_live else apply_faults
    actions, injection = rewrite(request, burst, f"reset,ms={ms}")
    if ms >= 10 * (len(response.framed_messages) + 1):
        assert (
            injection.records[0].skipped
            == f"the response ended before the fault's location ms={ms}"
        )
        assert tuple(actions) == burst
        return
    arrived = [
        message for number, message in enumerate(response.framed_messages, 2) if number * 10 <= ms
    ]
    assert sent_body(actions) == b"".join(arrived)
    assert actions[-1] == Abort("rst")
    assert injection.records[0].at_ms == ms
    assert any(isinstance(item, Begin) for item in actions) == (ms >= 10)


def test_a_fraction_is_of_the_body_bytes() -> None:
    request = turn_request()
    response = encoded_response(request)
    whole = b"".join(response.framed_messages)
    actions, _ = apply_faults(request, response_burst(response), "reset,fraction=25%")
    assert sent_body(actions) == whole[: round(len(whole) / 4)]


def test_a_fraction_of_a_live_stream_is_skipped() -> None:
    request = turn_request()
    response = encoded_response(request)
    actions, injection = apply_faults_live(request, response_burst(response), "reset,fraction=25%")
    assert tuple(actions) == response_burst(response)
    assert injection.records[0].skipped == ("fraction= requires a known body length")


def test_a_location_that_is_not_reached_is_skipped_with_a_reason() -> None:
    request = turn_request()
    response = encoded_response(request)
    actions, injection = apply_faults(request, response_burst(response), "stall,after=99")
    assert actions == response_burst(response)
    count = len(response.framed_messages)
    assert injection.records == (
        FaultRecord(
            "stall,after=99", "stall", FaultEffect.STALLED,
            skipped=f"the body contained only {count} events",
        ),
    )  # fmt: skip


def test_only_what_follows_a_pause_is_delayed() -> None:
    request = turn_request()
    response = encoded_response(request)
    actions, _ = apply_faults(request, response_burst(response), "stall,after=2,for=1s")
    dues = [item.due for item in actions if isinstance(item, Wait)]
    assert dues[:5] == [10, 20, 30, 1030, 1040]
    assert sent_body(actions) == b"".join(response.framed_messages)


def test_rules_see_the_output_of_earlier_rules() -> None:
    request = turn_request()
    response = encoded_response(request)
    actions, _ = apply_faults(
        request, response_burst(response), "drop,after=1,count=2", "reset,after=2"
    )
    assert sent_body(actions) == response.framed_messages[0] + response.framed_messages[3]


def test_a_truncated_whole_body_declares_its_new_length() -> None:
    request = turn_request(stream=False)
    response = encoded_response(request)
    actions, _ = apply_faults(request, response_burst(response), "truncate")
    head = next(item.head for item in actions if isinstance(item, Begin))
    size = len(response.framed_messages[0]) // 2
    assert (head.framing, head.content_length, sent_body(actions)) == (
        "length",
        size,
        response.framed_messages[0][:size],
    )


def test_a_cut_whole_body_declares_its_original_length() -> None:
    request = turn_request(stream=False)
    response = encoded_response(request)
    actions, _ = apply_faults(request, response_burst(response), "close,bytes=5")
    head = next(item.head for item in actions if isinstance(item, Begin))
    assert (head.content_length, sent_body(actions)) == (
        len(response.framed_messages[0]),
        response.framed_messages[0][:5],
    )


@given(FRAMINGS, CUTS, st.integers(1, 9))
def test_slices_are_of_one_size_and_the_bytes_the_same(
    framing: str, cuts: list[int], size: int
) -> None:
    request = turn_request(DIALECTS_BY_FRAMING[framing])
    response = encoded_response(request)
    whole = b"".join(response.framed_messages)
    actions, _ = apply_faults(
        request, response_burst(response, split_at(whole, cuts)), f"slice,size={size}"
    )
    assert sent_body(actions) == whole
    assert max(len(item.data) for item in actions if isinstance(item, Send)) <= size


@each_row("rule", ["status,code=503", "reset", "close"])
def test_a_rule_without_location_replaces_the_response(rule: str) -> None:
    request = turn_request()
    actions, injection = apply_faults(request, response_burst(encoded_response(request)), rule)
    assert injection.records[0].skipped == ""
    assert injection.records[0].event is None
    assert len(actions) in (1, 2)


def test_rules_that_are_too_expensive_together_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    request = turn_request()
    burst = response_burst(encoded_response(request))
    rules = ["slice,size=20,delay=0ms"] * 3
    rewritten, _ = apply_faults(request, burst, *rules[:1])
    rewritten_count = len(burst) + 2 * len(rewritten)  # by three rules
    monkeypatch.setattr(rewriting, "_MAX_REWRITTEN_ACTIONS", rewritten_count)
    apply_faults(request, burst, *rules)
    monkeypatch.setattr(rewriting, "_MAX_REWRITTEN_ACTIONS", rewritten_count - 1)
    with pytest.raises(
        RewritingTooExpensive,
        match="the fault rules change too many writes of the response, or add too many bytes",
    ):
        apply_faults(request, burst, *rules)


@pytest.mark.parametrize("is_live", [False, True])
def test_rules_that_add_too_many_bytes_together_raise(
    monkeypatch: pytest.MonkeyPatch, *, is_live: bool
) -> None:
    """An element of an array that is cut off includes all that follows: each copy doubles it."""
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "chunked")
    array = b"[" + b",".join([b'{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}'] * 5) + b"]"
    burst: Burst = (Begin(head), Send(array))
    rules = ["malformed-json,after=1", *["duplicate,after=1"] * 9]
    rewrite = apply_faults_live if is_live else apply_faults
    actions, _ = rewrite(turn_request("gemini"), burst, *rules)
    added_bytes = len(sent_body(actions)) - len(array)
    assert added_bytes > 100 * len(array)
    monkeypatch.setattr(rewriting, "_MAX_ADDED_BYTES", added_bytes)
    rewrite(turn_request("gemini"), burst, *rules)
    monkeypatch.setattr(rewriting, "_MAX_ADDED_BYTES", added_bytes - 1)
    with pytest.raises(RewritingTooExpensive):
        rewrite(turn_request("gemini"), burst, *rules)


def test_repeated_rules_make_no_extra_actions() -> None:
    request = turn_request()
    response = encoded_response(request)
    size = sum(map(len, response.framed_messages))
    actions, _ = apply_faults(request, response_burst(response), *["slice,size=1"] * 5)
    assert len(actions) <= 2 * size + 3


def test_a_synthesised_end_keeps_the_created_time_of_the_response() -> None:
    request = turn_request()
    original = encoded_response(request)
    response = replace(
        original,
        framed_messages=tuple(
            re.sub(rb'"created":\d+', b'"created":1795252595', message)
            for message in original.framed_messages
        ),
    )
    actions, _ = apply_faults(request, response_burst(response), "finish-length,after=4")
    assert b'"finish_reason":"length"' in sent_body(actions)
    assert set(re.findall(rb'"created":(\d+)', sent_body(actions))) == {b"1795252595"}
