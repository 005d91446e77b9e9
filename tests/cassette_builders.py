"""Test data for the modules without I/O: cassettes as bytes, and ways to split bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from hypothesis import strategies as st

from llm_proxy.cassette import (
    Cassette,
    CassetteEncoder,
    CassetteMeta,
    StoredRequest,
    parse_cassette,
)
from llm_proxy.exchange import Ending, Headers, Read, ResponseHead

FILE_NAME: Final = "some.jsonl"
META: Final = CassetteMeta(
    recording_tool="llm-proxy 9.9.9",
    recorded_at="2026-11-21T04:37:42.181Z",
    dialect="openai-chat",
    provider="openai",
    model="gpt-5",
    session="default",
    key="0123456789abcdef" * 4,
    key_rules_version=1,
    redaction_rules_version=1,
)
REQUEST: Final = StoredRequest(
    method="POST",
    path="/v1/chat/completions",
    query="",
    headers=(("content-type", "application/json"),),
    body=b'{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}',
)
HEAD: Final = ResponseHead(200, "OK", (("Content-Type", "text/event-stream"),), "chunked")
READS: Final = (
    Read(20.0, b'data: {"choices":[{"index":0,"delta":{"content":"Gr\xc3'),
    Read(21.5, b'\xbc\xc3\x9fe"}}]}\n'),
    Read(33.25, b'\ndata: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [D'),
    Read(34.0, b"ONE]\n\n"),
)
"""A complete chat stream, split inside a character, a blank line and the terminator."""


def make_head(status: int = 200, framing: str = "chunked", headers: Headers = ()) -> ResponseHead:
    """A response head with defaults for what a test does not specify."""
    match framing:
        case "chunked" | "length" | "close" | "none":
            return ResponseHead(status, "", headers, framing)
        case _:
            raise AssertionError(framing)


def encode_cassette(
    reads: Iterable[Read] = READS,
    *,
    codec: str = "sse",
    head: ResponseHead = HEAD,
    head_at: float = 10.0,
    ending: Ending = Ending.CLEAN,
    end_at: float | None = None,
    meta: CassetteMeta = META,
    request: StoredRequest = REQUEST,
) -> bytes:
    """Encode a cassette file; without `end_at` it ends with its last read."""
    writer = CassetteEncoder(codec)
    lines = [writer.encode_opening(meta, request), writer.encode_head(head, head_at)]
    at = head_at
    for read in reads:
        lines.append(writer.encode_completed_messages(read))
        at = read.at_ms
    lines.append(writer.encode_ending(ending, at if end_at is None else end_at))
    return b"".join(lines)


def make_cassette(
    body: bytes = b"",
    *,
    codec: str = "sse",
    head: ResponseHead = HEAD,
    ending: Ending = Ending.CLEAN,
    meta: CassetteMeta = META,
) -> Cassette:
    """A cassette with one read."""
    reads = [Read(20.0, body)] if body else []
    return parse_cassette(
        FILE_NAME, encode_cassette(reads, codec=codec, head=head, ending=ending, meta=meta)
    )


def split_at(body: bytes, offsets: Iterable[int]) -> list[bytes]:
    """Split `body` at these offsets; empty pieces are kept."""
    stops = [0, *sorted(offsets), len(body)]
    return [body[begin:end] for begin, end in pairwise(stops)]


def splits(body: bytes) -> st.SearchStrategy[list[bytes]]:
    """A strategy for every way to split `body`."""
    return st.lists(st.integers(0, len(body)), max_size=8).map(
        lambda offsets: split_at(body, offsets)
    )


def read_sequences(bodies: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[Read]]:
    """A strategy for bodies split into non-empty reads at non-decreasing times."""

    def with_gaps(pieces: Sequence[bytes]) -> st.SearchStrategy[list[Read]]:
        gap_lists = st.lists(
            st.floats(0, 10_000), min_size=len(pieces), max_size=len(pieces)
        ) | st.just([0.0] * len(pieces))
        return gap_lists.map(lambda gaps: _timed_reads(pieces, gaps))

    return (
        bodies.flatmap(splits)
        .map(lambda pieces: [piece for piece in pieces if piece])
        .flatmap(with_gaps)
    )


def _timed_reads(pieces: Sequence[bytes], gaps: Sequence[float]) -> list[Read]:
    reads: list[Read] = []
    at = 10.0
    for piece, gap in zip(pieces, gaps, strict=True):
        at += gap
        reads.append(Read(at, piece))
    return reads
