"""The servers that llm-proxy is compared with, each run as a process.

    python reference_servers.py provider                  streams events with their write times
    python reference_servers.py bare URL                  a minimal aiohttp pass-through
    python reference_servers.py plans FILE                a minimal loop of absolute deadlines
    python reference_servers.py body FILE                 a minimal server of one body

Each prints its port on a line, and runs until it is terminated.
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

Plan = list[tuple[float, str]]
"""The due time of the head in ms, with an empty string; then the due time of each chunk, and its
bytes as Latin-1."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_CONTENT_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_STREAM_HEADER: Final = re.compile(rb"(?i)\r\nx-bench: *(\d+) ([\d.]+) (\d+)")
_RESPONSE_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_EVENT_TEMPLATE: Final = (
    b'data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","t":%d,"choices":'
    b'[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
)
_LAST_EVENT: Final = b"data: [DONE]\n\n"
_MAX_BODY_SIZE: Final = 64 * 1024 * 1024


class FakeProvider(asyncio.Protocol):
    """A minimal upstream.

    The request's header `x-bench: EVENTS GAP SEED` has the number of events, and the average time
    between them in ms.  The head is sent with the first event.
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
        head_end = self._received.find(b"\r\n\r\n")
        if head_end == -1:
            return
        head = bytes(self._received[:head_end])
        content_length = _CONTENT_LENGTH.search(head)
        size = head_end + 4 + (int(content_length[1]) if content_length else 0)
        stream_header = _STREAM_HEADER.search(head)
        if len(self._received) >= size and stream_header is not None:
            del self._received[:size]
            event_count, gap_ms, seed = stream_header.groups()
            stream = self._stream(int(event_count), float(gap_ms), int(seed))
            self._task = asyncio.get_running_loop().create_task(stream)

    async def _stream(self, event_count: int, gap_ms: float, seed: int) -> None:
        transport, loop, rng = self._transport, asyncio.get_running_loop(), Random(seed)
        assert transport is not None
        due = loop.time()
        for number in range(event_count):
            event = _EVENT_TEMPLATE % time.monotonic_ns()
            transport.write(
                (b"" if number else _RESPONSE_HEAD) + b"%x\r\n%b\r\n" % (len(event), event)
            )
            due += gap_ms * rng.uniform(0.5, 1.5) / 1000
            await asyncio.sleep(max(0.0, due - loop.time()))
        transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(_LAST_EVENT), _LAST_EVENT))


async def start_provider() -> int:
    """Start an upstream; returns its port."""
    server = await asyncio.get_running_loop().create_server(
        FakeProvider, "127.0.0.1", 0, backlog=1024
    )
    return int(server.sockets[0].getsockname()[1])


async def start_pass_through(url: str) -> int:
    """Start a pass-through; returns its port."""
    session = ClientSession(
        connector=TCPConnector(limit=0),
        timeout=ClientTimeout(total=None),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
    )

    async def forward(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = [
            (name, value)
            for name, value in request.headers.items()
            if name.lower() not in {"host", "content-length"}
        ]
        async with session.request(
            request.method, url + request.path_qs, headers=headers, data=body
        ) as upstream_response:
            response = web.StreamResponse(status=upstream_response.status)
            response.content_type = upstream_response.content_type
            await response.prepare(request)
            async for data in upstream_response.content.iter_any():
                await response.write(data)
            await response.write_eof()
            return response

    return await _start_http_server(forward)


async def start_planned_replay(plans_by_path: Mapping[str, Plan]) -> int:
    """Start a server that writes each chunk at its planned time; returns its port."""

    async def play(request: web.Request) -> web.StreamResponse:
        await request.read()
        loop = asyncio.get_running_loop()
        start = loop.time()
        head, *chunks = plans_by_path[request.path]
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await asyncio.sleep(start + head[0] / 1000 - loop.time())
        await response.prepare(request)
        for due_ms, text in chunks:
            if (delay_s := start + due_ms / 1000 - loop.time()) > 0:
                await asyncio.sleep(delay_s)
            await response.write(text.encode("latin-1"))
        await response.write_eof()
        return response

    return await _start_http_server(play)


async def start_body_server(body: bytes) -> int:
    """Start a server that responds with this body; returns its port."""

    async def respond(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response(body=body, content_type="text/event-stream")

    return await _start_http_server(respond)


async def _start_http_server(handler: Handler) -> int:
    app = web.Application(client_max_size=_MAX_BODY_SIZE)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    return int(runner.addresses[0][1])


async def main(kind: str, *arguments: str) -> None:
    """Start a server of this kind, and run until terminated."""
    match kind, *arguments:
        case ["provider"]:
            port = await start_provider()
        case ["bare", url]:
            port = await start_pass_through(url)
        case ["plans", path]:
            port = await start_planned_replay(
                json.loads(await asyncio.to_thread(Path(path).read_bytes))
            )
        case ["body", path]:
            port = await start_body_server(await asyncio.to_thread(Path(path).read_bytes))
        case _:
            sys.exit(__doc__)
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
