"""Renaming replaces recorded ids and folders, and leaves the rest of a response unchanged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import make_cassette, split_at
from dialect_manners import MANNERS, Manner
from linear_time import assert_linear
from llm_proxy import framing
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import sha256_hex
from llm_proxy.dialects import DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Read, ResponseHead
from llm_proxy.framing import eventstream
from llm_proxy.turns import Part, Text, ToolCall, Turn
from llm_proxy.value_replacement import (
    ValueReplacements,
    replace_recorded_values,
    value_replacements,
)
from provider_streams import ndjson, sse

OLD: Final = "/home/ann/a project"
NEW: Final = 'C:\\Users\\Bob\\"é"'
CALL_ID: Final = "call_0123456789"
VALUES: Final = ValueReplacements({OLD: NEW, CALL_ID: "mine"})

for_each_manner = each_row("manner", MANNERS, ids=[manner.name for manner in MANNERS])


def recorded_cassette(response: DialectResponse) -> Cassette:
    """Return the cassette of a response."""
    return make_cassette(
        b"".join(response.framed_messages), codec=response.codec_name, head=response.head
    )


def encode_answer(manner: Manner, folder: str, size: int) -> DialectResponse:
    """Encode an answer about a folder, with a tool call in it where the dialect has them.

    A stream has `size` characters per piece.
    """
    arguments = {"path": f"{folder}/a.txt", "text": f'in "{folder}"'}
    parts: list[Part] = [
        Text(f"Not in {OLD}s, but in {folder}/b. {{}}"),
        ToolCall("call_1", "write", json.dumps(arguments, ensure_ascii=False)),
    ]
    context = replace(
        manner.context,
        split_text=lambda text: [text[at : at + size] for at in range(0, len(text), size)],
    )
    for answer_parts in (parts, parts[:1]):
        try:
            return manner.dialect.encode_response(
                manner.request, [Turn(tuple(answer_parts))], context
            )
        except NotRepresentable:
            pass
    pytest.skip("it tells no text")


def decode_body(manner: Manner, codec: str, head: ResponseHead, body: bytes) -> Sequence[Turn]:
    """Decode a body."""
    return manner.dialect.decode_response(
        DialectResponse(head, codec, framing.split_messages(codec, body))
    )


@for_each_manner
@each_row("size", [1, 7])
def test_a_renamed_answer_decodes_like_one_with_the_clients_values(
    manner: Manner, size: int
) -> None:
    old, new = encode_answer(manner, OLD, size), encode_answer(manner, NEW, size)

    renamed, count = replace_recorded_values(
        recorded_cassette(old), VALUES, manner.dialect.counted_texts
    )

    assert count >= 1
    assert decode_body(
        manner, renamed.codec_name, renamed.response_head, renamed.response_body
    ) == decode_body(manner, new.codec_name, new.head, b"".join(new.framed_messages))


@for_each_manner
def test_an_answer_without_the_values_is_the_recording_itself(manner: Manner) -> None:
    recording = recorded_cassette(encode_answer(manner, "/srv/other", 5))

    assert replace_recorded_values(recording, VALUES) == (recording, 0)
    assert replace_recorded_values(recording, ValueReplacements({})) == (recording, 0)


@each_row(
    ("codec", "body"),
    [
        ("whole", b'{"a":\t"%b" , "b": "x\\/y"}'),
        ("whole", b'{"id": 1.50, "call_id":"%b","x":[]}'),
        ("whole", b"no JSON: %b."),
        ("ndjson", b'{"a":"%b"}\r\n{"b":1}\n'),
        ("sse", b'event: x\rdata:{"a":"%b"}\r\r: %%b\n\n'),
        ("sse", b'data: {"a":\ndata: "%b"}\n\n'),
        ("json-array", b'[{"a":"%b"}\n,\n{"b":1}]'),
    ],
    ids=["spaces and slashes", "numbers", "text", "lines", "comments", "two lines", "array"],
)
def test_the_rest_of_the_body_is_unchanged(codec: str, body: bytes) -> None:
    renamed, count = replace_recorded_values(
        make_cassette(body % CALL_ID.encode(), codec=codec), VALUES
    )

    assert (renamed.response_body, count) == (body % b"mine", 1)


@each_row(
    "text",
    [
        b'{"a": "x%by"}', b'{"a": "%b0"}', b'{"a": "/srv%b"}', b'{"a": "%b.old"}', b'{"a": "%b-2"}',
    ],
)  # fmt: skip
def test_a_value_within_a_longer_word_is_another_one(text: bytes) -> None:
    recording = make_cassette(text % b"/home/ann", codec="whole")

    assert replace_recorded_values(recording, ValueReplacements({"/home/ann": "/root"})) == (
        recording,
        0,
    )


def test_a_short_value_is_one_only_as_an_id() -> None:
    body = b'{"id":"c1","content":"c1","toolUseId":"c1","say":"c1 it is"}'

    renamed, count = replace_recorded_values(
        make_cassette(body, codec="whole"), ValueReplacements({"c1": "c2"})
    )

    assert (renamed.response_body, count) == (
        b'{"id":"c2","content":"c1","toolUseId":"c2","say":"c1 it is"}', 2
    )  # fmt: skip


def test_a_shorter_value_is_replaced_at_the_end_of_a_text() -> None:
    values = ValueReplacements({"call_00000001": "mine", "call_0000000000000002": "yours"})
    body = b'{"content":"from call_00000001"}'

    renamed, _ = replace_recorded_values(make_cassette(body, codec="whole"), values)

    assert renamed.response_body == b'{"content":"from mine"}'


def test_values_can_be_swapped() -> None:
    body = sse([{"id": "call_00000001"}, {"id": "call_00000002"}])

    renamed, count = replace_recorded_values(
        make_cassette(body),
        ValueReplacements({"call_00000001": "call_00000002", "call_00000002": "call_00000001"}),
    )

    assert (renamed.response_body, count) == (
        sse([{"id": "call_00000002"}, {"id": "call_00000001"}]),
        2,
    )


def test_binary_content_stays() -> None:
    recording = make_cassette(b"\xff\xd8" + OLD.encode(), codec="whole")

    assert replace_recorded_values(recording, VALUES) == (recording, 0)


def test_calls_that_take_turns_are_not_mixed_up() -> None:
    def piece(index: int, text: str) -> dict[str, Any]:
        call = {"index": index, "function": {"arguments": text}}
        return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    one, other = '{"a":"/home/a', '{"b":"/home/b'
    pieces = [piece(0, one), piece(1, other), piece(0, 'nn/x"}'), piece(1, 'ob/x"}')]

    renamed, count = replace_recorded_values(
        make_cassette(sse(pieces)), ValueReplacements({"/home/ann": "/root"})
    )

    assert (renamed.response_body, count) == (
        sse([piece(0, '{"a":"/root'), piece(1, other), piece(0, '/x"}'), piece(1, 'ob/x"}')]), 1
    )  # fmt: skip


def test_the_new_value_stands_where_the_recorded_one_began() -> None:
    body = ndjson(*({"message": {"content": item}} for item in ("in /ho", "me", "/ann", "/x")))

    renamed, _ = replace_recorded_values(
        make_cassette(body, codec="ndjson"), ValueReplacements({"/home/ann": "/root"})
    )

    assert renamed.response_body == ndjson(
        *({"message": {"content": item}} for item in ("in /root", "", "", "/x"))
    )


def test_a_declared_length_and_the_checksum_fit() -> None:
    body = json.dumps({"a": CALL_ID}).encode()
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length", len(body))

    renamed, _ = replace_recorded_values(make_cassette(body, codec="whole", head=head), VALUES)

    assert (renamed.response_head.content_length, renamed.response_end.size_bytes) == (
        len(renamed.response_body),
        len(renamed.response_body),
    )
    assert renamed.response_end.sha256 == sha256_hex(renamed.response_body)


def test_frames_have_their_new_length() -> None:
    streams = [
        manner
        for manner in MANNERS
        if "stream" in manner.name and manner.name.startswith("bedrock")
    ]
    renamed = [
        replace_recorded_values(recorded_cassette(encode_answer(stream, OLD, 9)), VALUES)[0]
        for stream in streams
    ]

    assert {item.codec_name for item in renamed} == {eventstream.CODEC_NAME}
    assert all(
        eventstream.is_intact_frame(frame) for item in renamed for frame in item.framed_messages
    )


@given(st.data())
def test_reads_and_messages_end_where_they_ended(data: st.DataObject) -> None:
    response = encode_answer(
        next(manner for manner in MANNERS if manner.request.path == "/v1/messages"), OLD, 4
    )
    joined = b"".join(response.framed_messages)
    at = data.draw(st.lists(st.integers(0, len(joined)), max_size=20))
    reads = tuple(Read(float(n), piece) for n, piece in enumerate(split_at(joined, at)))
    recording = replace(recorded_cassette(response), reads=reads)

    renamed, _ = replace_recorded_values(recording, VALUES)

    assert [read.at_ms for read in renamed.reads] == [read.at_ms for read in recording.reads]
    assert (
        renamed.response_body
        == b"".join(renamed.framed_messages)
        == replace_recorded_values(recorded_cassette(response), VALUES)[0].response_body
    )
    assert len(renamed.framed_messages) == len(recording.framed_messages)


class TestValueReplacements:
    def test_they_map_values_that_differ_between_two_requests(self) -> None:
        stored = {"<id-1>": "a", "<id-2>": "b", "<cwd-1>": "/x"}
        requested = {"<id-1>": "c", "<id-2>": "b", "<folder-1>": "/y"}

        assert value_replacements(stored, requested).new_by_recorded == {"a": "c"}

    def test_a_value_changed_by_an_earlier_rule_is_expanded(self) -> None:
        stored = {"<uuid-1>": "1-2", "<folder-1>": "/srv/<uuid-1>"}
        requested = {"<uuid-1>": "3-4", "<folder-1>": "/srv/<uuid-1>"}

        assert value_replacements(stored, requested).new_by_recorded == {
            "1-2": "3-4",
            "/srv/1-2": "/srv/3-4",
        }

    def test_secrets_are_not_replaced(self) -> None:
        stored, requested = (
            {"<id-1>": "[redacted]", "<id-2>": "a"},
            {"<id-1>": "b", "<id-2>": "x[redacted]"},
        )

        assert value_replacements(stored, requested).new_by_recorded == {}


def test_very_many_values_are_looked_for_quickly() -> None:
    def replace_values(count: int) -> None:
        values = {f"call_{number:08d}": f"toolu_{number}" for number in range(count)}
        texts = [*(f"text {number}" for number in range(count)), "in call_00000007"]
        recording = make_cassette(json.dumps(texts).encode(), codec="whole")
        assert replace_recorded_values(recording, ValueReplacements(values))[1] == 1

    assert_linear(replace_values, 1600)


def test_of_two_members_of_one_name_the_right_text_is_changed() -> None:
    body = b'{"a":"longer than that","a":"a later one","b":"%s","c":"z"}' % CALL_ID.encode()

    renamed, count = replace_recorded_values(make_cassette(body, codec="whole"), VALUES)

    assert (renamed.response_body, count) == (body, 0)


def test_a_value_with_an_end_of_a_line_does_not_come_into_a_line_that_is_no_json() -> None:
    body = f"data: at {CALL_ID} now\n\n".encode()

    renamed, count = replace_recorded_values(
        make_cassette(body, codec="sse"), ValueReplacements({CALL_ID: "x\n\ndata: y"})
    )

    assert (renamed.response_body, count) == (body, 0)
