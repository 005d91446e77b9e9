"""The demo's provider: streams one response with realistic times and pieces.

The response is the same in every run: its gaps and cuts are derived from hashes, not from
chance.  Pieces do not end where events end, and some end inside a character, as on a real network.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

import orjson

from llm_proxy.exchange import Read

MODEL: Final = "demo-model"
PATH: Final = "/v1/chat/completions"
QUESTION: Final = "Why does a recording need to keep time?"
ANSWER: Final = (
    "Grüße! A model does not answer, it streams: in bursts, in pauses, слово за словом, "
    "一語ずつ. An app that waits, renders and gives up lives in those gaps. 🌊 "
    "Replay them, and a bug of timing shows itself twice ⏱️."
)

_FIRST_PIECE_MS: Final = 180.0
"""ms before the first piece."""
_MIN_GAP_MS: Final = 10.0
_MAX_GAP_MS: Final = 80.0
"""Maximum ms between two pieces; short gaps are more frequent."""
_RESPONSE_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class DemoProvider:
    """The running provider: its address, and the response that it streams."""

    host: str
    port: int
    event_count: int
    network_pieces: tuple[Read, ...]
    """The pieces of the body that it writes, with times in ms since the request."""

    @property
    def response_body(self) -> bytes:
        """The whole body that it streams."""
        return b"".join(piece.received_bytes for piece in self.network_pieces)


@asynccontextmanager
async def run_provider(host: str = "127.0.0.1") -> AsyncIterator[DemoProvider]:
    """A provider on a free port; on exit it is stopped."""
    events = response_events()
    pieces = network_pieces(events)
    connection_tasks: set[asyncio.Task[None]] = set()

    def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(_serve_connection(reader, writer, pieces))
        connection_tasks.add(task)
        task.add_done_callback(connection_tasks.discard)

    server = await asyncio.start_server(on_connection, host, 0)
    try:
        yield DemoProvider(host, server.sockets[0].getsockname()[1], len(events), pieces)
    finally:
        server.close()
        unfinished = tuple(connection_tasks)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        await server.wait_closed()


def response_events() -> tuple[bytes, ...]:
    """The SSE events of the response, as OpenAI Chat Completions streams them."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in re.findall(r"\s?[^\s]+", ANSWER)]
    choices: list[list[dict[str, Any]]] = [
        [{"delta": delta, "index": 0, "finish_reason": None}] for delta in deltas
    ]
    choices.append([{"delta": {}, "index": 0, "finish_reason": "stop"}])
    common_fields = {
        "id": "chatcmpl-demo",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": MODEL,
    }
    chunks: list[dict[str, Any]] = [{"choices": choice, **common_fields} for choice in choices]
    word_count = len(deltas) - 1
    usage = {"prompt_tokens": 9, "completion_tokens": word_count, "total_tokens": 9 + word_count}
    chunks.append({"choices": [], "usage": usage, **common_fields})
    return (*(b"data: %b\n\n" % orjson.dumps(chunk) for chunk in chunks), b"data: [DONE]\n\n")


def network_pieces(events: Sequence[bytes]) -> tuple[Read, ...]:
    """The events as a network delivers them: one timed piece per event, but cut elsewhere."""
    body = b"".join(events)
    ends = accumulate(map(len, events[:-1]))
    cuts = [0, *(end + _overlap_bytes(event) for end, event in zip(ends, events[1:], strict=True))]
    times_ms = accumulate([_FIRST_PIECE_MS, *map(_gap_ms, range(1, len(events)))])
    spans = pairwise([*cuts, len(body)])
    return tuple(
        Read(at, body[begin:end]) for at, (begin, end) in zip(times_ms, spans, strict=True)
    )


def _overlap_bytes(event: bytes) -> int:
    """How many bytes of this event arrive with the piece before it."""
    beyond_ascii = re.search(rb"[\x80-\xff]", event)
    if beyond_ascii is not None:  # cut inside this character
        return beyond_ascii.start() + 1
    return _seeded_byte(event) % (len(event) // 2)


def _gap_ms(number: int) -> float:
    fraction = _seeded_byte(b"gap %d" % number) / 255
    return _MIN_GAP_MS + (_MAX_GAP_MS - _MIN_GAP_MS) * fraction * fraction


def _seeded_byte(data: bytes) -> int:
    """A number from 0 to 255, the same in every run."""
    return hashlib.sha256(data).digest()[0]


async def _serve_connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: Sequence[Read]
) -> None:
    try:
        with suppress(ConnectionError, asyncio.IncompleteReadError):  # the client has gone
            await _write_response(reader, writer, pieces)
    finally:
        writer.close()


async def _write_response(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: Sequence[Read]
) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    loop = asyncio.get_running_loop()
    started_at_s = loop.time()
    writer.write(_RESPONSE_HEAD)
    for piece in pieces:
        await asyncio.sleep(started_at_s + piece.at_ms / 1000 - loop.time())
        writer.write(b"%x\r\n%b\r\n" % (len(piece.received_bytes), piece.received_bytes))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
