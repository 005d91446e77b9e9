"""Where faults land: exactly at their place, however the stream was cut on its way."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_injection import DIALECTS, answer_of, asked, body, burst_of, cut, injection, live, struck
from llm_proxy.actions import Abort, Begin, Send, Wait
from llm_proxy.faults.fault_record import FaultEffect, FaultRecord
from llm_proxy.faults.rewriting import RewritingTooExpensive, rewrite_response

FRAMINGS = st.sampled_from(list(DIALECTS))
CUTS = st.lists(st.integers(0, 4000), max_size=30)


@given(FRAMINGS, CUTS, st.integers(0, 6), st.booleans())
def test_after_events_lies_behind_whole_messages_however_they_arrive(
    framing: str, cuts: list[int], events: int, is_live: bool
) -> None:
    request = asked(DIALECTS[framing])
    answer = answer_of(request)
    whole = b"".join(answer.messages)
    events = min(events, len(answer.messages))
    strike = live if is_live else struck
    gone, injection = strike(request, burst_of(answer, cut(whole, cuts)), f"reset,after={events}")
    assert body(gone) == b"".join(answer.messages[:events])
    assert gone[-1] == Abort("rst")
    (injected,) = injection.records
    assert (injected.event, injected.byte) == (events, len(body(gone)))
    assert injected.effect is FaultEffect.CUT


@given(FRAMINGS, CUTS, st.integers(0, 4000), st.booleans())
def test_bytes_are_counted_to_the_byte(
    framing: str, cuts: list[int], size: int, is_live: bool
) -> None:
    request = asked(DIALECTS[framing])
    answer = answer_of(request)
    whole = b"".join(answer.messages)
    size %= len(whole) + 1
    strike = live if is_live else struck
    gone, _ = strike(request, burst_of(answer, cut(whole, cuts)), f"close,bytes={size}")
    assert body(gone) == whole[:size]
    assert gone[-1] == Abort("fin")


@given(CUTS, st.sampled_from(["content_block_delta", "message_delta", "message_stop", "finish"]))
def test_a_type_of_event_is_met_before_the_event(cuts: list[int], kind: str) -> None:
    request = asked("anthropic")
    answer = answer_of(request)
    named = "message_delta" if kind == "finish" else kind
    before = list(answer.messages)
    index = next(n for n, it in enumerate(before) if f"event: {named}\n".encode() in it)
    for strike in (live, struck):
        gone, _ = strike(
            request, burst_of(answer, cut(b"".join(before), cuts)), f"truncate,at={kind}"
        )
        assert body(gone) == b"".join(before[:index])
        assert not isinstance(gone[-1], Abort)


@given(st.integers(0, 300), st.booleans())
def test_a_moment_is_met_between_what_is_due_before_and_behind_it(ms: int, is_live: bool) -> None:
    request = asked()
    answer = answer_of(request)
    burst = burst_of(answer)
    strike = live if is_live else struck
    gone, injection = strike(request, burst, f"reset,ms={ms}")
    if ms >= 10 * (len(answer.messages) + 1):
        assert injection.records[0].skipped == f"the answer was over before {ms} ms"
        assert tuple(gone) == burst
        return
    arrived = [it for n, it in enumerate(answer.messages, 2) if n * 10 <= ms]
    assert body(gone) == b"".join(arrived)
    assert gone[-1] == Abort("rst")
    assert injection.records[0].at_ms == ms
    assert any(isinstance(item, Begin) for item in gone) == (ms >= 10)


def test_a_fraction_is_one_of_the_bytes() -> None:
    request = asked()
    answer = answer_of(request)
    whole = b"".join(answer.messages)
    gone, _ = struck(request, burst_of(answer), "reset,fraction=25%")
    assert body(gone) == whole[: round(len(whole) / 4)]


def test_a_fraction_of_a_live_stream_is_known_to_nobody() -> None:
    request = asked()
    answer = answer_of(request)
    gone, injection = live(request, burst_of(answer), "reset,fraction=25%")
    assert tuple(gone) == burst_of(answer)
    assert injection.records[0].skipped == (
        "fraction= needs a body whose length is known beforehand"
    )


def test_what_is_not_reached_is_said_and_changes_nothing() -> None:
    request = asked()
    answer = answer_of(request)
    gone, injection = struck(request, burst_of(answer), "stall,after=99")
    assert gone == burst_of(answer)
    count = len(answer.messages)
    assert injection.records == (
        FaultRecord(
            "stall,after=99", "stall", FaultEffect.STALLED,
            skipped=f"the body had {count} messages, and not 99",
        ),
    )  # fmt: skip


def test_what_lies_behind_a_pause_is_late_by_it_and_nothing_else() -> None:
    request = asked()
    answer = answer_of(request)
    gone, _ = struck(request, burst_of(answer), "stall,after=2,for=1s")
    dues = [item.due for item in gone if isinstance(item, Wait)]
    assert dues[:5] == [10, 20, 30, 1030, 1040]
    assert body(gone) == b"".join(answer.messages)


def test_rules_see_what_those_before_them_left() -> None:
    request = asked()
    answer = answer_of(request)
    gone, _ = struck(request, burst_of(answer), "drop,after=1,count=2", "reset,after=2")
    assert body(gone) == answer.messages[0] + answer.messages[3]


def test_a_whole_body_that_ends_early_declares_what_it_has() -> None:
    request = asked(stream=False)
    answer = answer_of(request)
    gone, _ = struck(request, burst_of(answer), "truncate")
    head = next(item.head for item in gone if isinstance(item, Begin))
    size = len(answer.messages[0]) // 2
    assert (head.framing, head.length, body(gone)) == ("length", size, answer.messages[0][:size])


def test_a_whole_body_that_is_cut_declares_what_it_had() -> None:
    request = asked(stream=False)
    answer = answer_of(request)
    gone, _ = struck(request, burst_of(answer), "close,bytes=5")
    head = next(item.head for item in gone if isinstance(item, Begin))
    assert (head.length, body(gone)) == (len(answer.messages[0]), answer.messages[0][:5])


@given(FRAMINGS, CUTS, st.integers(1, 9))
def test_slices_are_of_one_size_and_the_bytes_the_same(
    framing: str, cuts: list[int], size: int
) -> None:
    request = asked(DIALECTS[framing])
    answer = answer_of(request)
    whole = b"".join(answer.messages)
    gone, _ = struck(request, burst_of(answer, cut(whole, cuts)), f"slice,size={size}")
    assert body(gone) == whole
    assert max(len(item.data) for item in gone if isinstance(item, Send)) <= size


@pytest.mark.parametrize("rule", ["status,code=503", "reset", "close"])
def test_what_has_no_place_answers_alone(rule: str) -> None:
    request = asked()
    gone, injection = struck(request, burst_of(answer_of(request)), rule)
    assert injection.records[0].skipped == ""
    assert injection.records[0].event is None
    assert len(gone) in (1, 2)


def test_rules_that_make_too_much_work_together_strike_nothing() -> None:
    request = asked()
    chain, _ = injection(request, *["slice,size=1,delay=0ms"] * 99).rewriter_chain()
    with pytest.raises(
        RewritingTooExpensive, match="the rules of this answer make too much work together"
    ):
        rewrite_response(burst_of(answer_of(request)), chain)


def test_rules_behind_each_other_make_no_more_work_than_they_must() -> None:
    request = asked()
    answer = answer_of(request)
    size = sum(map(len, answer.messages))
    gone, _ = struck(request, burst_of(answer), *["slice,size=1"] * 5)
    assert len(gone) <= 2 * size + 3


def test_an_end_that_is_made_names_the_time_that_the_answer_had_named() -> None:
    request = asked()
    whole = answer_of(request)
    answer = replace(
        whole,
        messages=tuple(
            re.sub(rb'"created":\d+', b'"created":1795252595', message)
            for message in whole.messages
        ),
    )
    gone, _ = struck(request, burst_of(answer), "finish-length,after=4")
    assert b'"finish_reason":"length"' in body(gone)
    assert set(re.findall(rb'"created":(\d+)', body(gone))) == {b"1795252595"}
