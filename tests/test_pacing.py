from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import (
    FILE_NAME,
    HEAD,
    READS,
    encode_cassette,
    make_cassette,
    make_head,
    read_sequences,
)
from llm_proxy.actions import Abort, Begin, Burst, Send, Wait
from llm_proxy.cassette import Cassette, parse_cassette
from llm_proxy.exchange import Ending, Read, header_value
from llm_proxy.pacing import (
    InstantPace,
    Pace,
    RecordedPace,
    abort_of_ending,
    cassette_player,
    timing,
)
from llm_proxy.pacing.cassette_player import replay_due_ms

CHANCE: Final = timing.make_seeded_draw(0, "s", "k", 1)


def play(recording: Cassette, pace: Pace) -> Burst:
    return cassette_player.replay_actions(recording, pace, CHANCE)


@each_row(
    ("pace", "times"),
    [
        (RecordedPace(), [10.0, 20.0, 21.5, 33.25, 34.0, 36.0]),
        (RecordedPace(4), [2.5, 5.0, 5.375, 8.3125, 8.5, 9.0]),
        (RecordedPace(0.5), [20.0, 40.0, 43.0, 66.5, 68.0, 72.0]),
    ],
    ids=["recorded", "4x", "0.5x"],
)
def test_a_recording_is_played_read_by_read_at_its_pace(pace: Pace, times: list[float]) -> None:
    actions = play(parse_cassette(FILE_NAME, encode_cassette(end_at=36.0)), pace)
    sent = [action for action in actions if not isinstance(action, Wait)]
    assert sent == [Begin(HEAD), *(Send(read.received_bytes) for read in READS)]
    assert [action.due for action in actions if isinstance(action, Wait)] == times
    assert [isinstance(action, Wait) for action in actions] == [True, False] * 5 + [True]


def test_instant_waits_for_nothing() -> None:
    actions = play(parse_cassette(FILE_NAME, encode_cassette(end_at=36.0)), InstantPace())
    assert actions == (Begin(HEAD), *(Send(read.received_bytes) for read in READS))


@given(reads=read_sequences(st.binary()), speed=st.floats(0.01, 100))
def test_any_recording_is_played_completely_and_in_order(reads: list[Read], speed: float) -> None:
    actions = play(parse_cassette(FILE_NAME, encode_cassette(reads)), RecordedPace(speed))
    assert [action.data for action in actions if isinstance(action, Send)] == [
        read.received_bytes for read in reads
    ]
    times = [action.due for action in actions if isinstance(action, Wait)]
    recorded = dict.fromkeys([10.0, *(round(read.at_ms, 2) for read in reads)])
    assert times == pytest.approx([at / speed for at in recorded])


@each_row(
    ("ending", "abort"),
    [
        (Ending.CLEAN, None),
        (Ending.FIN, Abort("fin")),
        (Ending.RST, Abort("rst")),
        (Ending.STALLED, Abort("rst")),
        (Ending.MALFORMED, Abort("rst")),
        (Ending.CLIENT_GONE, Abort("fin")),
        (Ending.RECORDER_ERROR, Abort("fin")),
        (Ending.KILLED, Abort("fin")),
    ],
)
def test_a_replay_ends_as_the_recording_ended(ending: Ending, abort: Abort | None) -> None:
    assert abort_of_ending(ending) == abort
    recording = make_cassette(b"data: 1\n\n", ending=ending)
    tail = play(
        replace(
            recording, response_end=msgspec.structs.replace(recording.response_end, at_ms=500.0)
        ),
        RecordedPace(),
    )[4:]
    assert tail == ((Wait(500.0),) if abort is None else (Wait(500.0), abort))


@each_row(
    ("framing", "declared", "body", "ending", "length"),
    [
        ("length", 4, b"abcd", Ending.CLEAN, 4),
        ("length", 100, b"abcd", Ending.CLEAN, 4),  # compressed, or a secret was redacted
        ("length", 4, b"", Ending.CLEAN, 0),
        ("length", 100, b"abcd", Ending.FIN, 100),
        ("length", 4, b"abcd", Ending.RST, 5),
        ("length", 2, b"abcd", Ending.RST, 5),
        ("length", None, b"abcd", Ending.KILLED, 5),
        ("length", None, b"abcd", Ending.CLEAN, 4),
        ("chunked", None, b"abcd", Ending.FIN, None),
        ("close", None, b"abcd", Ending.CLEAN, None),
        ("none", 7, b"", Ending.CLEAN, 7),
        ("none", None, b"", Ending.CLEAN, None),
    ],
)
def test_a_body_that_was_cut_is_shorter_than_its_declared_length(
    framing: str, declared: int | None, body: bytes, ending: Ending, length: int | None
) -> None:
    plain = replace(make_head(framing=framing), content_length=declared)
    recording = make_cassette(body, codec="whole", head=plain, ending=ending)
    [begin] = [action for action in play(recording, RecordedPace()) if isinstance(action, Begin)]
    assert begin.head == replace(plain, content_length=length)


@each_row(
    ("name", "value", "recorded", "faster", "slower", "instant"),
    [
        ("Retry-After", "20", "20", "5", "20", "0"),
        ("retry-after", "1", "1", "1", "1", "0"),
        ("Retry-After", "0", "0", "0", "0", "0"),
        ("Retry-After", "0.5", "0.5", "0.5", "0.5", "0"),
        ("Retry-After", "7.5", "7.5", "2", "7.5", "0"),
        ("Retry-After-Ms", "1234567", "1234567", "308642", "1234567", "0"),
        ("retry-after-ms", "1500.25", "1500.25", "376", "1500.25", "0"),
        *(
            ("Retry-After", value, value, value, value, value)
            for value in (
                "Wed, 21 Oct 2026 07:28:00 GMT", "", "-5", "inf", "nan", "1e9", "1_000", " 20",
                "9" * 400, "soon", "٣",
            )
        ),
        ("x-ratelimit-reset", "20", "20", "20", "20", "20"),
    ],
)  # fmt: skip
def test_retry_after_is_scaled_and_never_exceeds_the_recorded_value(
    name: str, value: str, recorded: str, faster: str, slower: str, instant: str
) -> None:
    recording = make_cassette(b"{}", codec="whole")
    recording = replace(
        recording, response_head=make_head(429, "length", (("a", "b"), (name, value)))
    )
    for pace, expected in (
        (RecordedPace(), recorded),
        (RecordedPace(4), faster),
        (RecordedPace(0.25), slower),
        (RecordedPace(1e-320), slower),
        (InstantPace(), instant),
    ):
        [begin] = [action for action in play(recording, pace) if isinstance(action, Begin)]
        assert begin.head.headers == (("a", "b"), (name, expected))


@given(
    st.from_regex(r"[0-9]{1,12}(\.[0-9]{1,3})?", fullmatch=True),
    st.floats(1, 1000),
)
def test_a_scaled_wait_is_long_enough_for_the_pace(value: str, speed: float) -> None:
    recording = make_cassette(b"{}", codec="whole")
    recording = replace(
        recording, response_head=make_head(429, "length", (("Retry-After", value),))
    )
    [begin] = [
        action for action in play(recording, RecordedPace(speed)) if isinstance(action, Begin)
    ]
    scaled = float(header_value(begin.head.headers, "retry-after") or "")
    assert float(value) / speed <= scaled <= float(value)
    assert scaled < float(value) / speed + 1 or math.isclose(scaled, float(value))


def test_instant_makes_everything_due_at_once() -> None:
    assert replay_due_ms(InstantPace(), 1e6) == 0.0
    assert replay_due_ms(RecordedPace(2), 1e6) == 5e5
