"""An HTTP client that exposes a response's bytes as they are on the wire, with their times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

ConnectionEnd = Literal["clean", "fin", "rst"]


@dataclass
class RawResponse:
    """A response, parsed no further than its framing."""

    status: int = 0
    reason: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    """HTTP chunks if the response is chunked, else pieces as they were read."""
    times_ms: list[float] = field(default_factory=list)
    """Milliseconds from sending the request to each of `chunks`."""
    head_ms: float = 0.0
    """Milliseconds from sending the request to the head."""
    ending: ConnectionEnd = "clean"
    """`clean` if the framing was complete; else how the connection ended before that."""

    @property
    def body(self) -> bytes:
        """All of the body that was received."""
        return b"".join(self.chunks)

    def header(self, name: str) -> str | None:
        """Return the first header of that name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


def build_http_request(path: str, body: bytes, *headers: str, method: str = "POST") -> bytes:
    """Build a request; `send_request` adds a `Host` header if there is none."""
    lines = [f"{method} {path} HTTP/1.1", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


async def send_request(url: str, request: bytes, timeout_s: float = 20.0) -> RawResponse:
    """Send a request on a new connection, and read the response to its end."""
    parts = urlsplit(url)
    if b"\nhost:" not in request.lower():
        request_line, _, rest = request.partition(b"\r\n")
        request = request_line + b"\r\nHost: " + parts.netloc.encode() + b"\r\n" + rest
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=2**26)
        sent_at = asyncio.get_running_loop().time()  # before the server can read it
        writer.write(request)
        await writer.drain()
        try:
            return await _read_response(reader, sent_at, bodiless=request.startswith(b"HEAD "))
        finally:
            writer.close()


async def _read_response(
    reader: asyncio.StreamReader, started_at: float, *, bodiless: bool
) -> RawResponse:
    loop = asyncio.get_running_loop()
    response = RawResponse()

    def elapsed_ms() -> float:
        return (loop.time() - started_at) * 1000

    try:
        head = await reader.readuntil(b"\r\n\r\n")
        response.head_ms = elapsed_ms()
        status_line, *header_lines = head.decode("latin-1").split("\r\n")
        _, status, response.reason = status_line.split(" ", 2)
        response.status = int(status)
        pairs = (item.partition(":") for item in header_lines if item)
        response.headers = [(name, value.strip()) for name, _, value in pairs]
        if not bodiless and response.status not in {204, 304}:
            await _read_body(reader, response, elapsed_ms)
    except ConnectionResetError:
        response.ending = "rst"
    except (asyncio.IncompleteReadError, ValueError):
        response.ending = "fin"
    return response


async def _read_body(
    reader: asyncio.StreamReader, response: RawResponse, elapsed_ms: Callable[[], float]
) -> None:
    if response.header("transfer-encoding") == "chunked":
        while size := int(await reader.readuntil(b"\r\n"), 16):
            response.chunks.append((await reader.readexactly(size + 2))[:-2])
            response.times_ms.append(elapsed_ms())
        await reader.readexactly(2)
        return
    declared = response.header("content-length")
    bytes_left = int(declared) if declared is not None else None
    while bytes_left is None or bytes_left > 0:
        piece = await reader.read(65536 if bytes_left is None else min(bytes_left, 65536))
        if not piece:
            response.ending = "clean" if bytes_left is None else "fin"
            return
        response.chunks.append(piece)
        response.times_ms.append(elapsed_ms())
        bytes_left = None if bytes_left is None else bytes_left - len(piece)


@dataclass
class RawConnection:
    """A persistent connection over which a test sends arbitrary bytes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: bytes
    """Replaces `HOST` in sent data."""
    timeout_s: float = 5.0
    """Time limit in seconds of each wait."""

    async def send(self, data: bytes) -> None:
        """Send exactly these bytes, with `HOST` replaced."""
        self.writer.write(data.replace(b"HOST", self.host))
        await self.writer.drain()

    async def read_response(self, *, bodiless: bool = False) -> RawResponse:
        """Read one response to its end; `bodiless` for a response to HEAD."""
        async with asyncio.timeout(self.timeout_s):
            started_at = asyncio.get_running_loop().time()
            return await _read_response(self.reader, started_at, bodiless=bodiless)

    async def read_until_closed(self) -> bytes:
        """Read everything until the connection is closed; a reset is an error."""
        async with asyncio.timeout(self.timeout_s):
            return await self.reader.read()


@asynccontextmanager
async def open_line(url: str, timeout_s: float = 5.0) -> AsyncIterator[RawConnection]:
    """Open a connection to `url`."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=2**26)
    try:
        yield RawConnection(reader, writer, parts.netloc.encode(), timeout_s)
    finally:
        writer.close()
