"""A truncated message is still one message of its codec, and its content is invalid JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy import framing
from llm_proxy.framing import CODECS, sse
from llm_proxy.framing.eventstream import encode_frame, parse_frame
from llm_proxy.framing.message_edits import truncate_json
from llm_proxy.message_texts import parse_json_document, parse_truncated_json

HEADERS = ((":event-type", "contentBlockDelta"), (":message-type", "event"))

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@each_row(
    ("codec", "message", "truncated"),
    [
        ("sse", b'data: {"a":12}\n\n', b'data: {"a"\n\n'),
        (
            "sse",
            b'event: message_start\r\nid: 7\r\ndata: {"a":12}\r\n\r\n',
            b'event: message_start\r\nid: 7\r\ndata: {"a"\r\n\r\n',
        ),
        ("sse", b'data: {"a":\ndata: [1,\ndata: 22]}\n\n', b'data: {"a":\ndata: [\n\n'),
        ("sse", b'\xef\xbb\xbfdata:{"a":12}\n\n', b'\xef\xbb\xbfdata: {"a"\n\n'),
        ("sse", b"data: [DONE]\n\n", b"data: [DO\n\n"),
        ("sse", b"data: 12\n\n", b"data: {\n\n"),
        ("sse", b"\n: ping\n\n", b"\ndata: {\n: ping\n\n"),
        ("sse", b'data: {"a":12}', b'data: {"a"\n'),
        ("ndjson", b'{"a":12}\r\n', b'{"a"\r\n'),
        ("ndjson", b'{"a":12}', b'{"a"'),
        ("json-array", b'[{"a":12}', b'[{"a"'),
        ("json-array", b',\r\n{"a":12}', b',\r\n{"a"'),
        ("json-array", b"[[1,2]", b"[[1"),
        ("json-array", b"\n]", b"\n{"),
        ("whole", b'{"a":12}', b'{"a"'),
        ("whole", b"{}        ", b"{"),
        ("whole", b"{} {}", b"{"),
        ("whole", b"", b"{"),
        ("whole", '"ö"'.encode(), b'"'),
        ("eventstream", b"<html></html>", b"<html>"),
    ],
)
def test_half_of_the_content_is_left(codec: str, message: bytes, truncated: bytes) -> None:
    assert truncate_json(codec, message) == truncated


def test_a_frame_keeps_its_headers_and_is_one_that_clients_accept() -> None:
    truncated = parse_frame(truncate_json("eventstream", encode_frame(HEADERS, b'{"a":12}')))

    assert truncated is not None
    assert (truncated.headers, truncated.payload) == (HEADERS, b'{"a"')


def test_a_frame_that_was_broken_is_cut_in_half() -> None:
    broken = encode_frame(HEADERS, b'{"a":12}')[:-1] + b"\0"

    assert truncate_json("eventstream", broken) == broken[: len(broken) // 2]


def encode_message(codec: str, value: object) -> bytes:
    """Encode a value as a message of this codec."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    match codec:
        case "sse":
            return sse.encode_event(text, "delta")
        case "ndjson":
            return text + b"\n"
        case "eventstream":
            return encode_frame(HEADERS, text)
        case "json-array":
            return b"[" + text
        case _:
            return text


def json_content(codec: str, message: bytes) -> bytes:
    """The bytes that a client of this codec parses as JSON."""
    match codec:
        case "sse":
            return sse.parse_event(message).data or b""
        case "eventstream":
            frame = parse_frame(message)
            assert frame is not None
            return frame.payload
        case "json-array":
            return message.removeprefix(b"[")
        case _:
            return message


@each_row("codec", CODECS)
@given(value=JSON)
def test_a_truncated_value_is_one_message_and_no_json(codec: str, value: object) -> None:
    truncated = truncate_json(codec, encode_message(codec, value))

    assert framing.split_messages(codec, truncated) == [truncated]
    assert json_content(codec, truncated).decode().strip()
    with pytest.raises(json.JSONDecodeError):
        json.loads(json_content(codec, truncated))


@given(JSON)
def test_a_truncated_document_is_completed_and_keeps_its_strings(document: object) -> None:
    text = json.dumps({"a": [document]})
    for size in range(1, len(text)):
        begun = text[:size]
        try:
            completed, value = parse_truncated_json(begun)
        except ValueError:
            assert begun[-1] in "-.eE+truefalsNnI"  # within a number or a name
        else:
            assert completed.startswith(begun)
            assert value == parse_json_document(completed)


@each_row("text", ["}", "[}", "no JSON", '{"a": tru'])
def test_other_text_is_no_truncated_document(text: str) -> None:
    with pytest.raises(ValueError, match="JSON document"):
        parse_truncated_json(text)


@each_row(
    ("text", "completed"),
    [
        ('{"a": "b', '{"a": "b"}'),
        ('{"a": "b\\', '{"a": "b\\\\"}'),
        ('{"a": "b\\\\', '{"a": "b\\\\"}'),
        ('{"a": "b\\u00', '{"a": "b\\u0000"}'),
        ('{"a": ["b", ', '{"a": ["b", 0]}'),
        ('{"a": "b", ', '{"a": "b", "":0}'),
        ('{"a', '{"a":0}'),
        ('{"a"', '{"a":0}'),
        ('{"a":', '{"a":0}'),
    ],
)
def test_what_is_open_is_closed(text: str, completed: str) -> None:
    assert parse_truncated_json(text)[0] == completed
