from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import msgspec
import orjson
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
    make_cassette,
    read_sequences,
)
from llm_proxy import framing
from llm_proxy.cassette import (
    CassetteEncoder,
    StoredRequest,
    parse_cassette,
    parse_cassette_opening,
)
from llm_proxy.cassette.model import printable_model
from llm_proxy.exchange import Ending, Read, ResponseHead

GOLDEN = (
    '{"cassette":1,"tool":"llm-proxy 9.9.9","recorded":"2026-11-21T04:37:42.181Z",'
    '"dialect":"openai-chat","provider":"openai","model":"gpt-5","session":"default",'
    '"key":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",'
    '"key_rules":1,"redaction_rules":1}\n'
    '{"request":{"method":"POST","path":"/v1/chat/completions",'
    '"headers":[["content-type","application/json"]],'
    '"json":{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}}}\n'
    '{"response":{"at":10.0,"status":200,"reason":"OK","framing":"chunked","codec":"sse",'
    '"headers":[["Content-Type","text/event-stream"]]}}\n'
    '{"at":[[0,20.0],[52,21.5],[62,33.25]],'
    '"data":{"choices":[{"index":0,"delta":{"content":"Grüße"}}]}}\n'
    '{"data":{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}}\n'
    '{"at":[[8,34.0]],"text":"data: [DONE]\\n\\n"}\n'
    '{"end":{"ending":"clean","at":34.5,"bytes":144,'
    '"sha256":"abece5f17c15efd08ae7d973e1e50856d281fa55a6acedebc8ba67a5d49a7238"}}\n'
).encode()
"""Version 1 of the format, to the byte: such files are committed in users' repositories."""


def parse_lines(content: bytes) -> list[Any]:
    return [orjson.loads(line) for line in content.splitlines()]


def read_marks(*reads: tuple[float, bytes], codec: str = "sse") -> list[Any]:
    """The `at` of each message; None where it is absent."""
    content = encode_cassette([Read(at, data) for at, data in reads], codec=codec)
    return [fields.get("at") for fields in parse_lines(content)[3:-1]]


def test_the_format_is_stable() -> None:
    assert encode_cassette(end_at=34.5) == GOLDEN


def test_a_file_of_this_format_is_read() -> None:
    loaded = parse_cassette(FILE_NAME, GOLDEN)
    assert (
        loaded.file,
        loaded.meta,
        loaded.request,
        loaded.response_head,
        loaded.response_head_at_ms,
    ) == (
        FILE_NAME,
        META,
        REQUEST,
        HEAD,
        10.0,
    )
    assert loaded.reads == READS
    assert loaded.response_body == b"".join(read.received_bytes for read in READS)
    assert list(loaded.framed_messages) == framing.split_messages("sse", loaded.response_body)
    assert (loaded.codec_name, loaded.content_coding) == ("sse", "")
    assert (
        loaded.response_end.ending,
        loaded.response_end.at_ms,
        loaded.response_end.size_bytes,
    ) == (
        Ending.CLEAN,
        34.5,
        len(loaded.response_body),
    )
    assert loaded.response_end.sha256 == hashlib.sha256(loaded.response_body).hexdigest()
    assert parse_cassette_opening(FILE_NAME, GOLDEN) == (META, REQUEST)


@each_row(
    ("reads", "expected"),
    [
        pytest.param([(20, b"data: 1\n\n")], [20.0], id="a read that is a message"),
        pytest.param([(20, b"data: 1\n\ndata: 2\n\n")], [20.0, None], id="two messages in a read"),
        pytest.param([(20, b"da"), (21, b"ta: 1\n\n")], [[[0, 20.0], [2, 21.0]]], id="two reads"),
        pytest.param(
            [(20, b"data: 1\n"), (21, b"\ndata: 2\n\n")],
            [[[0, 20.0], [8, 21.0]], None],
            id="a message that began in the read before",
        ),
        pytest.param(
            [(20, b"data: 1\n\nda"), (21, b"ta: 2\n\n")],
            [20.0, [[2, 21.0]]],
            id="a read that begins inside a message",
        ),
        pytest.param(
            [(20, b"data: 1\n\n"), (20, b"data: 2\n\n")], [20.0, 20.0], id="reads at one time"
        ),
        pytest.param(
            [(20, b"data: 1\r\r"), (21, b"data: 2\r\r")],
            [20.0, 21.0],
            id="a message that ends when the next read begins",
        ),
        pytest.param([(20, b"data: 1")], [20.0], id="a message without an end"),
        pytest.param([(20, b""), (21, b"data: 1\n\n")], [21.0], id="a read of nothing"),
        pytest.param([(20.123456, b"data: 1\n\n")], [20.12], id="a hundredth of a ms"),
        pytest.param([], [], id="no body"),
    ],
)
def test_reads_are_noted_beside_the_messages(
    reads: list[tuple[float, bytes]], expected: list[Any]
) -> None:
    assert read_marks(*reads) == expected


def test_a_message_is_written_as_soon_as_it_is_complete() -> None:
    writer = CassetteEncoder("sse")
    assert writer.encode_completed_messages(Read(1.0, b"data: 1\n")) == b""
    assert (
        writer.encode_completed_messages(Read(2.0, b"\nda"))
        == b'{"at":[[0,1.0],[8,2.0]],"text":"data: 1\\n\\n"}\n'
    )
    assert parse_lines(writer.encode_ending(Ending.FIN, 3.0, redacted_count=2))[0] == {"text": "da"}


def test_redactions_are_counted() -> None:
    writer = CassetteEncoder("whole")
    [end] = parse_lines(writer.encode_ending(Ending.RST, 3.0, redacted_count=2))
    assert (end["end"]["redacted"], end["end"]["ending"]) == (2, "rst")
    [_, request] = parse_lines(writer.encode_opening(META, replace(REQUEST, redacted_count=3)))
    assert request["request"]["redacted"] == 3


@each_row(
    ("body", "field", "restored"),
    [
        (b'{"a": 1.0 }', {"json": {"a": 1.0}}, b'{"a":1.0}'),
        (b"null", {"json": None}, b"null"),
        (b"", {}, b""),
        (b"a=1&b=2", {"text": "a=1&b=2"}, b"a=1&b=2"),
        (b'data: {"a":1}\n\n', {"text": 'data: {"a":1}\n\n'}, b'data: {"a":1}\n\n'),
        (b"{NaN}", {"text": "{NaN}"}, b"{NaN}"),
        (b"\xff", {"base64": "/w=="}, b"\xff"),
        (b"[" * 300 + b"]" * 300, {"text": "[" * 300 + "]" * 300}, b"[" * 300 + b"]" * 300),
    ],
    ids=["JSON", "null", "empty", "form", "like an event", "no JSON", "bytes", "deep JSON"],
)
def test_a_request_is_stored_readably(body: bytes, field: dict[str, Any], restored: bytes) -> None:
    request = StoredRequest("POST", "/v1/x", "a=b", (("accept", "*/*"),), body, redacted_count=1)
    content = encode_cassette(request=request)
    stored_request = parse_lines(content)[1]["request"]
    default_fields = {
        "method": "POST",
        "path": "/v1/x",
        "query": "a=b",
        "headers": [["accept", "*/*"]],
    }
    assert stored_request == {**default_fields, "redacted": 1, **field}
    assert parse_cassette(FILE_NAME, content).request == replace(request, body=restored)


def test_control_characters_in_a_model_name_are_escaped() -> None:
    for model in ("a\x1b[2J\u202e", "m" * 5000):
        meta = msgspec.structs.replace(META, model=printable_model(model))
        content = encode_cassette(meta=meta)
        stored_model = parse_cassette(FILE_NAME, content).meta.model
        assert stored_model.isprintable()
        assert len(stored_model) <= 1000
        assert stored_model[:1] == model[:1]


def test_a_response_that_came_compressed_is_marked() -> None:
    writer = CassetteEncoder("sse")
    content = writer.encode_opening(META, REQUEST) + writer.encode_head(HEAD, 1.0, "gzip")
    assert (
        parse_cassette(FILE_NAME, content + writer.encode_ending(Ending.CLEAN, 2.0)).content_coding
        == "gzip"
    )


def test_a_codec_that_does_not_exist_cannot_be_written() -> None:
    with pytest.raises(KeyError):
        CassetteEncoder("protobuf")


bodies = st.binary() | st.lists(
    st.sampled_from(
        [
            b"data: ",
            b'{"a":1}',
            b"\n\n",
            b"\r\n\r\n",
            b"\r\r",
            b"\n",
            b"[DONE]",
            b"\xff",
            "ä\u2028".encode(),
        ]
    )
).map(b"".join)
headers = st.lists(
    st.tuples(
        st.from_regex(r"x-[A-Za-z0-9!#$%&'*+.^_`|~-]+", fullmatch=True),
        st.text(st.characters(max_codepoint=255, exclude_categories=["Cc"]) | st.just("\t")),
    ),
    max_size=3,
).map(tuple)
numbers = st.none() | st.integers(0, 2**63 - 1)


@each_row("codec", framing.CODECS)
@given(
    reads=read_sequences(bodies),
    head=st.builds(
        ResponseHead,
        st.sampled_from([200, 206, 304, 400, 529, 999]),
        st.sampled_from(["OK", "", "Überlastet \x80\xff"]),
        headers,
        st.just("chunked"),
        numbers,
    ),
    ending=st.sampled_from(Ending),
    after=st.floats(0, 1000),
)
def test_whatever_was_written_is_read(
    codec: str, reads: list[Read], head: ResponseHead, ending: Ending, after: float
) -> None:
    body = b"".join(read.received_bytes for read in reads)
    if head.status == 304:
        reads, body, head = [], b"", replace(head, framing="none")
    end_at = (reads[-1].at_ms if reads else 10.0) + after
    content = encode_cassette(reads, codec=codec, head=head, ending=ending, end_at=end_at)
    loaded = parse_cassette(FILE_NAME, content)
    assert [read.received_bytes for read in loaded.reads] == [read.received_bytes for read in reads]
    assert [read.at_ms for read in loaded.reads] == [round(read.at_ms, 2) for read in reads]
    assert (loaded.response_head, loaded.response_head_at_ms, loaded.response_body) == (
        head,
        10.0,
        body,
    )
    assert loaded.codec_name == framing.codec_name_for_body(codec, body)
    assert list(loaded.framed_messages) == framing.split_messages(loaded.codec_name, body)
    assert (
        loaded.response_end.ending,
        loaded.response_end.at_ms,
        loaded.response_end.size_bytes,
    ) == (
        ending,
        round(end_at, 2),
        len(body),
    )


def test_a_message_beyond_the_limit_goes_on_in_the_next_line() -> None:
    body = b"x" * (2 * framing.MAX_MESSAGE_BYTES + 3)
    loaded = make_cassette(body, codec="whole")
    assert [len(message) for message in loaded.framed_messages] == [2**22, 2**22, 3]
    assert loaded.response_body == body
