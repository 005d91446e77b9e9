"""Faults of timing (latency, hang, slow-close, bandwidth, coalesce), by the actions' due times."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from fault_injection import (
    DIALECTS_BY_FRAMING,
    SILENCE_MS,
    apply_faults,
    apply_faults_live,
    encoded_response,
    request_faults,
    response_burst,
    sent_body,
    split_at,
    turn_request,
)
from llm_proxy.actions import Abort, Action, Begin, Burst, Send, Wait
from llm_proxy.dialects import dialect_named
from llm_proxy.errors import UsageError
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.framing import split_messages

FRAMINGS = st.sampled_from(list(DIALECTS_BY_FRAMING))
CUTS = st.lists(st.integers(0, 4000), max_size=20)


def due_times(actions: Burst | list[Action]) -> list[float]:
    """The due time of each piece of the body, in ms."""
    now_ms, times = 0.0, list[float]()
    for action in actions:
        if isinstance(action, Wait):
            now_ms = max(now_ms, action.due)
        elif isinstance(action, Send):
            times.append(now_ms)
    return times


def sent_pieces(actions: Burst | list[Action]) -> list[bytes]:
    """The pieces of the body."""
    return [action.data for action in actions if isinstance(action, Send)]


# latency


def test_an_answer_is_late_by_the_same_time_from_its_head_on() -> None:
    request = turn_request()
    burst = response_burst(encoded_response(request))
    for rewrite in (apply_faults, apply_faults_live):
        actions, injection = rewrite(request, burst, "latency,by=1s")
        begin_index = next(number for number, item in enumerate(actions) if isinstance(item, Begin))
        assert actions[begin_index - 1] == Wait(1010)
        assert due_times(actions) == [due + 1000 for due in due_times(burst)]
        assert sent_body(actions) == sent_body(burst)
        assert injection.records[0].effect is FaultEffect.SLOWED


def test_a_response_is_late_from_a_location_on() -> None:
    request = turn_request()
    burst = response_burst(encoded_response(request))
    actions, _ = apply_faults(request, burst, "latency,by=1s,after=2")
    assert due_times(actions) == [
        due + 1000 * (number >= 2) for number, due in enumerate(due_times(burst))
    ]


def test_each_request_is_late_by_its_own_part_of_a_range() -> None:
    delays = set[float]()
    for model in "abcdef":
        request = dialect_named("openai-chat").sample_request(model, stream=True)
        actions, _ = apply_faults(
            request, response_burst(encoded_response(request)), "latency,by=100..300ms"
        )
        repeated, _ = apply_faults(
            request, response_burst(encoded_response(request)), "latency,by=100..300ms"
        )
        assert actions == repeated
        delays.add(due_times(actions)[0] - 20)
    assert len(delays) == 6
    assert all(100 <= delay <= 300 for delay in delays)


# hang, hang-body


def test_no_answer_comes_until_the_longest_silence_is_over() -> None:
    request = turn_request()
    actions, injection = apply_faults(request, response_burst(encoded_response(request)), "hang")
    assert actions == (Wait(SILENCE_MS), Abort("fin"))
    assert injection.records[0].effect is FaultEffect.UNANSWERED


def test_no_answer_comes_for_as_long_as_a_rule_says() -> None:
    request = turn_request()
    actions, _ = apply_faults(request, response_burst(encoded_response(request)), "hang,for=2s")
    assert actions == (Wait(2000), Abort("fin"))


@given(FRAMINGS, st.booleans())
def test_a_head_comes_and_nothing_behind_it(framing: str, is_live: bool) -> None:
    request = turn_request(DIALECTS_BY_FRAMING[framing])
    response = encoded_response(request)
    rewrite = apply_faults_live if is_live else apply_faults
    actions, injection = rewrite(request, response_burst(response), "hang-body,for=2s")
    assert list(actions) == [Wait(10), Begin(response.head), Wait(2010), Abort("fin")]
    assert (injection.records[0].event, injection.records[0].byte) == (0, 0)


def test_hang_body_keeps_the_declared_length_of_a_whole_body() -> None:
    request = turn_request(stream=False)
    response = encoded_response(request)
    actions, _ = apply_faults(request, response_burst(response), "hang-body")
    assert actions == (Wait(10), Begin(response.head), Wait(10 + SILENCE_MS), Abort("fin"))


@each_row("name", ["hang", "hang-body", "slow-close,by=1s"])
def test_a_rule_without_location_refuses_one(name: str) -> None:
    with pytest.raises(UsageError, match="does not support a location; remove after="):
        parse_rule(f"{name},after=2")


# slow-close


@given(FRAMINGS, st.booleans())
def test_the_end_of_a_stream_comes_late_and_nothing_else(framing: str, is_live: bool) -> None:
    request = turn_request(DIALECTS_BY_FRAMING[framing])
    burst = response_burst(encoded_response(request))
    rewrite = apply_faults_live if is_live else apply_faults
    actions, injection = rewrite(request, burst, "slow-close,by=1s")
    assert tuple(actions) == (*burst, Wait(due_times(burst)[-1] + 1000))
    record = injection.records[0]
    assert (record.at_ms, record.event, record.byte) == (
        due_times(burst)[-1],
        len(encoded_response(request).framed_messages),
        len(sent_body(burst)),
    )


def test_a_long_stream_passes_at_once_and_is_not_kept_to_its_late_end() -> None:
    request = turn_request()
    chain = request_faults(request, "slow-close,by=1s").build_rewriter_chain()
    chain.feed([Begin(encoded_response(request).head)])
    tracemalloc.start()
    try:
        for number in range(128):
            piece = Send(b"data: %01016d\n\n" % number * 64)
            assert chain.feed([piece]) == [piece]
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 1024 * 1024  # of 8 MiB
    assert chain.close() == [Wait(1000)]


def test_a_stream_that_breaks_off_has_no_late_end() -> None:
    request = turn_request()
    burst = (*response_burst(encoded_response(request))[:6], Abort("rst"))
    for rewrite in (apply_faults, apply_faults_live):
        actions, injection = rewrite(request, burst, "slow-close,by=1s")
        assert tuple(actions) == burst
        assert (
            injection.records[0].skipped == "the response was cut off before the fault's location"
        )


def test_a_body_of_a_declared_length_has_no_late_end() -> None:
    request = turn_request(stream=False)
    burst = response_burst(encoded_response(request))
    actions, injection = apply_faults(request, burst, "slow-close,by=1s")
    assert actions == burst
    assert injection.records[0].skipped == (
        "slow-close does not apply to a body with a Content-Length"
    )


# bandwidth


@given(FRAMINGS, CUTS, st.integers(1, 5000), st.booleans())
def test_no_byte_is_earlier_than_a_line_of_that_rate_carries_it(
    framing: str, cuts: list[int], rate: int, is_live: bool
) -> None:
    request = turn_request(DIALECTS_BY_FRAMING[framing])
    whole = b"".join(encoded_response(request).framed_messages)
    burst = response_burst(encoded_response(request), split_at(whole, cuts))
    rewrite = apply_faults_live if is_live else apply_faults
    actions, _ = rewrite(request, burst, f"bandwidth,rate={rate}")
    assert sent_body(actions) == whole
    carried = 0
    for data, due in zip(sent_pieces(actions), due_times(actions), strict=True):
        carried += len(data)
        assert len(data) <= max(1, rate / 50)
        assert due >= 10 + carried * 1000 / rate - 0.001
    waits = [item.due for item in actions if isinstance(item, Wait)]
    assert waits == sorted(waits)


def test_a_line_that_is_never_idle_takes_the_time_that_all_bytes_need() -> None:
    request = turn_request()
    whole = b"".join(encoded_response(request).framed_messages)
    actions, _ = apply_faults(
        request, response_burst(encoded_response(request)), "bandwidth,rate=1kB/s"
    )
    # The first message is due at 20 ms, and the line is never idle after it.
    assert due_times(actions)[-1] == pytest.approx(20 + len(whole), abs=1e-6)


def test_a_wide_line_holds_nothing_up() -> None:
    request = turn_request()
    burst = response_burst(encoded_response(request), gap_ms=1000)
    actions, _ = apply_faults(request, burst, "bandwidth,rate=1MB")
    lags = [due % 1000 for due in due_times(actions)]
    assert all(0 < item < 1 for item in lags)


def test_bandwidth_is_limited_from_a_location_on() -> None:
    request = turn_request()
    response = encoded_response(request)
    actions, _ = apply_faults(request, response_burst(response), "bandwidth,rate=1kB,after=2")
    assert due_times(actions)[:2] == [20, 30]
    assert due_times(actions)[-1] == pytest.approx(
        30 + len(b"".join(response.framed_messages[2:])), abs=11
    )


@each_row("rate", ["0", "x", "-1", "0.1"])
def test_a_rate_is_a_number_of_bytes(rate: str) -> None:
    with pytest.raises(UsageError, match="is not a number of bytes per second"):
        parse_rule(f"bandwidth,rate={rate}")


# coalesce


@given(FRAMINGS, CUTS, st.integers(0, 5), st.booleans())
def test_everything_after_a_location_is_one_write_when_the_last_is_due(
    framing: str, cuts: list[int], events: int, is_live: bool
) -> None:
    request = turn_request(DIALECTS_BY_FRAMING[framing])
    response = encoded_response(request)
    whole = b"".join(response.framed_messages)
    burst = response_burst(response, split_at(whole, cuts))
    rewrite = apply_faults_live if is_live else apply_faults
    events = min(events, len(response.framed_messages) - 1)
    actions, _ = rewrite(request, burst, f"coalesce,after={events}")
    assert sent_pieces(actions)[-1] == b"".join(response.framed_messages[events:])
    assert sent_body(actions) == whole
    assert due_times(actions)[-1] == due_times(burst)[-1]


@given(FRAMINGS, CUTS, st.integers(1, 5), st.integers(0, 400))
def test_a_write_holds_the_given_number_of_messages(
    framing: str, cuts: list[int], events: int, size: int
) -> None:
    request = turn_request(DIALECTS_BY_FRAMING[framing])
    response = encoded_response(request)
    whole = b"".join(response.framed_messages)
    actions, _ = apply_faults(
        request, response_burst(response, split_at(whole, cuts)), f"coalesce,events={events}"
    )
    counts = [len(split_messages(response.codec_name, send)) for send in sent_pieces(actions)]
    assert sent_body(actions) == whole
    assert counts[:-1] == [events] * (len(counts) - 1)
    actions, _ = apply_faults(
        request, response_burst(response), f"coalesce,events={events},bytes={size}"
    )
    assert sent_body(actions) == whole


def test_held_messages_are_sent_before_an_abort() -> None:
    request = turn_request()
    burst = (*response_burst(encoded_response(request)), Abort("rst"))
    for rewrite in (apply_faults, apply_faults_live):
        actions, _ = rewrite(request, burst, "coalesce")
        assert [type(item) for item in actions if not isinstance(item, Wait)] == [
            Begin,
            Send,
            Abort,
        ]
        assert sent_body(actions) == sent_body(burst)


def test_writes_of_no_message_are_refused() -> None:
    with pytest.raises(UsageError, match="events=0 is not a positive integer"):
        parse_rule("coalesce,events=0")


# ranges


@each_row("range_text", ["1", "300..100ms", "..2s", "1s..", "1..2", "x..2s"])
def test_a_range_has_two_spans_and_begins_with_the_shorter(range_text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration"):
        parse_rule(f"latency,by={range_text}")


@each_row(
    ("range_text", "least_ms", "most_ms"),
    [("100..300ms", 100, 300), ("0.5..2s", 500, 2000), ("10ms..1s", 10, 1000), ("2s", 2000, 2000)],
)
def test_a_range_has_one_unit_or_two(range_text: str, least_ms: float, most_ms: float) -> None:
    request = turn_request()
    actions, _ = apply_faults(
        request, response_burst(encoded_response(request)), f"latency,by={range_text}"
    )
    assert least_ms <= due_times(actions)[0] - 20 <= most_ms
    assert all(before <= after for before, after in pairwise(due_times(actions)))
