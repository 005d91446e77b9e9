"""The arrival time of each message of a recording, as numbers and as bars."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cassette_builders
from case_tables import each_row
from llm_proxy import framing
from llm_proxy.exchange import Read
from llm_proxy.timeline import message_arrivals, render_bar, render_sparkline

STREAMS = cassette_builders.read_sequences(
    st.binary(max_size=60).map(lambda data: data.replace(b"\x00", b"\n"))
)


@each_row(
    ("messages", "reads", "expected"),
    [
        ([b"ab"], [(5.0, b"ab")], [(5.0, 5.0, 1)]),
        ([b"ab", b"cd"], [(5.0, b"abcd")], [(5.0, 5.0, 1), (5.0, 0.0, 0)]),
        ([b"abcd"], [(5.0, b"a"), (6.0, b"bc"), (9.0, b"d")], [(9.0, 9.0, 3)]),
        ([b"ab", b"cd"], [(5.0, b"abc"), (7.0, b"d")], [(5.0, 5.0, 1), (7.0, 2.0, 1)]),
        ([b"ab", b"", b"c"], [(5.0, b"ab"), (6.0, b"c")], [(5.0, 5, 1), (5.0, 0, 0), (6.0, 1, 1)]),
        ([], [], []),
    ],
    ids=["one", "two in a read", "over three reads", "cut by a read", "an empty one", "no body"],
)
def test_a_message_has_arrived_when_its_last_byte_has(
    messages: list[bytes],
    reads: list[tuple[float, bytes]],
    expected: list[tuple[float, float, int]],
) -> None:
    arrivals = message_arrivals(messages, [Read(at, data) for at, data in reads])
    assert [(item.at_ms, item.gap_ms, item.read_count) for item in arrivals] == expected
    assert [item.message_bytes for item in arrivals] == messages
    assert [item.number for item in arrivals] == list(range(1, len(messages) + 1))


@given(STREAMS, st.sampled_from(["sse", "ndjson", "whole"]))
def test_gaps_and_reads_of_a_timeline_add_up(reads: list[Read], codec: str) -> None:
    messages = framing.split_messages(codec, b"".join(read.received_bytes for read in reads))
    arrivals = message_arrivals(messages, reads)
    assert len(arrivals) == len(messages)
    assert all(item.gap_ms >= 0 for item in arrivals)
    if arrivals:
        assert arrivals[-1].at_ms == reads[-1].at_ms
        assert sum(item.gap_ms for item in arrivals) == pytest.approx(arrivals[-1].at_ms)
        assert sum(item.read_count for item in arrivals) == len(reads)


@each_row(
    ("value", "drawn", "ascii_drawn"),
    [
        (0.0, "", ""),
        (0.001, "▏", "#"),
        (0.5, "██", "##"),
        (0.5625, "██▎", "##"),
        (1.0, "████", "####"),
        (7.0, "████", "####"),
    ],
    ids=["nothing", "hardly anything", "half", "a little more", "all", "never too long"],
)
def test_a_bar_is_as_long_as_its_value(value: float, drawn: str, ascii_drawn: str) -> None:
    assert render_bar(value, 1.0, 4) == drawn
    assert render_bar(value, 1.0, 4, ascii_only=True) == ascii_drawn


def test_a_sparkline_shows_the_bytes_where_they_came() -> None:
    reads = [Read(0.0, b"x"), Read(50.0, b"x" * 8), Read(99.0, b"x" * 2), Read(100.0, b"x" * 2)]
    assert render_sparkline(reads, 100.0, 4) == "▁ █▄"
    assert render_sparkline(reads, 100.0, 4, ascii_only=True) == ". @="


@given(STREAMS, st.integers(1, 80))
def test_a_sparkline_is_as_wide_as_it_is_asked_to_be(reads: list[Read], width: int) -> None:
    end = reads[-1].at_ms if reads else 0.0
    drawn = render_sparkline(reads, end, width)
    assert len(drawn) == width
    assert drawn.isspace() == (not reads)


def test_a_stream_that_came_all_at_once_has_a_sparkline_too() -> None:
    assert render_sparkline([Read(0.0, b"x")], 0.0, 3) == "█  "
