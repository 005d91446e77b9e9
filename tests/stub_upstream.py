"""An upstream whose socket operations a test controls exactly."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from llm_proxy.shell.server.response_writer import unacknowledged_byte_count
from waiting import wait_until

Script = Callable[["Connection"], Awaitable[None]]
"""Responds to a request that has been read in full."""


@dataclass
class Connection:
    """One client connection of the upstream, and its current request."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: bytes = b""
    """The request's head, as received."""
    body: bytes = b""
    number: int = 0
    """The request's number among all requests to the upstream, from 1."""

    async def send(self, data: bytes) -> None:
        """Write and drain."""
        self.writer.write(data)
        await self.writer.drain()

    async def chunk(self, data: bytes) -> None:
        """Write one HTTP chunk."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def begin(
        self, *headers: str, status: str = "200 OK", content_type: str = "text/event-stream"
    ) -> None:
        """Write a head; the body is chunked unless `headers` delimit it otherwise."""
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", *headers]
        header_text = " ".join(headers).lower()
        if not any(
            item in header_text for item in ("content-length", "transfer-encoding", "connection")
        ):
            lines.append("Transfer-Encoding: chunked")
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def finish(self) -> None:
        """Write the last chunk."""
        await self.send(b"0\r\n\r\n")

    def fin(self) -> None:
        """Close the connection."""
        self.writer.close()

    async def rst(self) -> None:
        """Reset the connection, after the peer's kernel has received all sent data."""
        await reset(self.writer)


@dataclass
class Upstream:
    """A running stub: its URL, and the requests that it received."""

    url: str
    requests: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Head and body of each request, in order."""
    connections: int = 0


async def reset(writer: asyncio.StreamWriter) -> None:
    """Reset a connection once the peer's kernel has received all sent data."""
    sock, transport = writer.get_extra_info("socket"), writer.transport
    await wait_until(
        lambda: (
            transport.is_closing()
            or not (transport.get_write_buffer_size() or unacknowledged_byte_count(sock))
        )
    )
    if transport.is_closing():
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


@asynccontextmanager
async def upstream(*scripts: Script) -> AsyncIterator[Upstream]:
    """Run an upstream: the nth script serves the nth request, the last one all further requests."""
    stub = Upstream("")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        stub.connections += 1
        try:
            await _serve_requests(stub, scripts, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # asyncio's own callback would log an error for a cancelled task
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**26)
    stub.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield stub
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _serve_requests(
    stub: Upstream,
    scripts: tuple[Script, ...],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    while (request := await _read_request(reader)) is not None:
        stub.requests.append(request)
        number = len(stub.requests)
        connection = Connection(reader, writer, *request, number)
        await scripts[min(number, len(scripts)) - 1](connection)
        if writer.is_closing():
            return


async def _read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes] | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            length = int(value)
    return head, await reader.readexactly(length)


def chunked(pieces: Iterable[bytes], gap: float = 0.0) -> Script:
    """A script that streams these pieces as HTTP chunks, `gap` seconds apart."""

    async def script(connection: Connection) -> None:
        await connection.begin()
        for piece in pieces:
            if gap:
                await asyncio.sleep(gap)
            await connection.chunk(piece)
        await connection.finish()

    return script


def fixed_length(
    body: bytes, content_type: str = "application/json", status: str = "200 OK"
) -> Script:
    """A script that responds with one body of declared length."""

    async def script(connection: Connection) -> None:
        await connection.begin(
            f"Content-Length: {len(body)}", status=status, content_type=content_type
        )
        await connection.send(body)

    return script
