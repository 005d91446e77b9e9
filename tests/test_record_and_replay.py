"""A live stream is recorded and replayed exactly."""

from __future__ import annotations

from pathlib import Path

from in_process_proxy import load_cassettes, proxy
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending
from raw_http import build_http_request, send_request
from stub_upstream import chunked, upstream

CHUNKS = [
    b'data: {"choices":[{"index":0,"delta":{"content":"Gr\xc3',
    b'\xbc\xc3\x9fe"}}]}\n',
    b'\ndata: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DO',
    b"NE]\n\n",
]
REQUEST = build_http_request(
    "/v1/chat/completions",
    b'{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}',
    "Content-Type: application/json",
    "Authorization: Bearer sk-canary-0123456789",
)


async def test_a_recorded_stream_is_replayed_byte_for_byte_and_read_for_read(
    tmp_path: Path,
) -> None:
    async with upstream(chunked(CHUNKS, gap=0.02)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            proxied = await send_request(recording.url, REQUEST)
    [cassette] = load_cassettes(tmp_path)

    assert proxied.chunks == CHUNKS
    assert [read.received_bytes for read in cassette.reads] == CHUNKS
    assert cassette.response_end.ending is Ending.CLEAN
    assert cassette_outcome(cassette).is_complete

    async with proxy("replay", tmp_path) as replaying:
        replayed = await send_request(replaying.url, REQUEST)

    assert replayed.chunks == CHUNKS
    assert (replayed.status, replayed.ending) == (200, "clean")
    assert replayed.header("content-type") == "text/event-stream"
    recorded_times_ms = [read.at_ms for read in cassette.reads]
    assert all(
        replayed_ms >= recorded_ms - 0.5
        for replayed_ms, recorded_ms in zip(replayed.times_ms, recorded_times_ms, strict=True)
    )


async def test_the_key_of_the_client_reaches_the_provider_and_never_the_disk(
    tmp_path: Path,
) -> None:
    async with upstream(chunked(CHUNKS)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            await send_request(recording.url, REQUEST)

    assert b"Bearer sk-canary-0123456789" in live.requests[0][0]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"canary" in path.read_bytes()]
