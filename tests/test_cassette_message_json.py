from __future__ import annotations

import json
from base64 import b64encode
from binascii import crc32
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from llm_proxy import framing
from llm_proxy.cassette.framed_message_json import decode_message, encode_message
from llm_proxy.framing.eventstream import encode_frame


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def stored_fields(message: bytes) -> dict[str, Any]:
    """The fields of a message after a round trip through a line of a file."""
    line = orjson.dumps({"at": 1.5} | encode_message(message))
    assert b"\n" not in line
    fields = orjson.loads(line)
    assert fields.pop("at") == 1.5
    return dict(fields)


@each_row(
    ("message", "fields"),
    [
        (b'data: {"a":1}\n\n', {"data": {"a": 1}}),
        (b"data: [1,2.5]\n\n", {"data": [1, 2.5]}),
        (b'event: ping\ndata: {"a":1}\n\n', {"event": "ping", "data": {"a": 1}}),
        (b"event: \ndata: {}\n\n", {"event": "", "data": {}}),
        (
            'event: ä\u2028\ndata: {"ü":"😀"}\n\n'.encode(),
            {"event": "ä\u2028", "data": {"ü": "😀"}},
        ),
        (b'{"a":1}\n', {"line": {"a": 1}}),
        (b'{"a":1}', {"json": {"a": 1}}),
        (b"[]", {"json": []}),
        (b"data: [DONE]\n\n", {"text": "data: [DONE]\n\n"}),
        (b": OPENROUTER PROCESSING\n\n", {"text": ": OPENROUTER PROCESSING\n\n"}),
        (b'data: {"a":1}\r\n\r\n', {"text": 'data: {"a":1}\r\n\r\n'}),
        (b'\ndata: {"a":1}\n\n', {"text": '\ndata: {"a":1}\n\n'}),
        (b'data:{"a":1}\n\n', {"text": 'data:{"a":1}\n\n'}),
        (b'{"a":1}\r\n', {"text": '{"a":1}\r\n'}),
        (b'"a"', {"text": '"a"'}),
        (b"", {"text": ""}),
        (b"\xff\xfe", {"base64": "//4="}),
        (
            encode_frame(
                [(":event-type", "messageStop"), (":x", "ü")], b'{"stopReason":"end_turn"}'
            ),
            {
                "frame": {":event-type": "messageStop", ":x": "ü"},
                "json": {"stopReason": "end_turn"},
            },
        ),
        (
            encode_frame([("a", "")], b'{"bytes":"eyJ0eXBlIjoicGluZyJ9","p":"abc"}'),
            {"frame": {"a": ""}, "chunk": {"type": "ping"}, "p": "abc"},
        ),
        (
            encode_frame([], b'{"bytes":"eyJ0eXBlIjoicGluZyJ9"}'),
            {"frame": {}, "chunk": {"type": "ping"}},
        ),
        (
            encode_frame([], b'{"bytes":"eyJ0eXBlIjoicGluZyIgfQ=="}'),  # a space before the brace
            {"frame": {}, "json": {"bytes": "eyJ0eXBlIjoicGluZyIgfQ=="}},
        ),
        (encode_frame([], b'{"bytes":"e31="}'), {"frame": {}, "json": {"bytes": "e31="}}),
        (encode_frame([], b'{"bytes":"e"}'), {"frame": {}, "json": {"bytes": "e"}}),
        (encode_frame([], b'{ "a": 1 }'), {"frame": {}, "text": '{ "a": 1 }'}),
        (encode_frame([], b'data: {"a":1}\n\n'), {"frame": {}, "text": 'data: {"a":1}\n\n'}),
        (encode_frame([], b""), {"frame": {}, "text": ""}),
        (encode_frame([], b"\xff\xfe"), {"frame": {}, "base64": "//4="}),
        (encode_frame([], b"{}")[:-1] + b"\xff", {"base64": "AAAAEgAAAAB/AhuLe30vkmH/"}),
        (b"event: \xff\ndata: {}\n\n", {"base64": "ZXZlbnQ6IP8KZGF0YToge30KCg=="}),
    ],
)
def test_a_message_is_stored_readably(message: bytes, fields: dict[str, Any]) -> None:
    assert stored_fields(message) == fields
    assert decode_message(fields) == message


@each_row(
    "document",
    [
        pytest.param(b'{"type":"ping"  }', id="padding before the brace"),
        pytest.param(b'{"type": "ping"}', id="a space after a colon"),
        pytest.param(b'{"a":1,"a":2}', id="duplicate keys"),
        pytest.param(b"[18446744073709551616]", id="an integer beyond 64 bits"),
        pytest.param(b"[0.1000000000000000055511151231257827]", id="more digits than a double"),
        pytest.param(b"[1E5]", id="exponent"),
        pytest.param(b"[1e400]", id="beyond a double"),
        pytest.param(b"[-0]", id="minus zero"),
        pytest.param(b"[1.50]", id="trailing zero"),
        pytest.param(b'["\\ud83d\\ude00"]', id="escaped surrogate pair"),
        pytest.param(b'["\\ud83d"]', id="half a surrogate pair"),
        pytest.param(b'["\\u003c\\/"]', id="needless escapes"),
        pytest.param(b'["\x7f\\u0000"]', id="controls, one of them escaped"),
        pytest.param(b"[NaN,Infinity]", id="no JSON numbers"),
        pytest.param(b"[tru]", id="no JSON"),
        pytest.param(b'["\xff"]', id="not UTF-8"),
        pytest.param(b'["\xed\xa0\xbd"]', id="a surrogate in UTF-8"),
        pytest.param(nested(254), id="254 levels"),
        pytest.param(nested(255), id="255 levels"),
        pytest.param(nested(300), id="300 levels"),
        pytest.param(nested(2000), id="2000 levels"),
        pytest.param(nested(2000)[:-1] + b"}", id="deep and broken"),
    ],
)
@each_row("shape", [b"%b", b"%b\n", b"data: %b\n\n", b"event: e\ndata: %b\n\n", b"\xef\xbb\xbf%b"])
def test_json_in_any_notation_round_trips(document: bytes, shape: bytes) -> None:
    message = shape % document
    assert decode_message(stored_fields(message)) == message


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
separators = st.sampled_from([(",", ":"), (", ", ": "), (",", " :  ")])


@given(
    value=json_values,
    separators=separators,
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]),
    shape=st.sampled_from(["%s", "%s\n", "data: %s\n\n", "event: x\ndata: %s\n\n", "data: %s"]),
    framed=st.sampled_from(["", "json", "chunk"]),
)
def test_any_json_text_round_trips(
    value: Any,
    separators: tuple[str, str],
    ascii_only: bool,
    indent: int | None,
    shape: str,
    framed: str,
) -> None:
    text = json.dumps(value, separators=separators, ensure_ascii=ascii_only, indent=indent)
    message = (shape % text).encode("utf-8", "surrogatepass")
    if framed == "chunk":
        message = orjson.dumps({"bytes": b64encode(message).decode(), "p": "ab"})
    if framed:
        message = encode_frame([(":event-type", "chunk")], message)
    assert decode_message(stored_fields(message)) == message


@given(
    st.binary()
    | st.lists(
        st.sampled_from(
            [b"data: ", b"event: ", b"\n", b"\r", b"{", b"}", b'"a":', b"1", b"[", b"]", b"\xff"]
        )
    ).map(b"".join)
)
def test_any_bytes_round_trip(message: bytes) -> None:
    assert decode_message(stored_fields(message)) == message


@given(
    st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=3),
    st.binary(),
    st.integers(0, 40),
    st.integers(0, 255),
)
def test_any_frame_whole_or_damaged_round_trips(
    headers: dict[str, str], payload: bytes, at: int, byte: int
) -> None:
    whole = encode_frame(list(headers.items()), payload)
    damaged = whole[:at] + bytes([byte]) + whole[at + 1 :]
    assert decode_message(stored_fields(whole)) == whole
    assert "frame" in stored_fields(whole)
    assert decode_message(stored_fields(damaged)) == damaged


def test_a_frame_with_a_header_that_is_no_text_is_kept_as_it_is() -> None:
    lengths = (19).to_bytes(4, "big") + (3).to_bytes(4, "big")
    body = lengths + crc32(lengths).to_bytes(4, "big") + b"\1a\0"
    message = body + crc32(body).to_bytes(4, "big")
    assert list(stored_fields(message)) != ["frame", "text"]
    assert decode_message(stored_fields(message)) == message


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_real_frame_can_be_read_in_the_file() -> None:
    field_names = []
    for row in corpus.rows():
        if row.wire.endswith(".eventstream"):
            for message in framing.split_messages("eventstream", row.body):
                fields = stored_fields(message)
                assert decode_message(fields) == message
                field_names.append(tuple(fields))
    assert set(field_names) == {("frame", "json"), ("frame", "chunk", "p")}


@given(json_values)
def test_compact_json_is_stored_as_json(value: Any) -> None:
    try:
        text = orjson.dumps([value])
    except TypeError:  # integers beyond 64 bits, halves of surrogate pairs
        return
    assert stored_fields(b"data: %b\n\n" % text) == {"data": orjson.loads(text)}


@each_row(
    "fields",
    [
        {},
        {"at": 1},
        {"txt": ""},
        {"text": 1},
        {"text": None},
        {"base64": "a"},
        {"base64": "*"},
        {"base64": "ä"},
        {"base64": []},
        {"event": "ping"},
        {"event": 1, "data": {}},
        {"event": "a", "data": {}, "text": ""},
        {"data": {}, "text": ""},
        {"line": {}, "json": {}},
        {"json": {}, "hidden": 1},
        {"text": "", "base64": ""},
        {"base64": "", "at": 1},
        {"data": orjson.loads(nested(300))},
        {"event": "a", "data": orjson.loads(nested(300))},
        {"line": orjson.loads(nested(1000))},
        {"json": orjson.loads(nested(1000))},
        {"frame": {}},
        {"frame": [], "text": ""},
        {"frame": {"a": 1}, "text": ""},
        {"frame": {"a": {}}, "text": ""},
        {"frame": {"a" * 256: ""}, "text": ""},
        {"frame": {"a": "b" * 65536}, "text": ""},
        {"frame": {}, "text": "", "at": 1},
        {"frame": {}, "text": "", "json": 1},
        {"frame": {}, "text": 1},
        {"frame": {}, "base64": "*"},
        {"frame": {}, "data": {}},
        {"frame": {}, "line": {}},
        {"frame": {}, "frame ": {}},
        {"frame": {}, "chunk": {}, "p": 1},
        {"frame": {}, "chunk": {}, "p": "", "q": ""},
        {"frame": {}, "p": "a"},
        {"frame": {}, "json": {}, "p": "a"},
        {"frame": {}, "json": orjson.loads(nested(300))},
        {"frame": {}, "chunk": orjson.loads(nested(300))},
        {"chunk": {}},
        {"chunk": {}, "p": "a"},
    ],
)
def test_fields_that_are_no_message_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_message(fields)
