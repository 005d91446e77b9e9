from __future__ import annotations

import re
from binascii import crc32
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cassette_builders import split_at, splits
from linear_time import assert_linear
from llm_proxy import framing
from llm_proxy.framing import (
    CODECS,
    MAX_MESSAGE_BYTES,
    MessageSplitter,
    codec_name_for_content_type,
)
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.framing.sse import SseEvent, is_done_message, parse_event
from thoroughness import quick_or_thorough


@dataclass(frozen=True, slots=True)
class Case:
    """A stream, as the messages that it must be split into."""

    codec: str
    ended: tuple[bytes, ...]
    """Complete messages, which no following byte changes."""
    tail: bytes = b""
    """The bytes after them."""

    @property
    def stream(self) -> bytes:
        """All bytes."""
        return b"".join(self.ended) + self.tail

    @property
    def messages(self) -> list[bytes]:
        """The messages if the stream ends here."""
        return [*self.ended, *([self.tail] if self.tail else [])]


def sse(*ended: bytes, tail: bytes = b"") -> Case:
    return Case("sse", ended, tail)


def ndjson(*ended: bytes, tail: bytes = b"") -> Case:
    return Case("ndjson", ended, tail)


def eventstream(*ended: bytes, tail: bytes = b"") -> Case:
    return Case("eventstream", ended, tail)


FRAME = encode_frame([(":message-type", "event")], b'{"a":1}\n\n')
EMPTY = encode_frame([], b"")
BYTEWISE = quick_or_thorough(16_000, 160_000)
"""The size of a stream that comes byte by byte."""
LONG_FRAME = encode_frame([], bytes(9_984))
BROKEN_PRELUDE = FRAME[:11] + bytes([FRAME[11] ^ 1]) + FRAME[12:]
BROKEN_PAYLOAD = FRAME[:-6] + b"?" + FRAME[-5:]
IMPOSSIBLE_PRELUDE = bytes.fromhex("0000000f 00000000 e77248b8")
"""A total length of 15, which no frame has, with a valid checksum."""


def array(*ended: bytes, tail: bytes = b"") -> Case:
    return Case("json-array", ended, tail)


CASES = {
    "sse: LF": sse(b"data: 1\n\n", b"data: 2\n\n"),
    "sse: CRLF": sse(b"data: 1\r\n\r\n", b"data: 2\r\n\r\n"),
    "sse: CR": sse(b"data: 1\r\r", tail=b"data: 2\r"),
    "sse: LF after CRLF": sse(b"data: 1\r\n\n", b"data: 2\n\r\n"),
    "sse: LF CR is two line ends": sse(b"data: 1\n\r", b"data: 2\n\n"),
    "sse: CR CRLF is two line ends": sse(b"data: 1\r\r\n", b"data: 2\n\n"),
    "sse: comments before the first event": sse(
        b": OPENROUTER PROCESSING\n\n", b": \n\n", b":408: 408 Request Timeout\n\n", b"data: 1\n\n"
    ),
    "sse: comment inside an event": sse(b": hi\ndata: 1\n\n"),
    "sse: blank lines at the beginning": sse(b"\n\n\n\ndata: 1\n\n"),
    "sse: blank CRLF lines at the beginning": sse(b"\r\n\r\ndata: 1\r\n\r\n"),
    "sse: three line ends between events": sse(b"data: 1\n\n", b"\ndata: 2\n\n"),
    "sse: blank lines at the end": sse(b"data: 1\n\n", tail=b"\n\n"),
    "sse: blank lines alone": sse(tail=b"\n\n\n"),
    "sse: event, id, several data": sse(b"event: output\nid: 1\ndata: a\ndata: \ndata: b\n\n"),
    "sse: data before event": sse(b'data: {"a":1}\nevent: x\n\n'),
    "sse: padding before the brace": sse(b'event: e\ndata: {"text":""}           }\n\n'),
    "sse: U+2028 and U+0085 in JSON": sse('data: {"t":"a\u2028b\u2029\x85c\x0b\x0c"}\n\n'.encode()),
    "sse: byte order mark": sse(b"\xef\xbb\xbfdata: 1\n\n", b"data: 2\n\n"),
    "sse: not UTF-8": sse(b"data: \xff\xfe\xc3\n\n"),
    "sse: NUL": sse(b"data: \0\n\n"),
    "sse: no terminator": sse(b"data: 1\n\n", tail=b"data: [DO"),
    "sse: terminator without a blank line": sse(b"data: 1\n\n", tail=b"data: [DONE]\n"),
    "sse: an error that is no event": sse(b"data: 1\n\n", tail=b'error: {"detail":"no"}'),
    "sse: pretty JSON in place of a stream": sse(
        tail=b'{\n  "error": {\n    "code": 404\n  }\n}\n'
    ),
    "sse: nothing": sse(),
    "ndjson: lines": ndjson(b'{"a":1}\n', b'{"done":true}\n'),
    "ndjson: CRLF": ndjson(b'{"a":1}\r\n', b'{"b":1}\r\n'),
    "ndjson: blank lines": ndjson(b"\n", b'{"a":1}\n', b"\n"),
    "ndjson: CR and U+2028 do not end a line": ndjson('{"a":"\r\u2028\x85"}\n'.encode()),
    "ndjson: no last line end": ndjson(b'{"a":1}\n', tail=b'{"done":true}'),
    "ndjson: nothing": ndjson(),
    "eventstream: frames": eventstream(FRAME, EMPTY, FRAME),
    "eventstream: a frame cut": eventstream(FRAME, tail=FRAME[:30]),
    "eventstream: a prelude cut": eventstream(FRAME, tail=FRAME[:7]),
    "eventstream: a broken payload": eventstream(BROKEN_PAYLOAD, FRAME),
    "eventstream: a broken prelude": eventstream(FRAME, tail=BROKEN_PRELUDE + FRAME),
    "eventstream: an impossible prelude": eventstream(EMPTY, tail=IMPOSSIBLE_PRELUDE + EMPTY),
    "eventstream: a page": eventstream(tail=b"<html>502 Bad Gateway</html>"),
    "eventstream: a page after frames": eventstream(FRAME, tail=b"<html>502 Bad Gateway</html>"),
    "eventstream: nothing": eventstream(),
    "json-array: elements, as Gemini writes them": array(
        b'[{\n  "a": [1]\n}', b'\r\n,\r\n{"b": {}}', tail=b"\r\n]\r\n"
    ),
    "json-array: one line": array(b'[{"a":1}', b',{"b":[{}]}', b",[2]", tail=b"]"),
    "json-array: brackets and quotes in a string": array(
        rb'[{"}]":"[{\"]}\\"}', rb',{"\u005d":"\\\""}', tail=b"]"
    ),
    "json-array: what are no objects": array(b'[1,"}",null,{}', tail=b',true,"]"]'),
    "json-array: characters and a byte order mark": array(
        '\ufeff[{"t":"Grüße\u2028"}'.encode(), tail=b"]"
    ),
    "json-array: blanks first": array(b" \r\n\t[{}", tail=b"]"),
    "json-array: cut": array(b'[{"a":1}', tail=b',\r\n{"b":"]}'),
    "json-array: cut after a backslash": array(b"[{}", tail=b',{"b":"\\'),
    "json-array: closed by another bracket": array(b'[{"a":1]', tail=b"}{}"),
    "json-array: behind its end": array(b"[{}", tail=b'][{"a":1}]{}'),
    "json-array: empty": array(tail=b"[]"),
    "json-array: a document in place of an array": array(tail=b'{"error":[{}]}'),
    "json-array: a string in place of an array": array(tail=b'"[{}"[{}]'),
    "json-array: nothing": array(),
    "whole: a document": Case("whole", (), b'{"a":1}\n\n{"b":2}\n'),
    "whole: any bytes": Case("whole", (), bytes(range(256))),
    "whole: nothing": Case("whole", ()),
}
each_case = each_row("case", CASES.values(), ids=CASES.keys())
each_codec = each_row("name", CODECS)

hostile_streams = st.lists(
    st.sampled_from(
        [b"\n", b"\r", b"\r\n", b"data: 1", b":", b"x", "\u2028".encode(), b"\xef\xbb\xbf", b"\0"]
    ),
    max_size=20,
).map(b"".join) | st.lists(
    st.sampled_from([FRAME, EMPTY, FRAME, EMPTY, BROKEN_PAYLOAD, BROKEN_PRELUDE, FRAME[:9], b"\0"]),
    max_size=6,
).map(b"".join)
hostile_arrays = st.lists(
    st.sampled_from([b"[", b"]", b"{", b"}", b"[{", b"}]", b'"', b"\\", b",", b"1", b" "]),
    max_size=20,
).map(lambda pieces: b"[" + b"".join(pieces))


def feed_all(codec: MessageSplitter, pieces: list[bytes]) -> list[bytes]:
    return [item for piece in pieces for item in codec.feed(piece)] + codec.close()


@each_case
def test_a_stream_is_cut_into_its_messages(case: Case) -> None:
    assert framing.split_messages(case.codec, case.stream) == case.messages


@each_case
def test_a_stream_that_comes_byte_by_byte_is_cut_at_the_same_places(case: Case) -> None:
    single = [bytes([item]) for item in case.stream]
    assert feed_all(framing.new_codec(case.codec), single) == case.messages


@each_case
def test_a_stream_in_two_reads_is_cut_at_the_same_places(case: Case) -> None:
    for at in range(len(case.stream) + 1):
        assert feed_all(framing.new_codec(case.codec), split_at(case.stream, [at])) == case.messages


@each_case
def test_following_bytes_change_no_complete_message(case: Case) -> None:
    assert framing.split_messages(case.codec, case.stream + b"more") == [
        *case.ended,
        case.tail + b"more",
    ]


@each_case
def test_a_message_is_given_as_soon_as_nothing_can_change_it(case: Case) -> None:
    assert framing.new_codec(case.codec).feed(case.stream) == list(case.ended)


@each_case
def test_a_codec_can_be_reused_after_close(case: Case) -> None:
    codec = framing.new_codec(case.codec)
    first = feed_all(codec, [case.stream])
    assert feed_all(codec, [case.stream]) == first


def reference_split(name: str, stream: bytes) -> list[bytes]:
    """The messages by the standard, implemented without regard to reads, limits or speed."""
    if name == "whole":
        return [stream]
    if name == "json-array":
        return reference_split_array(stream)
    if name == "ndjson":
        return re.findall(rb"[^\n]*\n|[^\n]+", stream)
    if name == "eventstream":
        return reference_split_frames(stream)
    messages = [b""]
    has_content = False
    for line in re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", stream):
        messages[-1] += line
        if line.strip(b"\r\n"):
            has_content = True
        elif has_content:
            messages.append(b"")
            has_content = False
    return messages


def reference_split_frames(stream: bytes) -> list[bytes]:
    messages: list[bytes] = []
    while stream:
        total, headers = int.from_bytes(stream[:4], "big"), int.from_bytes(stream[4:8], "big")
        prelude_is_valid = (
            crc32(stream[:8]) == int.from_bytes(stream[8:12], "big") and total >= headers + 16
        )
        end = total if len(stream) >= 12 and prelude_is_valid else len(stream)
        messages.append(stream[:end])
        stream = stream[end:]
    return messages


def reference_split_array(stream: bytes) -> list[bytes]:
    """The messages of a JSON array, found byte by byte."""
    messages = [b""]
    depth, in_string, escaped = 0, False, False
    has_begun = is_over = False
    for byte in (stream[at : at + 1] for at in range(len(stream))):
        messages[-1] += byte
        if is_over or (not has_begun and byte in b" \t\r\n\xef\xbb\xbf"):
            continue
        is_over = not has_begun and byte != b"["
        has_begun = True
        if escaped or (in_string and byte == b"\\"):
            escaped = not escaped
        elif byte == b'"':
            in_string = not in_string
        elif not in_string and byte in b"[]{}":
            depth += 1 if byte in b"[{" else -1
            is_over = is_over or depth == 0
            if depth == 1 and byte in b"]}":
                messages.append(b"")
    return messages


@each_codec
@given(stream=hostile_streams | hostile_arrays, limit=st.integers(1, 12), chosen=st.data())
def test_any_split_under_any_limit_gives_the_same_messages(
    name: str, stream: bytes, limit: int, chosen: st.DataObject
) -> None:
    expected = [
        message[at : at + limit]
        for message in reference_split(name, stream)
        for at in range(0, len(message), limit)
    ]
    assert feed_all(CODECS[name](limit), chosen.draw(splits(stream))) == expected


@each_codec
@given(stream=hostile_streams | hostile_arrays | st.binary(max_size=60), limit=st.integers(1, 12))
def test_no_more_than_the_limit_is_ever_held_back(name: str, stream: bytes, limit: int) -> None:
    codec = CODECS[name](limit)
    held_bytes = 0
    for byte in stream:
        held_bytes += 1 - sum(map(len, codec.feed(bytes([byte]))))
        assert 0 <= held_bytes <= limit


@each_codec
@each_row(
    ("unit", "size", "read_size", "limit"),
    [
        pytest.param(b"x", 400_000, 1024, None, id="one line"),
        pytest.param(b"x", 400_000, 1024, 10_000, id="one line beyond the limit"),
        pytest.param(b"x", BYTEWISE, 1, None, id="bytes"),
        pytest.param(b"\r", BYTEWISE, 1, None, id="CRs"),
        pytest.param(b"\n", BYTEWISE, 1, None, id="LFs"),
        pytest.param(b'data: {"a":1}\n\n', 400_000, 400_000, None, id="events at once"),
        pytest.param(b'data: {"a":1}\n', 400_000, 4096, None, id="lines in one event"),
        pytest.param(EMPTY, 400_000, 400_000, None, id="frames at once"),
        pytest.param(FRAME, BYTEWISE, 1, None, id="frames byte by byte"),
        pytest.param(LONG_FRAME, 400_000, 4096, 1000, id="frames beyond the limit"),
        pytest.param(b"[", BYTEWISE, 1, None, id="brackets"),
        pytest.param(b'[{"a":1},', 160_000, 160_000, None, id="elements at once"),
    ],
)
def test_time_is_linear(
    name: str, unit: bytes, size: int, read_size: int, limit: int | None
) -> None:
    def split(size: int) -> None:
        stream = unit * (size // len(unit))
        codec = CODECS[name](limit or MAX_MESSAGE_BYTES)
        received_bytes = 0
        for at in range(0, len(stream), read_size):
            for message in codec.feed(stream[at : at + read_size]):
                received_bytes += len(message)
                assert len(message) <= (limit or MAX_MESSAGE_BYTES)
        assert received_bytes + sum(map(len, codec.close())) == len(stream)

    assert_linear(split, size)


def test_a_codec_of_another_name_is_unknown() -> None:
    with pytest.raises(KeyError):
        framing.new_codec("protobuf")


@each_row(
    ("content_type", "name"),
    [
        ("text/event-stream", "sse"),
        ("text/event-stream; charset=utf-8", "sse"),
        ("Text/Event-Stream;charset=UTF-8", "sse"),
        ("application/x-ndjson", "ndjson"),
        ("application/ndjson", "ndjson"),
        ("application/stream+json", "ndjson"),
        ("application/jsonl", "ndjson"),
        ("application/json; charset=UTF-8", "whole"),
        ("application/vnd.amazon.eventstream", "eventstream"),
        ("", "whole"),
        (None, "whole"),
    ],
)
def test_the_content_type_chooses_the_codec(content_type: str | None, name: str) -> None:
    assert codec_name_for_content_type(content_type) == name


@each_row(
    ("message", "event"),
    [
        (b'data: {"a":1}\n\n', SseEvent("", b'{"a":1}')),
        (b'data:{"a":1}\n\n', SseEvent("", b'{"a":1}')),
        (b"data:  a\r\n\r\n", SseEvent("", b" a")),
        (b"event: ping\ndata: 1\n\n", SseEvent("ping", b"1")),
        (b"event: ping\r\ndata: 1\n\r\n", SseEvent("ping", b"1")),
        (b"data: 1\revent: ping\r\r", SseEvent("ping", b"1")),
        (b"data: :\ndata: \ndata\ndata: Why\n\n", SseEvent("", b":\n\n\nWhy")),
        (b"\n\n\xef\xbb\xbf", SseEvent("", None)),
        (b"\xef\xbb\xbfdata: 1\n\n", SseEvent("", b"1")),
        (b": OPENROUTER PROCESSING\n\n", SseEvent("", None)),
        (b":data: 1\n\n", SseEvent("", None)),
        (b"id: 7\nretry: 100\n\n", SseEvent("", None)),
        (b"event: \xff\n\n", SseEvent("\ufffd", None)),
        (b" data: 1\n\n", SseEvent("", None)),
        (b"data: a:b\n\n", SseEvent("", b"a:b")),
        ('data: "\u2028"'.encode(), SseEvent("", '"\u2028"'.encode())),
        (b"", SseEvent("", None)),
    ],
)
def test_an_event_is_read_as_a_browser_would(message: bytes, event: SseEvent) -> None:
    assert parse_event(message) == event


@each_row(
    ("message", "done"),
    [
        (b"data: [DONE]\n\n", True),
        (b"event: done\r\ndata:[DONE] \r\n\r\n", True),
        (b'data: "[DONE]"\n\n', False),
        (b": [DONE]\n\n", False),
        (b"", False),
    ],
)
def test_done_is_only_the_data_of_an_event(message: bytes, *, done: bool) -> None:
    assert is_done_message(message) == done
