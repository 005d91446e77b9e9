from __future__ import annotations

from binascii import crc32
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from linear_time import assert_linear
from llm_proxy import framing
from llm_proxy.framing.eventstream import Frame, encode_frame, parse_frame
from thoroughness import quick_or_thorough

GOLDEN: Final = bytes.fromhex(
    "0000007a 00000051 ca2c4665"
    "0b 3a6576656e742d74797065 07 000b 6d65737361676553746f70"
    "0d 3a636f6e74656e742d74797065 07 0010 6170706c69636174696f6e2f6a736f6e"
    "0d 3a6d6573736167652d74797065 07 0005 6576656e74"
    "7b2273746f70526561736f6e223a22656e645f7475726e227d"
    "5fbf09fc"
)
"""A frame that botocore parses, checksums included."""
HEADERS: Final = (
    (":event-type", "messageStop"),
    (":content-type", "application/json"),
    (":message-type", "event"),
)
PAYLOAD: Final = b'{"stopReason":"end_turn"}'


def with_raw_headers(headers: bytes, payload: bytes = b"") -> bytes:
    """A frame with valid checksums and any header bytes."""
    lengths = (16 + len(headers) + len(payload)).to_bytes(4, "big")
    lengths += len(headers).to_bytes(4, "big")
    body = lengths + crc32(lengths).to_bytes(4, "big") + headers + payload
    return body + crc32(body).to_bytes(4, "big")


def test_a_frame_is_read() -> None:
    assert parse_frame(GOLDEN) == Frame(HEADERS, PAYLOAD)


def test_a_frame_is_written() -> None:
    assert encode_frame(HEADERS, PAYLOAD) == GOLDEN


def test_a_header_is_found_by_its_name() -> None:
    frame = Frame(HEADERS, b"")
    assert frame.header(":message-type") == "event"
    assert frame.header(":exception-type") == ""


@each_row("at", range(len(GOLDEN)))
def test_a_frame_with_one_bit_wrong_is_none(at: int) -> None:
    assert parse_frame(GOLDEN[:at] + bytes([GOLDEN[at] ^ 1]) + GOLDEN[at + 1 :]) is None


@each_row(
    "message",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"<html><body>502 Bad Gateway</body></html>", id="a page"),
        pytest.param(b'data: {"a":1}\n\n', id="a server-sent event"),
        pytest.param(GOLDEN[:-1], id="a frame cut"),
        pytest.param(GOLDEN + b"\0", id="a byte more"),
        pytest.param(GOLDEN + GOLDEN, id="two frames"),
        pytest.param(with_raw_headers(b"\1"), id="a name cut"),
        pytest.param(with_raw_headers(b"\1a"), id="no type"),
        pytest.param(with_raw_headers(b"\1a\x0a"), id="an unknown type"),
        pytest.param(with_raw_headers(b"\1a\7\0"), id="a length cut"),
        pytest.param(
            with_raw_headers(b"\1a\7\0\2b", b"c"), id="a value that runs into the payload"
        ),
        pytest.param(with_raw_headers(b"\1a\4\0\0\0", b"c"), id="an integer cut"),
        pytest.param(with_raw_headers(b"\1\xff\7\0\1b"), id="a name that is not UTF-8"),
        pytest.param(with_raw_headers(b"\1a\7\0\1\xff"), id="a text that is not UTF-8"),
        pytest.param(with_raw_headers(b"\1a\7\0\0\1a\1"), id="a name twice"),
    ],
)
def test_malformed_frames_are_not_parsed(message: bytes) -> None:
    assert parse_frame(message) is None


def test_headers_that_are_no_text_are_skipped() -> None:
    values = [b"\0", b"\1", b"\2" + bytes(1), b"\3" + bytes(2), b"\4" + bytes(4), b"\5" + bytes(8)]
    values += [b"\6\0\2\xff\0", b"\7\0\1x", b"\x08" + bytes(8), b"\x09" + bytes(16)]
    headers = b"".join(b"\1%c" % name + value for name, value in enumerate(values, ord("a")))
    assert parse_frame(with_raw_headers(headers, b"y")) == Frame((("h", "x"),), b"y")


@each_row(
    "headers",
    [[("a" * 256, "")], [("a", "b" * 65536)], [("a", "\ud83d")], [("\ud83d", "a")]],
    ids=["a long name", "a long value", "half a surrogate pair", "half a pair in a name"],
)
def test_headers_that_no_frame_can_hold_are_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        encode_frame(headers, b"")


names = st.text(max_size=60)
texts = st.text(max_size=300)


@given(st.dictionaries(names, texts, max_size=5), st.binary(max_size=100))
def test_an_encoded_frame_is_parsed_again(headers: dict[str, str], payload: bytes) -> None:
    encoded = encode_frame(list(headers.items()), payload)
    assert parse_frame(encoded) == Frame(tuple(headers.items()), payload)
    assert framing.split_messages("eventstream", encoded * 2) == [encoded, encoded]


@given(st.binary(max_size=60), st.binary(max_size=20))
def test_header_bytes_are_parsed_or_refused(headers: bytes, payload: bytes) -> None:
    frame = parse_frame(with_raw_headers(headers, payload))
    assert frame is None or frame.payload == payload


@each_row("header", [b"\0\0", b"\1a\1"], ids=["no name", "a name"])
def test_a_frame_of_very_many_headers_is_refused_in_linear_time(header: bytes) -> None:
    def parse(count: int) -> None:
        assert parse_frame(with_raw_headers(header * count)) is None

    assert_linear(parse, quick_or_thorough(80_000, 1_000_000))


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_frame_round_trips() -> None:
    rows = [row for row in corpus.rows() if row.wire.endswith(".eventstream")]
    count = 0
    for row in rows:
        for message in framing.split_messages("eventstream", row.body):
            frame = parse_frame(message)
            assert frame is not None, row.id
            assert encode_frame(frame.headers, frame.payload) == message
            count += 1
    assert (len(rows), count) == (63, 1338)
