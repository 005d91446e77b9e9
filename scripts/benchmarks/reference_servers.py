"""The servers of the benchmark that are not llm-proxy, each a process of its own.

    python reference_servers.py provider                  streams events that say when they were written
    python reference_servers.py bare URL                  the smallest pass-through that aiohttp allows
    python reference_servers.py deadlines CASSETTE SPEED  the smallest loop that replays at absolute times
    python reference_servers.py plans FILE                the same of times that a file plans, by path
    python reference_servers.py prepared CASSETTE         the smallest server of one body
    python reference_servers.py body FILE                 the same, of the body that this file is

Each prints its port on a line, and runs until it is ended.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from random import Random
from typing import Final

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

from llm_proxy.cassette import Cassette, read_cassette

Plan = list[tuple[float, str]]
"""The head's time in ms, with no text; and of each piece the time, and its bytes as Latin-1."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_PLAN: Final = re.compile(rb"(?i)\r\nx-bench: *(\d+) ([\d.]+) (\d+)")
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_CHUNK: Final = (
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","t":%d,"choices":'
    b'[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
_DONE: Final = b"data: [DONE]\n\n"
_LARGEST: Final = 64 * 1024 * 1024


class Provider(asyncio.Protocol):
    """An upstream that does as little as it can.

    The request's header `x-bench: EVENTS GAP SEED` says how many events it sends, and how many
    ms lie between them on average.  The head goes out with the first event.
    """

    def __init__(self) -> None:
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end == -1:
            return
        head = bytes(self._received[:end])
        length = _LENGTH.search(head)
        size = end + 4 + (int(length[1]) if length else 0)
        plan = _PLAN.search(head)
        if len(self._received) >= size and plan is not None:
            del self._received[:size]
            events, gap, seed = int(plan[1]), float(plan[2]), int(plan[3])
            self._task = asyncio.get_running_loop().create_task(self._stream(events, gap, seed))

    async def _stream(self, events: int, gap: float, seed: int) -> None:
        transport, loop, chance = self._transport, asyncio.get_running_loop(), Random(seed)
        assert transport is not None
        due = loop.time()
        for number in range(events):
            event = _CHUNK % time.monotonic_ns()
            transport.write((b"" if number else _HEAD) + b"%x\r\n%b\r\n" % (len(event), event))
            due += gap * chance.uniform(0.5, 1.5) / 1000
            await asyncio.sleep(max(0.0, due - loop.time()))
        transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(_DONE), _DONE))


async def provider() -> int:
    """Start an upstream; gives its port."""
    server = await asyncio.get_running_loop().create_server(Provider, "127.0.0.1", 0, backlog=1024)
    return int(server.sockets[0].getsockname()[1])


async def bare(url: str) -> int:
    """Start a pass-through; gives its port."""
    session = ClientSession(
        connector=TCPConnector(limit=0),
        timeout=ClientTimeout(total=None),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
    )

    async def pass_on(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        named = {"host", "content-length"}
        headers = [(name, it) for name, it in request.headers.items() if name.lower() not in named]
        asked = session.request(request.method, url + request.path_qs, headers=headers, data=body)
        async with asked as live:
            answer = web.StreamResponse(status=live.status)
            answer.content_type = live.content_type
            await answer.prepare(request)
            async for data in live.content.iter_any():
                await answer.write(data)
            await answer.write_eof()
            return answer

    return await _serve(pass_on)


async def deadlines(cassette: Cassette, speed: float) -> int:
    """Start a server that writes each read at its recorded time; gives its port."""

    async def play(request: web.Request) -> web.StreamResponse:
        await request.read()
        loop = asyncio.get_running_loop()
        start = loop.time()
        answer = web.StreamResponse()
        answer.enable_chunked_encoding()
        await asyncio.sleep(start + cassette.head_at_ms / speed / 1000 - loop.time())
        await answer.prepare(request)
        for read in cassette.reads:
            await asyncio.sleep(start + read.at_ms / speed / 1000 - loop.time())
            await answer.write(read.data)
        await answer.write_eof()
        return answer

    return await _serve(play)


async def plans(by_path: Mapping[str, Plan]) -> int:
    """Start a server that writes each piece at its planned time; gives its port."""

    async def play(request: web.Request) -> web.StreamResponse:
        await request.read()
        loop = asyncio.get_running_loop()
        start = loop.time()
        head, *pieces = by_path[request.path]
        answer = web.StreamResponse()
        answer.enable_chunked_encoding()
        await asyncio.sleep(start + head[0] / 1000 - loop.time())
        await answer.prepare(request)
        for due, text in pieces:
            if (early := start + due / 1000 - loop.time()) > 0:
                await asyncio.sleep(early)
            await answer.write(text.encode("latin-1"))
        await answer.write_eof()
        return answer

    return await _serve(play)


async def prepared(body: bytes) -> int:
    """Start a server that answers with the whole body; gives its port."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response(body=body, content_type="text/event-stream")

    return await _serve(answer)


async def _serve(handler: Handler) -> int:
    app = web.Application(client_max_size=_LARGEST)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    return int(runner.addresses[0][1])


async def main(kind: str, *arguments: str) -> None:
    """Start the server of that kind, and stay."""
    match kind, *arguments:
        case ["provider"]:
            port = await provider()
        case ["bare", url]:
            port = await bare(url)
        case ["deadlines", path, speed]:
            port = await deadlines(_cassette(path), float(speed))
        case ["plans", path]:
            port = await plans(json.loads(await asyncio.to_thread(Path(path).read_bytes)))
        case ["prepared", path]:
            port = await prepared(_cassette(path).body)
        case ["body", path]:
            port = await prepared(await asyncio.to_thread(Path(path).read_bytes))
        case _:
            sys.exit(__doc__)
    print(port, flush=True)
    await asyncio.Event().wait()


def _cassette(path: str) -> Cassette:
    return read_cassette(path, Path(path).read_bytes())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
