"""A live stream recorded, and played back exactly."""

from __future__ import annotations

from pathlib import Path

from in_process_proxy import cassettes, proxy
from llm_proxy.exchange import Ending
from llm_proxy.outcome import outcome_of
from raw_http import ask, post
from stub_upstream import chunked, upstream

PIECES = [
    b'data: {"choices":[{"index":0,"delta":{"content":"Gr\xc3',
    b'\xbc\xc3\x9fe"}}]}\n',
    b'\ndata: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DO',
    b"NE]\n\n",
]
REQUEST = post(
    "/v1/chat/completions",
    b'{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"hi"}]}',
    "Content-Type: application/json",
    "Authorization: Bearer sk-canary-0123456789",
)


async def test_a_recorded_stream_is_replayed_byte_for_byte_and_read_for_read(
    tmp_path: Path,
) -> None:
    async with upstream(chunked(PIECES, gap=0.02)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            passed_on = await ask(recording.url, REQUEST)
    [cassette] = cassettes(tmp_path)

    assert passed_on.chunks == PIECES
    assert [read.data for read in cassette.reads] == PIECES
    assert cassette.end.ending is Ending.CLEAN
    assert outcome_of(cassette).complete

    async with proxy("replay", tmp_path) as replaying:
        replayed = await ask(replaying.url, REQUEST)

    assert replayed.chunks == PIECES
    assert (replayed.status, replayed.how) == (200, "clean")
    assert replayed.header("content-type") == "text/event-stream"
    recorded_at = [read.at_ms for read in cassette.reads]
    assert all(late >= at - 0.5 for late, at in zip(replayed.times, recorded_at, strict=True))


async def test_the_key_of_the_client_reaches_the_provider_and_never_the_disk(
    tmp_path: Path,
) -> None:
    async with upstream(chunked(PIECES)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            await ask(recording.url, REQUEST)

    assert b"Bearer sk-canary-0123456789" in live.requests[0][0]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"canary" in path.read_bytes()]
