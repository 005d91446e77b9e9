"""The demo's provider: streams one response with realistic times and pieces.

The answer is the same in every run: its gaps and its cuts are hashes, not chance.  Pieces do
not end where events end, and some end inside a character, as they do on a real network.
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

_FIRST: Final = 180.0
"""ms that the model thinks before the first piece."""
_SHORTEST: Final = 10.0
_LONGEST: Final = 80.0
"""ms between two pieces; short gaps are the more frequent ones."""
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class DemoProvider:
    """Where the provider is, and what it streams."""

    host: str
    port: int
    events: int
    network_pieces: tuple[Read, ...]
    """What it writes, and when: ms since it was asked."""

    @property
    def body(self) -> bytes:
        """All that it streams."""
        return b"".join(piece.data for piece in self.network_pieces)


@asynccontextmanager
async def run_provider(host: str = "127.0.0.1") -> AsyncIterator[DemoProvider]:
    """A provider on a free port; on the way out it listens no more."""
    events = response_events()
    planned = network_pieces(events)
    answering: set[asyncio.Task[None]] = set()

    def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(_serve_connection(reader, writer, planned))
        answering.add(task)
        task.add_done_callback(answering.discard)

    server = await asyncio.start_server(asked, host, 0)
    try:
        yield DemoProvider(host, server.sockets[0].getsockname()[1], len(events), planned)
    finally:
        server.close()
        unfinished = tuple(answering)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        await server.wait_closed()


def response_events() -> tuple[bytes, ...]:
    """The events of the answer, as OpenAI Chat Completions streams them."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in re.findall(r"\s?[^\s]+", ANSWER)]
    choices: list[list[dict[str, Any]]] = [
        [{"delta": delta, "index": 0, "finish_reason": None}] for delta in deltas
    ]
    choices.append([{"delta": {}, "index": 0, "finish_reason": "stop"}])
    fixed = {"id": "chatcmpl-demo", "object": "chat.completion.chunk", "created": 0, "model": MODEL}
    chunks: list[dict[str, Any]] = [{"choices": choice, **fixed} for choice in choices]
    words = len(deltas) - 1
    usage = {"prompt_tokens": 9, "completion_tokens": words, "total_tokens": 9 + words}
    chunks.append({"choices": [], "usage": usage, **fixed})
    return (*(b"data: %b\n\n" % orjson.dumps(chunk) for chunk in chunks), b"data: [DONE]\n\n")


def network_pieces(events: Sequence[bytes]) -> tuple[Read, ...]:
    """The events as a network delivers them: as many pieces, cut at other places, each timed."""
    body = b"".join(events)
    ends = accumulate(map(len, events[:-1]))
    cuts = [0, *(end + _overlap_size(event) for end, event in zip(ends, events[1:], strict=True))]
    times = accumulate([_FIRST, *map(_gap_seconds, range(1, len(events)))])
    spans = pairwise([*cuts, len(body)])
    return tuple(Read(at, body[begin:end]) for at, (begin, end) in zip(times, spans, strict=True))


def _overlap_size(event: bytes) -> int:
    """How many bytes of this event come with the piece before it."""
    beyond_ascii = re.search(rb"[\x80-\xff]", event)
    if beyond_ascii is not None:  # the middle of a character
        return beyond_ascii.start() + 1
    return _seeded_byte(event) % (len(event) // 2)


def _gap_seconds(number: int) -> float:
    share = _seeded_byte(b"gap %d" % number) / 255
    return _SHORTEST + (_LONGEST - _SHORTEST) * share * share


def _seeded_byte(data: bytes) -> int:
    """0 to 255, the same in every run."""
    return hashlib.sha256(data).digest()[0]


async def _serve_connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, planned: Sequence[Read]
) -> None:
    try:
        with suppress(ConnectionError, asyncio.IncompleteReadError):  # whoever asked has gone
            await _write_response(reader, writer, planned)
    finally:
        writer.close()


async def _write_response(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, planned: Sequence[Read]
) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    await reader.readexactly(int(length[1]) if length else 0)
    loop = asyncio.get_running_loop()
    number = loop.time()
    writer.write(_HEAD)
    for piece in planned:
        await asyncio.sleep(number + piece.at_ms / 1000 - loop.time())
        writer.write(b"%x\r\n%b\r\n" % (len(piece.data), piece.data))
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
