"""The pieces in which a recording is sent, and their due times at paces other than its own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import (
    FILE_NAME,
    HEAD,
    META,
    READS,
    REQUEST,
    encode_cassette,
    make_head,
    read_sequences,
    splits,
)
from llm_proxy.actions import Abort, Action, Begin, Send, Wait
from llm_proxy.cassette import Cassette, parse_cassette
from llm_proxy.dialects.bedrock import frames
from llm_proxy.exchange import Ending, Read, ResponseHead, header_value
from llm_proxy.framing.sse import encode_event
from llm_proxy.pacing import parse_pace
from llm_proxy.pacing.cassette_player import is_slow_to_plan, read_pace_input, replay_actions
from llm_proxy.pacing.timing import make_seeded_draw, rechunk

CHANCE: Final = make_seeded_draw(0, "default", "key", 1)


def sse(**document: Any) -> bytes:
    return encode_event(json.dumps(document).encode())


def choice(finish: str | None = None, **delta: Any) -> bytes:
    return sse(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])


def usage(output: int, **details: Any) -> bytes:
    return sse(choices=[], usage={"prompt_tokens": 40, "completion_tokens": output, **details})


OPEN: Final = choice(role="assistant", content="")
ONE: Final = choice(content="Four")
TWO: Final = choice(content=" and four")
STOP: Final = choice("stop")
DONE: Final = encode_event(b"[DONE]")
STREAM: Final = (OPEN, ONE, TWO, STOP, usage(4), DONE)
"""A response of 4 tokens in 13 characters."""


def make_recording(
    *messages: bytes, at: float = 20.0, pieces: list[bytes] | None = None, **options: Any
) -> Cassette:
    """A recording whose bytes arrived all at once, like an imported one without times."""
    body = b"".join(messages)
    reads = [Read(at, item) for item in (pieces or [body]) if item]
    return parse_cassette(FILE_NAME, encode_cassette(reads, **options))


def schedule(recording: Cassette, pace: str) -> list[float | bytes | str]:
    """The due times of a recording at this pace, and the data sent between them."""
    return [action_value(action) for action in replay_actions(recording, parse_pace(pace), CHANCE)]


def action_value(action: Action) -> float | bytes | str:
    match action:
        case Wait(due):
            return round(due, 6)
        case Send(data):
            return data
        case Abort(how):
            return how
        case other:
            return type(other).__name__


def test_a_token_rate_sends_each_message_with_its_last_token() -> None:
    second = 3 / 10 * 1000
    assert schedule(make_recording(*STREAM), "10tps") == [
        "Begin", OPEN, round((4 * 4 / 13 - 1) * 100, 6), ONE, second, TWO, STOP, usage(4), DONE,
    ]  # fmt: skip


def test_a_latency_model_puts_its_gaps_between_messages_with_output() -> None:
    assert schedule(make_recording(*STREAM), "ttft=300ms,prefill=2ms,gap=30ms") == [
        380.0, "Begin", OPEN, ONE, 410.0, TWO, STOP, usage(4), DONE,
    ]  # fmt: skip


def test_a_profile_gives_times_to_a_recording_without_any() -> None:
    scheduled = schedule(make_recording(*STREAM), "profile:claude-sonnet-4-6")

    assert [item for item in scheduled if isinstance(item, bytes)] == [*STREAM]
    first, second = (item for item in scheduled if isinstance(item, float))
    assert 70.0 <= first <= 680.0
    assert 41.0 <= second - first <= 68.0
    assert scheduled == schedule(make_recording(*STREAM), "profile:claude-sonnet-4-6")


def test_recorded_pieces_can_be_kept_at_any_times() -> None:
    body = b"".join(STREAM)
    first, second = body.index(TWO) + 5, body.index(STOP) + 3
    pieces = [body[:first], body[first:second], body[second:]]
    recording = make_recording(pieces=pieces)

    assert schedule(recording, "gap=30ms,chunks=recorded") == [
        "Begin", pieces[0], 30.0, pieces[1], pieces[2],
    ]  # fmt: skip
    assert read_pace_input(recording, "recorded").output_char_counts == (4, 9, 0)


def test_a_document_goes_out_when_its_last_token_would() -> None:
    document = {"choices": [{"message": {"content": "Twelve chars"}, "finish_reason": "stop"}]}
    body = json.dumps(document).encode()
    counted = json.dumps(document | {"usage": {"completion_tokens": 31}}).encode()
    options: dict[str, Any] = {"codec": "whole", "head": make_head(framing="length")}

    assert schedule(make_recording(body, **options), "10tps,ttft=1s") == [
        1000.0,
        "Begin",
        1200.0,
        body,
    ]
    assert schedule(make_recording(counted, **options), "10tps") == ["Begin", 3000.0, counted]
    halves = [body[:9], body[9:]]
    assert schedule(make_recording(pieces=halves, **options), "10tps,chunks=recorded") == [
        "Begin", 200.0, *halves,
    ]  # fmt: skip


def test_an_error_goes_out_with_the_head() -> None:
    body = b'{"error":{"message":"slow down"}}'
    recording = make_recording(
        body, codec="whole", head=make_head(429, "length", (("Retry-After", "20"),))
    )

    assert schedule(recording, "1tps,ttft=2s") == [2000.0, "Begin", body]
    [begin] = [
        action
        for action in replay_actions(recording, parse_pace("50tps"), CHANCE)
        if isinstance(action, Begin)
    ]
    assert header_value(begin.head.headers, "retry-after") == "20"


OPAQUE: Final[dict[str, Any]] = {
    "meta": msgspec.structs.replace(META, dialect="opaque", provider="default", model=""),
    "request": replace(REQUEST, path="/events", body=b"hello?"),
}


def test_each_message_of_an_opaque_stream_counts_as_a_token() -> None:
    recording = make_recording(b"data: 1\n\n", b": 2\n\n", b"data: 3\n\n", **OPAQUE)

    assert schedule(recording, "10tps,prefill=9ms") == [
        "Begin", b"data: 1\n\n", 100.0, b": 2\n\n", 200.0, b"data: 3\n\n",
    ]  # fmt: skip
    assert schedule(recording, "gap=30ms")[2:] == [30.0, b": 2\n\n", 60.0, b"data: 3\n\n"]
    kept = replace(recording, reads=(Read(0, b"data: 1\n\n: 2\n"), Read(0, b"\ndata: 3\n\n")))
    assert schedule(kept, "gap=30ms,chunks=recorded") == [
        "Begin", b"data: 1\n\n: 2\n", 30.0, b"\ndata: 3\n\n",
    ]  # fmt: skip


def test_each_read_of_an_opaque_document_counts_as_a_token() -> None:
    options = OPAQUE | {"codec": "whole", "head": make_head(framing="length")}

    assert schedule(make_recording(pieces=[b"one", b"two"], **options), "10tps") == [
        "Begin", b"one", 100.0, b"two",
    ]  # fmt: skip


def test_a_recording_of_another_framing_is_paced_by_its_messages() -> None:
    messages = [
        frames.encode_event_frame("contentBlockDelta", {"delta": {"text": "Four"}})
        for _ in range(3)
    ]
    path = "/model/m/converse-stream"
    recording = make_recording(
        *messages,
        codec="eventstream",
        head=ResponseHead(
            200, "OK", (("Content-Type", "application/vnd.amazon.eventstream"),), "chunked"
        ),
        meta=msgspec.structs.replace(META, dialect="bedrock", provider="bedrock"),
        request=replace(REQUEST, path=path, body=b'{"messages":[]}'),
    )

    assert schedule(recording, "10tps") == [
        "Begin",
        messages[0],
        100.0,
        messages[1],
        200.0,
        messages[2],
    ]


@each_row(
    ("last", "tokens"),
    [
        ((STOP, usage(4)), 4),
        ((STOP,), 4),  # a quarter of 13 characters
        ((usage(50),), 4),  # it never finished, so the count is partial
        ((STOP, usage(20, completion_tokens_details={"reasoning_tokens": 12})), 8),
        ((STOP, usage(0)), 4),
        ((STOP, usage(5, completion_tokens_details={"reasoning_tokens": 9})), 1),
    ],
    ids=["counted", "not counted", "cut", "hidden reasoning", "none counted", "odd counts"],
)
def test_the_tokens_of_an_answer_are_those_that_were_counted(
    last: tuple[bytes, ...], tokens: int
) -> None:
    assert (
        read_pace_input(make_recording(OPEN, ONE, TWO, *last, DONE), None).count_output_tokens()
        == tokens
    )


def test_visible_reasoning_counts() -> None:
    thought = choice(reasoning_content="Hm.")
    counted = usage(20, completion_tokens_details={"reasoning_tokens": 12})

    assert (
        read_pace_input(
            make_recording(OPEN, thought, ONE, STOP, counted), None
        ).count_output_tokens()
        == 20
    )


def test_the_tokens_of_a_request_are_the_counted_ones_or_a_quarter_of_its_characters() -> None:
    messages = [{"role": "system", "content": "Four"}, {"role": "user", "content": "and five."}]
    body = json.dumps({"stream": True, "messages": messages}).encode()
    request = replace(REQUEST, body=body)

    assert (
        read_pace_input(make_recording(*STREAM, request=request), None).count_prompt_tokens() == 40
    )
    assert (
        read_pace_input(
            make_recording(ONE, STOP, DONE, request=request), None
        ).count_prompt_tokens()
        == 4
    )


def test_a_truncated_recording_ends_after_its_last_message() -> None:
    recording = make_recording(OPEN, ONE, TWO[:9], ending=Ending.RST, end_at=90_000.0)

    assert schedule(recording, "gap=30ms") == ["Begin", OPEN, ONE, TWO[:9], "rst"]


def test_no_gap_exceeds_the_maximum() -> None:
    recording = parse_cassette(
        FILE_NAME, encode_cassette([Read(500, ONE), Read(5500, TWO)], head_at=400, end_at=9000)
    )

    assert schedule(recording, "max-gap=1s") == [400.0, "Begin", 500.0, ONE, 1500.0, TWO, 2500.0]
    assert schedule(recording, "2x,max-gap=100ms") == [
        100.0, "Begin", 150.0, ONE, 250.0, TWO, 350.0,
    ]  # fmt: skip
    assert schedule(recording, "ttft=9s,gap=9s,max-gap=1s") == [1000.0, "Begin", ONE, 2000.0, TWO]


def test_no_gap_exceeds_the_maximum_in_a_rechunked_body() -> None:
    reads = [Read(at * 1000.0, b"ab") for at in range(1, 6)]
    recording = parse_cassette(FILE_NAME, encode_cassette(reads, end_at=9000))

    assert schedule(recording, "max-gap=2s,chunks=coalesced") == [
        10.0, "Begin", 2010.0, b"ab" * 5, 4010.0,
    ]  # fmt: skip
    assert schedule(recording, "max-gap=1500ms,chunks=4") == [
        10.0, "Begin", 1510.0, b"abab", 3010.0, b"abab", 4010.0, b"ab", 5510.0,
    ]  # fmt: skip


def test_each_recorded_message_can_be_a_piece_at_the_time_of_its_completion() -> None:
    recording = parse_cassette(FILE_NAME, encode_cassette())
    whole = b"".join(read.received_bytes for read in READS).split(b"\n\n")
    messages = [item + b"\n\n" for item in whole if item]

    for chunks in ("event", "token"):
        assert schedule(recording, f"recorded,chunks={chunks}") == [
            10.0, "Begin", 33.25, messages[0], messages[1], 34.0, messages[2],
        ]  # fmt: skip
    assert schedule(recording, "instant,chunks=event") == ["Begin", *messages]


def test_a_body_can_be_cut_into_pieces_of_a_fixed_size() -> None:
    recording = make_recording(pieces=[b"abcdefgh", b"ij", b"klmnopqrs", b"\xc3\xbc"])
    reads = tuple(
        Read(float(at), read.received_bytes) for at, read in enumerate(recording.reads, 11)
    )
    recording = replace(
        recording,
        reads=reads,
        response_end=msgspec.structs.replace(recording.response_end, at_ms=14.0),
    )

    assert schedule(recording, "recorded,chunks=5") == [
        10.0, "Begin", 11.0, b"abcde", 12.0, b"fghij", 13.0, b"klmno", 14.0, b"pqrs\xc3", b"\xbc",
    ]  # fmt: skip
    assert schedule(recording, "instant,chunks=5")[1:] == [
        b"abcde",
        b"fghij",
        b"klmno",
        b"pqrs\xc3",
        b"\xbc",
    ]


def test_a_body_can_be_sent_in_one_piece_when_it_is_complete() -> None:
    body = b"".join(read.received_bytes for read in READS)

    assert schedule(parse_cassette(FILE_NAME, encode_cassette()), "recorded,chunks=coalesced") == [
        10.0, "Begin", 34.0, body,
    ]  # fmt: skip
    assert schedule(make_recording(*STREAM), "gap=30ms,chunks=coalesced") == [
        "Begin", 30.0, b"".join(STREAM),
    ]  # fmt: skip


@each_row("chunks", ["recorded", "event", "token", "coalesced", "3"])
@each_row("pace", ["recorded", "instant", "50tps", "gap=1ms"])
def test_an_empty_body_has_no_pieces(pace: str, chunks: str) -> None:
    recording = parse_cassette(FILE_NAME, encode_cassette([]))

    burst = replay_actions(recording, parse_pace(f"{pace},chunks={chunks}"), CHANCE)
    assert [item for item in burst if not isinstance(item, Wait)] == [Begin(HEAD)]


@given(
    st.binary(max_size=40).flatmap(splits),
    st.sampled_from(["recorded", "event", "coalesced", 1, 7, 4096]),
)
def test_whatever_the_pieces_the_bytes_are_the_same(pieces: list[bytes], chunks: Any) -> None:
    reads = [(float(at), piece) for at, piece in enumerate(pieces) if piece]
    found = [*rechunk(reads, chunks)]

    assert b"".join(data for _, data in found) == b"".join(pieces)
    assert all(data for _, data in found)
    assert [at for at, _ in found] == sorted(at for at, _ in found)
    if isinstance(chunks, int):
        assert {len(data) for _, data in found[:-1]} <= {chunks}
        assert all(len(data) <= chunks for _, data in found[-1:])


PACES: Final = [
    "recorded", "instant,chunks=7", "2x,max-gap=10ms", "50tps", "gap=1..9ms,chunks=recorded",
    "profile:gpt-4o,chunks=coalesced",
]  # fmt: skip


@given(read_sequences(st.binary(max_size=60) | st.just(b"".join(STREAM))), st.sampled_from(PACES))
def test_any_recording_is_sent_completely_and_in_order(reads: list[Read], pace: str) -> None:
    burst = replay_actions(
        parse_cassette(FILE_NAME, encode_cassette(reads)), parse_pace(pace), CHANCE
    )

    sent = b"".join(item.data for item in burst if isinstance(item, Send))
    waits = [item.due for item in burst if isinstance(item, Wait)]
    assert sent == b"".join(read.received_bytes for read in reads)
    assert waits == sorted({*waits})
    assert b"" not in [item.data for item in burst if isinstance(item, Send)]


@each_row(
    ("pace", "is_slow"),
    [("recorded", False), ("4x,max-gap=1s", False), ("instant", False), ("50tps", True),
     ("gap=1ms", True), ("instant,chunks=7", True), ("recorded,chunks=event", True)],
)  # fmt: skip
def test_planning_a_long_recording_that_is_parsed_or_rechunked_is_slow(
    pace: str, is_slow: bool
) -> None:
    large, small = make_recording(ONE * 200), make_recording(ONE)

    assert is_slow_to_plan(large, parse_pace(pace)) is is_slow
    assert not is_slow_to_plan(small, parse_pace(pace))


def test_planning_a_recording_of_many_pieces_is_slow() -> None:
    few, many = make_recording(*[ONE] * 100), make_recording(*[ONE] * 1000)

    for pace in map(parse_pace, ("recorded", "4x,max-gap=1s", "50tps", "gap=1ms")):
        assert is_slow_to_plan(many, pace, read_pace_input(many, None))
        assert not is_slow_to_plan(few, pace, read_pace_input(few, None))
    assert not is_slow_to_plan(many, parse_pace("instant"))


def test_the_number_of_pieces_is_limited_and_no_byte_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llm_proxy.pacing.timing._MAX_PIECES", 3)
    reads = [(1.0, b"ab"), (2.0, b"cdefg"), (3.0, b"hi")]
    assert [*rechunk(reads, 1)] == [
        (1.0, b"a"), (1.0, b"b"), (2.0, b"c"), (2.0, b"defg"), (3.0, b"hi"),
    ]  # fmt: skip
