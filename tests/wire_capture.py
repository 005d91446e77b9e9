"""A client that captures every byte of a response, and how the connection ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from llm_proxy.exchange import Headers, Request

ConnectionEnd = Literal["fin", "rst", "open"]

LAST_CHUNK: Final = b"0\r\n\r\n"


def encode_chunk(piece: bytes) -> bytes:
    """Encode an HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


@dataclass
class WireCapture:
    """All data received for one request that was sent with `Connection: close`."""

    data: bytes = b""
    """All received bytes."""
    ending: ConnectionEnd = "open"
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    """Pieces as read from the socket, each with milliseconds since the request was sent."""
    ended_at: float = 0.0
    """Milliseconds since the request was sent."""

    @property
    def head(self) -> bytes:
        """The head, without the empty line; empty if none was received."""
        return self.data.partition(b"\r\n\r\n")[0]

    @property
    def after_head(self) -> bytes:
        """Everything after the head."""
        return self.data.partition(b"\r\n\r\n")[2]

    @property
    def status(self) -> int:
        """The status code; 0 if no head was received."""
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
        """The complete chunks of the body; the whole body as one item if it is not chunked."""
        if not self.is_chunked:
            return [self.after_head]
        return _parse_chunks(self.after_head)[0]

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def is_clean(self) -> bool:
        """Whether the body ended according to its framing, with no data after it."""
        if self.ending != "fin" or not self.head:
            return False
        if self.is_chunked:
            chunks, rest = _parse_chunks(self.after_head)
            return (
                rest == b"" and self.after_head == b"".join(map(encode_chunk, chunks)) + LAST_CHUNK
            )
        declared = self.header("content-length")
        return declared is None or int(declared) == len(self.after_head)


def _parse_chunks(data: bytes) -> tuple[list[bytes], bytes]:
    """Parse the complete chunks before the last one, and return them with the remaining data."""
    chunks: list[bytes] = []
    while True:
        size, line, rest = data.partition(b"\r\n")
        try:
            length = int(size, 16) if line else -1
        except ValueError:
            return chunks, data
        if length < 0 or len(rest) < length + 2:
            return chunks, data
        if length == 0:
            return chunks, rest[2:]
        chunks.append(rest[:length])
        data = rest[length + 2 :]


class _Client(asyncio.Protocol):
    def __init__(self, request_bytes: bytes) -> None:
        self._request_bytes = request_bytes
        self._loop = asyncio.get_running_loop()
        self._started_at = 0.0
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.capture = WireCapture()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._started_at = self._loop.time()
        transport.write(self._request_bytes)

    def _elapsed_ms(self) -> float:
        return (self._loop.time() - self._started_at) * 1000

    def data_received(self, data: bytes) -> None:
        self.capture.data += data
        self.capture.pieces.append((self._elapsed_ms(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.capture.ending = "rst" if isinstance(exc, ConnectionResetError) else "fin"
        self.capture.ended_at = self._elapsed_ms()
        if not self.closed.done():
            self.closed.set_result(None)


async def capture_response(
    url: str, request: Request, *headers: tuple[str, str], timeout_s: float = 20.0
) -> WireCapture:
    """Send a request; capture until the connection ends or `timeout_s` is over."""
    parts = urlsplit(url)
    head_lines = (
        f"{request.method} {request.request_target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Connection: close",
        f"Content-Length: {len(request.body)}",
        *(f"{name}: {value}" for name, value in (*request.headers, *headers)),
        "\r\n",
    )
    request_bytes = "\r\n".join(head_lines).encode("latin-1") + request.body
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_connection(
        lambda: _Client(request_bytes), parts.hostname or "", parts.port or 80
    )
    try:
        await asyncio.wait([client.closed], timeout=timeout_s)
    finally:
        transport.abort()
    return client.capture
