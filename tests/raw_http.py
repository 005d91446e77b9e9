"""A client that sees the bytes of a response as they are on the wire, with their times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

HOW = Literal["clean", "fin", "rst"]


@dataclass
class Raw:
    """A response, taken apart no further than its framing."""

    status: int = 0
    reason: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    """HTTP chunks where the response is chunked, else pieces as they were read."""
    times: list[float] = field(default_factory=list)
    """ms from the moment the request was sent to each of `chunks`."""
    head_at: float = 0.0
    """The same of the head."""
    how: HOW = "clean"
    """`clean` when the framing's end came; else how the connection ended before it."""

    @property
    def body(self) -> bytes:
        """All of the body that came."""
        return b"".join(self.chunks)

    def header(self, name: str) -> str | None:
        """The first header of that name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


def post(path: str, body: bytes, *headers: str, method: str = "POST") -> bytes:
    """A request; without a `Host` it gets one when it is sent."""
    lines = [f"{method} {path} HTTP/1.1", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


async def ask(url: str, request: bytes, within: float = 20.0) -> Raw:
    """Send a request on a connection of its own, and read the answer to its end."""
    parts = urlsplit(url)
    if b"\nhost:" not in request.lower():
        line, _, rest = request.partition(b"\r\n")
        request = line + b"\r\nHost: " + parts.netloc.encode() + b"\r\n" + rest
    async with asyncio.timeout(within):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=2**26)
        sent = asyncio.get_running_loop().time()  # before the server can have read it
        writer.write(request)
        await writer.drain()
        try:
            return await _response(reader, sent, bodiless=request.startswith(b"HEAD "))
        finally:
            writer.close()


async def _response(reader: asyncio.StreamReader, start: float, *, bodiless: bool) -> Raw:
    loop = asyncio.get_running_loop()
    raw = Raw()

    def now() -> float:
        return (loop.time() - start) * 1000

    try:
        head = await reader.readuntil(b"\r\n\r\n")
        raw.head_at = now()
        line, *fields = head.decode("latin-1").split("\r\n")
        _, status, raw.reason = line.split(" ", 2)
        raw.status = int(status)
        pairs = (item.partition(":") for item in fields if item)
        raw.headers = [(name, value.strip()) for name, _, value in pairs]
        if not bodiless and raw.status not in {204, 304}:
            await _body(reader, raw, now)
    except ConnectionResetError:
        raw.how = "rst"
    except (asyncio.IncompleteReadError, ValueError):
        raw.how = "fin"
    return raw


async def _body(reader: asyncio.StreamReader, raw: Raw, now: Callable[[], float]) -> None:
    if raw.header("transfer-encoding") == "chunked":
        while size := int(await reader.readuntil(b"\r\n"), 16):
            raw.chunks.append((await reader.readexactly(size + 2))[:-2])
            raw.times.append(now())
        await reader.readexactly(2)
        return
    declared = raw.header("content-length")
    left = int(declared) if declared is not None else None
    while left is None or left > 0:
        piece = await reader.read(65536 if left is None else min(left, 65536))
        if not piece:
            raw.how = "clean" if left is None else "fin"
            return
        raw.chunks.append(piece)
        raw.times.append(now())
        left = None if left is None else left - len(piece)


@dataclass
class Line:
    """A connection that several requests may go over, as bytes that the test chooses."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: bytes
    """Stands in for `HOST` in what is sent."""
    within: float = 5.0
    """Seconds that a wait may take."""

    async def send(self, data: bytes) -> None:
        """Send these bytes and nothing else."""
        self.writer.write(data.replace(b"HOST", self.host))
        await self.writer.drain()

    async def answer(self, *, bodiless: bool = False) -> Raw:
        """Read one answer to its end; `bodiless` for one to HEAD."""
        async with asyncio.timeout(self.within):
            begun = asyncio.get_running_loop().time()
            return await _response(self.reader, begun, bodiless=bodiless)

    async def rest(self) -> bytes:
        """Everything until the connection is closed; a reset is an error."""
        async with asyncio.timeout(self.within):
            return await self.reader.read()


@asynccontextmanager
async def line(url: str, within: float = 5.0) -> AsyncIterator[Line]:
    """A connection to `url`."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=2**26)
    try:
        yield Line(reader, writer, parts.netloc.encode(), within)
    finally:
        writer.close()
