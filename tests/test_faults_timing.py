"""Faults of time: what is late, silent, narrow, or at once, as values with their due times."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_injection import DIALECTS, SILENCE, answer_of, asked, body, burst_of, cut, live, struck
from llm_proxy.actions import Abort, Action, Begin, Burst, Send, Wait
from llm_proxy.dialects import dialect_named
from llm_proxy.errors import UsageError
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.framing import split_messages

FRAMINGS = st.sampled_from(list(DIALECTS))
CUTS = st.lists(st.integers(0, 4000), max_size=20)


def dues(actions: Burst | list[Action]) -> list[float]:
    """When each piece of the body goes out, in ms."""
    at, found = 0.0, list[float]()
    for action in actions:
        if isinstance(action, Wait):
            at = max(at, action.due)
        elif isinstance(action, Send):
            found.append(at)
    return found


def sends(actions: Burst | list[Action]) -> list[bytes]:
    """The pieces of the body."""
    return [action.data for action in actions if isinstance(action, Send)]


# latency


def test_an_answer_is_late_by_the_same_time_from_its_head_on() -> None:
    request = asked()
    burst = burst_of(answer_of(request))
    for strike in (struck, live):
        gone, injection = strike(request, burst, "latency,by=1s")
        begun = next(n for n, it in enumerate(gone) if isinstance(it, Begin))
        assert gone[begun - 1] == Wait(1010)
        assert dues(gone) == [due + 1000 for due in dues(burst)]
        assert body(gone) == body(burst)
        assert injection.records[0].effect is FaultEffect.SLOWED


def test_an_answer_is_late_from_a_place_on() -> None:
    request = asked()
    burst = burst_of(answer_of(request))
    gone, _ = struck(request, burst, "latency,by=1s,after=2")
    assert dues(gone) == [due + 1000 * (number >= 2) for number, due in enumerate(dues(burst))]


def test_each_request_is_late_by_its_own_part_of_a_range() -> None:
    delays = set[float]()
    for model in "abcdef":
        request = dialect_named("openai-chat").sample_request(model, stream=True)
        gone, _ = struck(request, burst_of(answer_of(request)), "latency,by=100..300ms")
        again, _ = struck(request, burst_of(answer_of(request)), "latency,by=100..300ms")
        assert gone == again
        delays.add(dues(gone)[0] - 20)
    assert len(delays) == 6
    assert all(100 <= delay <= 300 for delay in delays)


# hang, hang-body


def test_no_answer_comes_until_the_longest_silence_is_over() -> None:
    request = asked()
    gone, injection = struck(request, burst_of(answer_of(request)), "hang")
    assert gone == (Wait(SILENCE), Abort("fin"))
    assert injection.records[0].effect is FaultEffect.UNANSWERED


def test_no_answer_comes_for_as_long_as_a_rule_says() -> None:
    request = asked()
    gone, _ = struck(request, burst_of(answer_of(request)), "hang,for=2s")
    assert gone == (Wait(2000), Abort("fin"))


@given(FRAMINGS, st.booleans())
def test_a_head_comes_and_nothing_behind_it(framing: str, is_live: bool) -> None:
    request = asked(DIALECTS[framing])
    answer = answer_of(request)
    strike = live if is_live else struck
    gone, injection = strike(request, burst_of(answer), "hang-body,for=2s")
    assert list(gone) == [Wait(10), Begin(answer.head), Wait(2010), Abort("fin")]
    assert (injection.records[0].event, injection.records[0].byte) == (0, 0)


def test_a_head_of_a_whole_body_declares_what_does_not_come() -> None:
    request = asked(stream=False)
    answer = answer_of(request)
    gone, _ = struck(request, burst_of(answer), "hang-body")
    assert gone == (Wait(10), Begin(answer.head), Wait(10 + SILENCE), Abort("fin"))


@pytest.mark.parametrize("name", ["hang", "hang-body", "slow-close,by=1s"])
def test_what_has_no_place_is_given_none(name: str) -> None:
    with pytest.raises(UsageError, match="has no place in the stream: leave after out"):
        parse_rule(f"{name},after=2")


# slow-close


@given(FRAMINGS, st.booleans())
def test_the_end_of_a_stream_comes_late_and_nothing_else(framing: str, is_live: bool) -> None:
    request = asked(DIALECTS[framing])
    burst = burst_of(answer_of(request))
    strike = live if is_live else struck
    gone, _ = strike(request, burst, "slow-close,by=1s")
    assert tuple(gone) == (*burst, Wait(dues(burst)[-1] + 1000))


def test_a_body_of_a_declared_length_has_no_late_end() -> None:
    request = asked(stream=False)
    burst = burst_of(answer_of(request))
    gone, injection = struck(request, burst, "slow-close,by=1s")
    assert gone == burst
    assert injection.records[0].skipped == (
        "slow-close has no meaning in a body of a declared length"
    )


# bandwidth


@given(FRAMINGS, CUTS, st.integers(1, 5000), st.booleans())
def test_no_byte_is_earlier_than_a_line_of_that_rate_carries_it(
    framing: str, cuts: list[int], rate: int, is_live: bool
) -> None:
    request = asked(DIALECTS[framing])
    whole = b"".join(answer_of(request).messages)
    burst = burst_of(answer_of(request), cut(whole, cuts))
    strike = live if is_live else struck
    gone, _ = strike(request, burst, f"bandwidth,rate={rate}")
    assert body(gone) == whole
    carried = 0
    for data, due in zip(sends(gone), dues(gone), strict=True):
        carried += len(data)
        assert len(data) <= max(1, rate / 50)
        assert due >= 10 + carried * 1000 / rate - 0.001
    waits = [item.due for item in gone if isinstance(item, Wait)]
    assert waits == sorted(waits)


def test_a_line_that_is_never_idle_takes_the_time_that_all_bytes_need() -> None:
    request = asked()
    whole = b"".join(answer_of(request).messages)
    gone, _ = struck(request, burst_of(answer_of(request)), "bandwidth,rate=1kB/s")
    # The first message is due at 20 ms, and the line has no pause behind it.
    assert dues(gone)[-1] == pytest.approx(20 + len(whole), abs=1e-6)


def test_a_wide_line_holds_nothing_up() -> None:
    request = asked()
    burst = burst_of(answer_of(request), gap=1000)
    gone, _ = struck(request, burst, "bandwidth,rate=1MB")
    late = [got % 1000 for got in dues(gone)]
    assert all(0 < item < 1 for item in late)


def test_a_line_is_narrow_from_a_place_on() -> None:
    request = asked()
    answer = answer_of(request)
    gone, _ = struck(request, burst_of(answer), "bandwidth,rate=1kB,after=2")
    assert dues(gone)[:2] == [20, 30]
    assert dues(gone)[-1] == pytest.approx(30 + len(b"".join(answer.messages[2:])), abs=11)


@pytest.mark.parametrize("rate", ["0", "x", "-1", "0.1"])
def test_a_rate_is_a_number_of_bytes(rate: str) -> None:
    with pytest.raises(UsageError, match="is not a number of bytes a second"):
        parse_rule(f"bandwidth,rate={rate}")


# coalesce


@given(FRAMINGS, CUTS, st.integers(0, 5), st.booleans())
def test_everything_behind_a_place_comes_in_one_write_when_the_last_is_due(
    framing: str, cuts: list[int], events: int, is_live: bool
) -> None:
    request = asked(DIALECTS[framing])
    answer = answer_of(request)
    whole = b"".join(answer.messages)
    burst = burst_of(answer, cut(whole, cuts))
    strike = live if is_live else struck
    events = min(events, len(answer.messages) - 1)
    gone, _ = strike(request, burst, f"coalesce,after={events}")
    assert sends(gone)[-1] == b"".join(answer.messages[events:])
    assert body(gone) == whole
    assert dues(gone)[-1] == dues(burst)[-1]


@given(FRAMINGS, CUTS, st.integers(1, 5), st.integers(0, 400))
def test_so_many_messages_come_in_a_write(
    framing: str, cuts: list[int], events: int, size: int
) -> None:
    request = asked(DIALECTS[framing])
    answer = answer_of(request)
    whole = b"".join(answer.messages)
    gone, _ = struck(request, burst_of(answer, cut(whole, cuts)), f"coalesce,events={events}")
    counts = [len(split_messages(answer.codec, send)) for send in sends(gone)]
    assert body(gone) == whole
    assert counts[:-1] == [events] * (len(counts) - 1)
    gone, _ = struck(request, burst_of(answer), f"coalesce,events={events},bytes={size}")
    assert body(gone) == whole


def test_what_is_held_goes_out_before_an_answer_breaks_off() -> None:
    request = asked()
    burst = (*burst_of(answer_of(request)), Abort("rst"))
    for strike in (struck, live):
        gone, _ = strike(request, burst, "coalesce")
        assert [type(item) for item in gone if not isinstance(item, Wait)] == [Begin, Send, Abort]
        assert body(gone) == body(burst)


def test_writes_of_no_message_are_refused() -> None:
    with pytest.raises(UsageError, match="events must be 1 or more"):
        parse_rule("coalesce,events=0")


# ranges


@pytest.mark.parametrize("by", ["1", "300..100ms", "..2s", "1s..", "1..2", "x..2s"])
def test_a_range_has_two_spans_and_begins_with_the_shorter(by: str) -> None:
    with pytest.raises(UsageError, match=r"is not a (span|range)"):
        parse_rule(f"latency,by={by}")


@pytest.mark.parametrize(
    ("by", "least", "most"),
    [("100..300ms", 100, 300), ("0.5..2s", 500, 2000), ("10ms..1s", 10, 1000), ("2s", 2000, 2000)],
)
def test_a_range_has_one_unit_or_two(by: str, least: float, most: float) -> None:
    request = asked()
    gone, _ = struck(request, burst_of(answer_of(request)), f"latency,by={by}")
    assert least <= dues(gone)[0] - 20 <= most
    assert all(before <= after for before, after in pairwise(dues(gone)))
