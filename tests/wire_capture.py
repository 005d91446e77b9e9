"""A client that keeps every byte of a response, and knows how the connection ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from llm_proxy.exchange import Headers, Request

Ended = Literal["fin", "rst", "open"]

LAST_CHUNK: Final = b"0\r\n\r\n"


def framed(piece: bytes) -> bytes:
    """A chunk as HTTP writes it."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


@dataclass
class Wire:
    """What came over one connection on which one request was sent, with `Connection: close`."""

    data: bytes = b""
    """All of it."""
    ended: Ended = "open"
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    """As the socket gave them, with ms since the request was sent."""
    ended_at: float = 0.0
    """ms."""

    @property
    def head(self) -> bytes:
        """The head, without the empty line; empty where none came."""
        return self.data.partition(b"\r\n\r\n")[0]

    @property
    def after(self) -> bytes:
        """Everything behind the head."""
        return self.data.partition(b"\r\n\r\n")[2]

    @property
    def status(self) -> int:
        """0 where no head came."""
        return int(self.head.split(b" ", 2)[1]) if self.head else 0

    @property
    def headers(self) -> Headers:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines)
        return tuple((name.lower(), value.strip()) for name, _, value in pairs)

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)

    @property
    def is_chunked(self) -> bool:
        return self.header("transfer-encoding") == "chunked"

    @property
    def chunks(self) -> list[bytes]:
        """The whole chunks of the body; all of it where it is not chunked."""
        if not self.is_chunked:
            return [self.after]
        return _chunks(self.after)[0]

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def is_clean(self) -> bool:
        """Whether the body ended as HTTP has it, and nothing came behind."""
        if self.ended != "fin" or not self.head:
            return False
        if self.is_chunked:
            chunks, rest = _chunks(self.after)
            return rest == b"" and self.after == b"".join(map(framed, chunks)) + LAST_CHUNK
        declared = self.header("content-length")
        return declared is None or int(declared) == len(self.after)


def _chunks(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole chunks before the last one, and what is left that is none."""
    found: list[bytes] = []
    while True:
        size, line, rest = data.partition(b"\r\n")
        try:
            length = int(size, 16) if line else -1
        except ValueError:
            return found, data
        if length < 0 or len(rest) < length + 2:
            return found, data
        if length == 0:
            return found, rest[2:]
        found.append(rest[:length])
        data = rest[length + 2 :]


class _Client(asyncio.Protocol):
    def __init__(self, sent: bytes) -> None:
        self._sent = sent
        self._loop = asyncio.get_running_loop()
        self._began = 0.0
        self.over: asyncio.Future[None] = self._loop.create_future()
        self.wire = Wire()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._began = self._loop.time()
        transport.write(self._sent)

    def _at(self) -> float:
        return (self._loop.time() - self._began) * 1000

    def data_received(self, data: bytes) -> None:
        self.wire.data += data
        self.wire.pieces.append((self._at(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.wire.ended = "rst" if isinstance(exc, ConnectionResetError) else "fin"
        self.wire.ended_at = self._at()
        if not self.over.done():
            self.over.set_result(None)


async def wire(url: str, request: Request, *headers: tuple[str, str], within: float = 20.0) -> Wire:
    """Ask, and keep what comes until the connection ends, or `within` seconds are over."""
    parts = urlsplit(url)
    sent = (
        f"{request.method} {request.request_target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Connection: close",
        f"Content-Length: {len(request.body)}",
        *(f"{name}: {value}" for name, value in (*request.headers, *headers)),
        "\r\n",
    )
    data = "\r\n".join(sent).encode("latin-1") + request.body
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_connection(
        lambda: _Client(data), parts.hostname or "", parts.port or 80
    )
    try:
        await asyncio.wait([client.over], timeout=within)
    finally:
        transport.abort()
    return client.wire
