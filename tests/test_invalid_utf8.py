"""A garbled message is still one message of its codec, and one of its texts is invalid UTF-8."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from llm_proxy import framing
from llm_proxy.framing.eventstream import encode_frame, parse_frame
from llm_proxy.framing.message_edits import INVALID_BYTE, insert_invalid_utf8

HEADERS = ((":event-type", "contentBlockDelta"), (":message-type", "event"))


@each_row(
    ("codec", "message", "garbled"),
    [
        ("sse", b'data: {"a":"b","t":"Hi","n":1}\n\n', b'data: {"a":"b","t":"Hi\xff","n":1}\n\n'),
        ("sse", b'data: {"text":"Hi","id":"a"}\n\n', b'data: {"text":"Hi\xff","id":"a"}\n\n'),
        ("sse", b'data: {"id":"a","b":"c"}\r\n\r\n', b'data: {"id":"a","b":"c\xff"}\r\n\r\n'),
        ("sse", b'data: {"b":"say \\"no\\""}\n\n', b'data: {"b":"say \\"no\\"\xff"}\n\n'),
        ("ndjson", b'{"a":"", "b" : "c" , "d" : 1}\n', b'{"a":"", "b" : "c\xff" , "d" : 1}\n'),
        ("json-array", b',\n{"a":["b"]}', b',\n{"a":["b\xff"]}'),
        ("whole", b'{"a":"b"}', b'{"a":"b\xff"}'),
        ("sse", b"data: [DONE]\n\n", None),
        ("ndjson", b'{"a":"","b":1}\n', None),
        ("eventstream", b"<html></html>", None),
        ("eventstream", encode_frame(HEADERS, b"{}"), None),
    ],
)  # fmt: skip
def test_the_invalid_byte_is_in_the_models_text_or_else_in_the_last_text(
    codec: str, message: bytes, garbled: bytes | None
) -> None:
    assert insert_invalid_utf8(codec, message, {"Hi"}) == garbled


def test_a_garbled_frame_is_still_a_valid_frame() -> None:
    garbled = insert_invalid_utf8(
        "eventstream", encode_frame(HEADERS, b'{"p":"abc","text":"H\xc3\xb6"}'), {"Hö"}
    )

    assert garbled is not None
    frame = parse_frame(garbled)
    assert frame is not None
    assert (frame.headers, frame.payload) == (HEADERS, b'{"p":"abc","text":"H\xc3\xb6\xff"}')


def test_an_unterminated_string_is_scanned_once() -> None:
    message = b'{"a":"b","' + b'\\"' * 500_000

    assert insert_invalid_utf8("whole", message) == message.replace(b'"b"', b'"b\xff"')


@given(st.text(), st.text(), st.booleans())
def test_the_rest_of_the_message_is_as_it_was(text: str, other: str, escaped: bool) -> None:
    line = json.dumps({"text": text, "z": [other]}, ensure_ascii=escaped).encode() + b"\n"
    garbled = insert_invalid_utf8("ndjson", line, {text})

    if garbled is None:
        assert not text
        assert not other
        return
    assert garbled.replace(INVALID_BYTE, b"") == line
    assert framing.split_messages("ndjson", garbled) == [garbled]
    document = json.loads(garbled.decode("utf-8", "replace"))
    garbled_field = "text" if text else "z"
    assert document == {
        "text": text,
        "z": [other],
        garbled_field: text + "�" if text else [other + "�"],
    }
