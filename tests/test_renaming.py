"""A recording speaks of a client's own ids and folders, and all else of it stays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from time import process_time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cassette_builders import cassette, cut
from dialect_manners import MANNERS, Manner
from llm_proxy import framing
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import sha256
from llm_proxy.dialects import DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Read, ResponseHead
from llm_proxy.framing import eventstream, frame_edits
from llm_proxy.turns import Part, Text, ToolCall, Turn
from llm_proxy.value_replacement import ValueReplacements, rename_values, value_replacements
from provider_streams import ndjson, sse

OLD: Final = "/home/ann/a project"
NEW: Final = 'C:\\Users\\Bob\\"é"'
ID: Final = "call_0123456789"
VALUES: Final = ValueReplacements({OLD: NEW, ID: "mine"})

each_manner = pytest.mark.parametrize("manner", MANNERS, ids=lambda it: it.name.replace(" ", "-"))


def whole(response: DialectResponse) -> Cassette:
    """The recording of a response."""
    return cassette(b"".join(response.messages), codec=response.codec, head=response.head)


def told(manner: Manner, folder: str, size: int) -> DialectResponse:
    """An answer about a folder, and a call that works in it where calls can be told.

    A stream has `size` characters a piece.
    """
    arguments = {"path": f"{folder}/a.txt", "text": f'in "{folder}"'}
    parts: list[Part] = [
        Text(f"Not in {OLD}s, but in {folder}/b. {{}}"),
        ToolCall("call_1", "write", json.dumps(arguments, ensure_ascii=False)),
    ]
    delivery = replace(
        manner.delivery,
        split_text=lambda it: [it[at : at + size] for at in range(0, len(it), size)],
    )
    for said in (parts, parts[:1]):
        try:
            return manner.dialect.encode(manner.request, [Turn(tuple(said))], delivery)
        except NotRepresentable:
            pass
    pytest.skip("it tells no text")


def heard(manner: Manner, codec: str, head: ResponseHead, body: bytes) -> Sequence[Turn]:
    """What is read of a body."""
    return manner.dialect.decode(DialectResponse(head, codec, framing.split_messages(codec, body)))


@each_manner
@pytest.mark.parametrize("size", [1, 7])
def test_an_answer_means_what_it_would_with_the_clients_own_values(
    manner: Manner, size: int
) -> None:
    old, new = told(manner, OLD, size), told(manner, NEW, size)

    made, count = rename_values(whole(old), VALUES)

    assert count >= 1
    assert heard(manner, made.codec, made.head, made.body) == heard(
        manner, new.codec, new.head, b"".join(new.messages)
    )


@each_manner
def test_an_answer_without_the_values_is_the_recording_itself(manner: Manner) -> None:
    recording = whole(told(manner, "/srv/other", 5))

    assert rename_values(recording, VALUES) == (recording, 0)
    assert rename_values(recording, ValueReplacements({})) == (recording, 0)


@pytest.mark.parametrize(
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
def test_all_else_stays_byte_for_byte(codec: str, body: bytes) -> None:
    made, count = rename_values(cassette(body % ID.encode(), codec=codec), VALUES)

    assert (made.body, count) == (body % b"mine", 1)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": "x%by"}', b'{"a": "%b0"}', b'{"a": "/srv%b"}', b'{"a": "%b.old"}', b'{"a": "%b-2"}',
    ],
)  # fmt: skip
def test_a_value_within_a_longer_word_is_another_one(text: bytes) -> None:
    recording = cassette(text % b"/home/ann", codec="whole")

    assert rename_values(recording, ValueReplacements({"/home/ann": "/root"})) == (recording, 0)


def test_a_short_value_is_one_only_as_an_id() -> None:
    body = b'{"id":"c1","content":"c1","toolUseId":"c1","say":"c1 it is"}'

    made, count = rename_values(cassette(body, codec="whole"), ValueReplacements({"c1": "c2"}))

    assert (made.body, count) == (
        b'{"id":"c2","content":"c1","toolUseId":"c2","say":"c1 it is"}', 2
    )  # fmt: skip


def test_values_change_places() -> None:
    body = sse([{"id": "call_00000001"}, {"id": "call_00000002"}])

    made, count = rename_values(
        cassette(body),
        ValueReplacements({"call_00000001": "call_00000002", "call_00000002": "call_00000001"}),
    )

    assert (made.body, count) == (sse([{"id": "call_00000002"}, {"id": "call_00000001"}]), 2)


def test_what_is_no_text_stays() -> None:
    recording = cassette(b"\xff\xd8" + OLD.encode(), codec="whole")

    assert rename_values(recording, VALUES) == (recording, 0)


def test_calls_that_take_turns_are_not_mixed_up() -> None:
    def piece(index: int, text: str) -> dict[str, Any]:
        call = {"index": index, "function": {"arguments": text}}
        return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    one, other = '{"a":"/home/a', '{"b":"/home/b'
    pieces = [piece(0, one), piece(1, other), piece(0, 'nn/x"}'), piece(1, 'ob/x"}')]

    made, count = rename_values(cassette(sse(pieces)), ValueReplacements({"/home/ann": "/root"}))

    assert (made.body, count) == (
        sse([piece(0, '{"a":"/root'), piece(1, other), piece(0, '/x"}'), piece(1, 'ob/x"}')]), 1
    )  # fmt: skip


def test_the_new_value_stands_where_the_recorded_one_began() -> None:
    body = ndjson(*({"message": {"content": item}} for item in ("in /ho", "me", "/ann", "/x")))

    made, _ = rename_values(
        cassette(body, codec="ndjson"), ValueReplacements({"/home/ann": "/root"})
    )

    assert made.body == ndjson(
        *({"message": {"content": item}} for item in ("in /root", "", "", "/x"))
    )


def test_a_declared_length_and_the_checksum_fit() -> None:
    body = json.dumps({"a": ID}).encode()
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length", len(body))

    made, _ = rename_values(cassette(body, codec="whole", head=head), VALUES)

    assert (made.head.length, made.end.size) == (len(made.body), len(made.body))
    assert made.end.sha256 == sha256(made.body)


def test_frames_know_their_new_length() -> None:
    streams = [
        manner
        for manner in MANNERS
        if "stream" in manner.name and manner.name.startswith("bedrock")
    ]
    made = [rename_values(whole(told(stream, OLD, 9)), VALUES)[0] for stream in streams]

    assert {item.codec for item in made} == {eventstream.NAME}
    assert all(frame_edits.is_intact(frame) for item in made for frame in item.messages)


@given(st.data())
def test_reads_and_messages_end_where_they_ended(data: st.DataObject) -> None:
    body = told(next(manner for manner in MANNERS if manner.request.path == "/v1/messages"), OLD, 4)
    joined = b"".join(body.messages)
    at = data.draw(st.lists(st.integers(0, len(joined)), max_size=20))
    reads = tuple(Read(float(n), it) for n, it in enumerate(cut(joined, at)))
    recording = replace(whole(body), reads=reads)

    made, _ = rename_values(recording, VALUES)

    assert [read.at_ms for read in made.reads] == [read.at_ms for read in recording.reads]
    assert made.body == b"".join(made.messages) == rename_values(whole(body), VALUES)[0].body
    assert len(made.messages) == len(recording.messages)


class TestValues:
    def test_they_are_what_two_requests_call_otherwise(self) -> None:
        stored = {"<id-1>": "a", "<id-2>": "b", "<cwd-1>": "/x"}
        asked = {"<id-1>": "c", "<id-2>": "b", "<folder-1>": "/y"}

        assert value_replacements(stored, asked) == ValueReplacements({"a": "c"})

    def test_a_value_that_an_earlier_rule_changed_is_told_in_full(self) -> None:
        stored = {"<uuid-1>": "1-2", "<folder-1>": "/srv/<uuid-1>"}
        asked = {"<uuid-1>": "3-4", "<folder-1>": "/srv/<uuid-1>"}

        assert value_replacements(stored, asked).replacements == {
            "1-2": "3-4",
            "/srv/1-2": "/srv/3-4",
        }

    def test_no_secret_takes_part(self) -> None:
        stored, asked = (
            {"<id-1>": "[redacted]", "<id-2>": "a"},
            {"<id-1>": "b", "<id-2>": "x[redacted]"},
        )

        assert value_replacements(stored, asked) == ValueReplacements({})


def test_very_many_values_are_looked_for_quickly() -> None:
    values = ValueReplacements({f"call_{number:08d}": f"toolu_{number}" for number in range(3000)})
    texts = [f"text {number}" for number in range(1500)]
    began = process_time()

    rename_values(
        cassette(json.dumps([*texts, "in call_00000007"]).encode(), codec="whole"), values
    )

    assert process_time() - began < 2


def test_of_two_members_of_one_name_the_right_text_is_changed() -> None:
    body = b'{"a":"longer than that","a":"a later one","b":"%s","c":"z"}' % ID.encode()

    made, count = rename_values(cassette(body, codec="whole"), VALUES)

    assert (made.body, count) == (body, 0)


def test_a_value_with_an_end_of_a_line_does_not_come_into_a_line_that_is_no_json() -> None:
    body = f"data: at {ID} now\n\n".encode()

    made, count = rename_values(
        cassette(body, codec="sse"), ValueReplacements({ID: "x\n\ndata: y"})
    )

    assert (made.body, count) == (body, 0)
