from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cassette_builders import FILE, HEAD, META, READS, REQUEST, arrivals, cassette, written
from llm_proxy import framing
from llm_proxy.cassette import CassetteWriter, StoredRequest, read_cassette, read_opening
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
"""What version 1 is, to the byte: a file like this one is in somebody's repository."""


def lines(content: bytes) -> list[Any]:
    return [orjson.loads(line) for line in content.splitlines()]


def marks(*reads: tuple[float, bytes], codec: str = "sse") -> list[Any]:
    """The `at` of each message; None where there is none."""
    content = written([Read(at, data) for at, data in reads], codec=codec)
    return [fields.get("at") for fields in lines(content)[3:-1]]


def test_the_format_is_stable() -> None:
    assert written(end_at=34.5) == GOLDEN


def test_a_file_of_this_format_is_read() -> None:
    it = read_cassette(FILE, GOLDEN)
    assert (it.file, it.meta, it.request, it.head, it.head_at_ms) == (
        FILE,
        META,
        REQUEST,
        HEAD,
        10.0,
    )
    assert it.reads == READS
    assert it.body == b"".join(read.data for read in READS)
    assert list(it.messages) == framing.split_messages("sse", it.body)
    assert (it.codec, it.decoded) == ("sse", "")
    assert (it.end.ending, it.end.at_ms, it.end.size) == (Ending.CLEAN, 34.5, len(it.body))
    assert it.end.sha256 == hashlib.sha256(it.body).hexdigest()
    assert read_opening(FILE, GOLDEN) == (META, REQUEST)


@pytest.mark.parametrize(
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
    assert marks(*reads) == expected


def test_a_message_is_written_as_soon_as_it_is_complete() -> None:
    writer = CassetteWriter("sse")
    assert writer.encode_read(Read(1.0, b"data: 1\n")) == b""
    assert (
        writer.encode_read(Read(2.0, b"\nda"))
        == b'{"at":[[0,1.0],[8,2.0]],"text":"data: 1\\n\\n"}\n'
    )
    assert lines(writer.encode_ending(Ending.FIN, 3.0, redacted=2))[0] == {"text": "da"}


def test_what_was_replaced_is_counted() -> None:
    writer = CassetteWriter("whole")
    [end] = lines(writer.encode_ending(Ending.RST, 3.0, redacted=2))
    assert (end["end"]["redacted"], end["end"]["ending"]) == (2, "rst")
    [_, request] = lines(writer.encode_opening(META, replace(REQUEST, redacted=3)))
    assert request["request"]["redacted"] == 3


@pytest.mark.parametrize(
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
    request = StoredRequest("POST", "/v1/x", "a=b", (("accept", "*/*"),), body, redacted=1)
    content = written(request=request)
    spelled = lines(content)[1]["request"]
    plain = {"method": "POST", "path": "/v1/x", "query": "a=b", "headers": [["accept", "*/*"]]}
    assert spelled == {**plain, "redacted": 1, **field}
    assert read_cassette(FILE, content).request == replace(request, body=restored)


def test_a_model_that_would_upset_a_terminal_is_spelled_out() -> None:
    for model in ("a\x1b[2J\u202e", "m" * 5000):
        content = written(meta=replace(META, model=model))
        kept = read_cassette(FILE, content).meta.model
        assert kept.isprintable()
        assert len(kept) <= 1000
        assert kept[:1] == model[:1]


def test_a_response_that_came_compressed_is_marked() -> None:
    writer = CassetteWriter("sse")
    content = writer.encode_opening(META, REQUEST) + writer.encode_head(HEAD, 1.0, "gzip")
    assert read_cassette(FILE, content + writer.encode_ending(Ending.CLEAN, 2.0)).decoded == "gzip"


def test_a_codec_that_does_not_exist_cannot_be_written() -> None:
    with pytest.raises(KeyError):
        CassetteWriter("protobuf")


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


@pytest.mark.parametrize("codec", framing.CODECS)
@given(
    reads=arrivals(bodies),
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
    body = b"".join(read.data for read in reads)
    if head.status == 304:
        reads, body, head = [], b"", replace(head, framing="none")
    end_at = (reads[-1].at_ms if reads else 10.0) + after
    content = written(reads, codec=codec, head=head, ending=ending, end_at=end_at)
    it = read_cassette(FILE, content)
    assert [read.data for read in it.reads] == [read.data for read in reads]
    assert [read.at_ms for read in it.reads] == [round(read.at_ms, 2) for read in reads]
    assert (it.head, it.head_at_ms, it.body) == (head, 10.0, body)
    assert it.codec == framing.codec_of_bytes(codec, body)
    assert list(it.messages) == framing.split_messages(it.codec, body)
    assert (it.end.ending, it.end.at_ms, it.end.size) == (ending, round(end_at, 2), len(body))


def test_a_message_beyond_the_limit_goes_on_in_the_next_line() -> None:
    body = b"x" * (2 * framing.MESSAGE_LIMIT + 3)
    it = cassette(body, codec="whole")
    assert [len(message) for message in it.messages] == [2**22, 2**22, 3]
    assert it.body == body
