"""Writes one response to the client's socket, byte for byte.

aiohttp parses requests and keeps the connection; the bytes of a response are written here, so
that heads, chunks, closes and resets are exactly what was asked for.  `ResponseWriter` takes the
place of a `StreamResponse`: aiohttp calls `prepare` and `write_eof` on what a handler returns, and
reads `keep_alive`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from aiohttp import HttpVersion11, web

from llm_proxy import http_heads
from llm_proxy.exchange import ResponseHead

_RESET: Final = struct.pack("ii", 1, 0)
_UNSENT: Final = 0x5411
"""SIOCOUTQ: bytes that the peer has not acknowledged (Linux)."""
_PATIENCE: Final = 60.0
"""Seconds that a reset waits for a client that reads nothing of what was sent before it."""
_DEAF: Final = 120.0
"""Seconds after which a client that takes not one byte is let go."""
_LOOKS: Final = 8
"""How often we look within that time whether it took something."""
_LONGEST_PAUSE: Final = 0.05


class ResponseWriter(web.StreamResponse):
    """The response to one request."""

    def __init__(self, request: web.BaseRequest) -> None:
        super().__init__()
        self._request = request
        self._unwritten = bytearray()
        self._head: ResponseHead | None = None
        self._chunked = False
        self._ends_by_close = False
        self._remaining_length: int | None = None
        self._closes_connection = not request.keep_alive
        self._is_finished = False
        self.sent_bytes = 0
        """Body bytes handed over so far."""
        self.was_aborted = False
        """Whether the response was broken off."""
        self.closing_note = ""
        """Why we gave up on the client, if we did."""

    @property
    def is_started(self) -> bool:
        """Whether a head went out."""
        return self._head is not None

    @property
    def head(self) -> ResponseHead | None:
        """The head that went out; None where none did."""
        return self._head

    def close_afterwards(self) -> None:
        """Serve no further request on this connection."""
        self._closes_connection = True

    def send_head(self, head: ResponseHead) -> None:
        """Send the head.  Raises `ValueError` for one that could forge another response."""
        version11 = self._request.version >= HttpVersion11
        lines = http_heads.head_lines(head)
        match head.framing:
            case "chunked" if version11:
                self._chunked = True
                lines.append("Transfer-Encoding: chunked")
            case "length":
                self._remaining_length = head.length or 0
                lines.append(f"Content-Length: {self._remaining_length}")
            case "none":
                if head.length is not None and head.status not in {204, 304}:
                    lines.append(f"Content-Length: {head.length}")
            case _:
                self._closes_connection = self._ends_by_close = True
        if self._closes_connection:
            lines.append("Connection: close")
        elif not version11:
            lines.append("Connection: keep-alive")
        self._head = head
        self._unwritten += "\r\n".join([*lines, "", ""]).encode("latin-1")

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send pieces of the body, each as one HTTP chunk where the head says chunked."""
        size = sum(map(len, pieces))
        self.sent_bytes += size
        if self._chunked:
            self._unwritten += b"".join([b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces])
            return
        self._unwritten += b"".join(pieces)
        if self._remaining_length is not None:
            self._remaining_length -= size

    def send_raw(self, data: bytes) -> None:
        """Send bytes past the framing; none where the client's HTTP has no such framing."""
        if self._head is None or self._chunked or self._head.framing != "chunked":
            self._unwritten += data

    async def flush_if_larger(self, size: int) -> None:
        """`flush` if that many bytes wait for it."""
        if len(self._unwritten) >= size:
            await self.flush()

    async def flush(self) -> None:
        """Hand everything over, and wait while the client is behind.

        Raises `ConnectionError` when the client has gone, or takes nothing any more.
        """
        if self._unwritten:
            transport = self._request.transport
            if transport is None or transport.is_closing():
                raise ConnectionResetError("the client has gone")
            transport.write(bytes(self._unwritten))
            self._unwritten.clear()
        if self._request.protocol.writing_paused:
            await self._wait_for_drain()

    async def _wait_for_drain(self) -> None:
        """Wait while the client is behind, as long as it takes anything at all.

        aiohttp's `drain` must not be cancelled while the connection lives: the next one would
        find the cancelled future.  So it is a task, and it is watched.
        """
        draining = asyncio.ensure_future(self._request.writer.drain())
        transport = self._request.transport
        try:
            if transport is not None and not await _client_reads_on(transport, draining):
                self.closing_note = f"the client took nothing for {_DEAF:g} s"
                _reset_connection(transport)
                raise ConnectionResetError(self.closing_note)
            await draining
        finally:
            draining.cancel()

    async def send_end(self) -> None:
        """End the body as its framing says."""
        if self._chunked:
            self._unwritten += b"0\r\n\r\n"
        await self.flush()
        self._is_finished = True
        if self._remaining_length:  # shorter than declared: only a close can say so
            self._closes_connection = True
        # Closed over a request that is still arriving, this answer would be lost to a reset:
        # aiohttp reads on for a while, and closes then.
        unread = not self._request.content.is_eof()
        if self._closes_connection and not unread and self._request.transport is not None:
            self._request.transport.close()

    async def send_response(self, head: ResponseHead, body: bytes) -> None:
        """Send a whole answer of our own; to HEAD, what it would have been without its body."""
        bodiless = self._request.method == "HEAD"
        self.send_head(replace(head, framing="none" if bodiless else "length", length=len(body)))
        if not bodiless:
            self.send([body])
        await self.send_end()

    async def abort(self, how: Literal["fin", "rst"]) -> None:
        """Break off after what was sent: by closing, or with a real reset.

        Where closing is how the body ends, only a reset can say that it was cut.
        """
        await self.flush()
        self._is_finished = self._closes_connection = self.was_aborted = True
        transport = self._request.transport
        if transport is None:
            return
        if how == "fin" and not self._ends_by_close:
            transport.close()
            return
        await _wait_until_delivered(transport, transport.get_extra_info("socket"))
        if not transport.is_closing():
            _reset_connection(transport)

    @property
    def keep_alive(self) -> bool:
        """Whether the connection may serve another request."""
        return self._is_finished and not self._closes_connection

    async def prepare(self, request: web.BaseRequest) -> None:
        """Nothing is left to prepare."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to write."""


def _reset_connection(transport: asyncio.WriteTransport) -> None:
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()


async def _client_reads_on(
    transport: asyncio.WriteTransport, draining: asyncio.Future[None]
) -> bool:
    """Wait for `draining`; gives whether the client went on taking something.

    What the peer's kernel took counts as well: ours asks for more in large portions, and a slow
    client needs minutes for one.  Looks are counted, not seconds: however long our event loop
    stands still, it is one look.
    """
    sock = transport.get_extra_info("socket")
    left, in_vain = -1, 0
    while not draining.done():
        still = transport.get_write_buffer_size() + unsent_bytes(sock)
        if still != left:
            left, in_vain = still, 0
        elif in_vain >= _LOOKS:
            return False
        in_vain += 1
        await asyncio.wait([draining], timeout=_DEAF / _LOOKS)
    return True


async def _wait_until_delivered(transport: asyncio.WriteTransport, sock: Any) -> None:
    """Wait until the peer's kernel has what was sent: a reset throws away what is under way.

    A client that reads gets everything, however slow it is.  Pauses are counted as long as they
    are meant to be: what our event loop stands still is not the client's.
    """
    pause, left, waited = 0.001, -1, 0.0
    while not transport.is_closing():
        still = transport.get_write_buffer_size() + unsent_bytes(sock)
        if still != left:
            left, waited = still, 0.0
        if still == 0 or waited > _PATIENCE:
            return
        await asyncio.sleep(pause)
        waited += pause
        pause = min(pause * 2, _LONGEST_PAUSE)


def unsent_bytes(sock: Any) -> int:
    """Bytes written to a socket that the peer's kernel does not have; 0 where nobody can tell."""
    import fcntl  # noqa: PLC0415 # not on every platform

    try:
        answer = fcntl.ioctl(sock.fileno(), _UNSENT, b"\0\0\0\0")
    except OSError:
        return 0
    return int(struct.unpack("i", answer)[0])
