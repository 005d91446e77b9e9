"""Writes one response to the client's socket, byte for byte and on time.

aiohttp parses requests and owns the connection; the bytes of a response are written here, so
that heads, chunks, closes and resets are exactly as the actions require.  `ResponseWriter`
replaces aiohttp's `StreamResponse`: aiohttp calls `prepare` and `write_eof` on what a handler
returns, and reads `keep_alive`.  `perform_actions` performs actions on it at their due times,
and `send_error` sends an error in the dialect's own error shape.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, Final, Literal

from aiohttp import HttpVersion11, web

from llm_proxy.actions import Abort, ActionSource, Begin, Burst, Send, SendRaw, Wait
from llm_proxy.dialects import Dialect
from llm_proxy.errors import (
    CassetteError,
    CassetteTooNew,
    LateRequest,
    LlmProxyError,
    Miss,
    NotRepresentable,
    RequestRefused,
    RespondFunctionFailed,
    ScriptExhausted,
    UpstreamFailed,
)
from llm_proxy.exchange import Framing, Headers, ResponseHead, head_lines
from llm_proxy.routing import ERROR_HEADER, RoutedRequest
from llm_proxy.session_documents import MAX_BODY_BYTES

_ZERO_LINGER: Final = struct.pack("ii", 1, 0)
_SIOCOUTQ: Final = 0x5411
"""ioctl request for the number of bytes that the peer has not acknowledged (Linux)."""
_DELIVERY_TIMEOUT_S: Final = 60.0
"""Seconds that a reset waits for a client that does not read what was sent before it."""
_DRAIN_TIMEOUT_S: Final = 120.0
"""Seconds without progress after which the connection of a client that is behind is reset."""
_CHECKS_PER_DRAIN_TIMEOUT: Final = 8
"""Checks for progress within that time."""
_MAX_POLL_INTERVAL_S: Final = 0.05
_MAX_COLLECTED_PIECES: Final = 256
"""Maximum number of consecutive pieces that are framed together."""
_ACTIONS_PER_YIELD: Final = 4096
"""Actions after which other tasks get to run."""
_FLUSH_BYTES: Final = 256 * 1024
"""Buffered bytes that are flushed although no wait follows."""
_MISS_STATUS: Final = 424
"""No SDK retries this status, and no client treats it specially."""


class ResponseWriter(web.StreamResponse):
    """The response to one request."""

    def __init__(self, request: web.BaseRequest) -> None:
        super().__init__()
        self._request = request
        self._unwritten = bytearray()
        self.written_head: ResponseHead | None = None
        """The head that was written; None if none was."""
        self._chunked = False
        self._is_close_delimited = False
        self._body_bytes_left: int | None = None
        self._closes_connection = not request.keep_alive
        self._is_finished = False
        self.sent_body_bytes = 0
        """Body bytes passed to this writer so far."""
        self.was_aborted = False
        """Whether the response was cut off by `abort`."""
        self.timed_write_count = 0
        """The number of writes that had a due time."""
        self.total_late_ms = self.worst_late_ms = 0.0
        """By how much they were late."""
        self.captured_body: bytearray | None = None
        """The beginning of the body that was sent, if it is captured."""
        self.close_reason = ""
        """Why the connection was reset when the client stopped reading; empty if it was not."""

    def disable_keep_alive(self) -> None:
        """Close the connection after this response."""
        self._closes_connection = True

    def buffer_head(self, head: ResponseHead) -> None:
        """Add the head to the buffer.  Raises `ValueError` for one that could forge a response."""
        is_http_1_1 = self._request.version >= HttpVersion11
        lines = head_lines(head)
        match head.framing:
            case "chunked" if is_http_1_1:
                self._chunked = True
                lines.append("Transfer-Encoding: chunked")
            case "length":
                self._body_bytes_left = head.content_length or 0
                lines.append(f"Content-Length: {self._body_bytes_left}")
            case "none":
                if head.content_length is not None and head.status not in {204, 304}:
                    lines.append(f"Content-Length: {head.content_length}")
            case _:
                self._closes_connection = self._is_close_delimited = True
        if self._closes_connection:
            lines.append("Connection: close")
        elif not is_http_1_1:
            lines.append("Connection: keep-alive")
        self.written_head = head
        self._unwritten += "\r\n".join([*lines, "", ""]).encode("latin-1")

    def buffer_body(self, pieces: Sequence[bytes]) -> None:
        """Add pieces of the body to the buffer, each as one HTTP chunk if the body is chunked."""
        body_bytes = sum(map(len, pieces))
        self.sent_body_bytes += body_bytes
        if self.captured_body is not None and len(self.captured_body) < MAX_BODY_BYTES:
            self.captured_body += b"".join(pieces)
            del self.captured_body[MAX_BODY_BYTES:]
        if self._chunked:
            self._unwritten += b"".join([b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces])
            return
        self._unwritten += b"".join(pieces)
        if self._body_bytes_left is not None:
            self._body_bytes_left -= body_bytes

    def buffer_raw(self, data: bytes) -> None:
        """Add bytes to the buffer without framing them.

        They are dropped if the head's framing is chunked and the client's HTTP version lacks it.
        """
        if self.written_head is None or self._chunked or self.written_head.framing != "chunked":
            self._unwritten += data

    def capture_body(self) -> None:
        """Keep the beginning of the body, up to `MAX_BODY_BYTES`."""
        self.captured_body = bytearray()

    async def flush_if_larger(self, min_bytes: int) -> None:
        """`flush` if at least `min_bytes` are buffered."""
        if len(self._unwritten) >= min_bytes:
            await self.flush()

    async def flush(self) -> None:
        """Write the buffer to the transport, and wait while the client is behind.

        Raises `ConnectionError` if the client has gone, or has stopped reading.
        """
        if self._unwritten:
            transport = self._request.transport
            if transport is None or transport.is_closing():
                raise ConnectionResetError("the client has disconnected")
            transport.write(bytes(self._unwritten))
            self._unwritten.clear()
        if self._request.protocol.writing_paused:
            await self._wait_for_drain()

    async def _wait_for_drain(self) -> None:
        """Wait while the client is behind, as long as it reads anything at all.

        aiohttp's `drain` must not be cancelled while the connection lives: the next call would
        find the cancelled future.  So it runs in a task.
        """
        drain_task = asyncio.ensure_future(self._request.writer.drain())
        transport = self._request.transport
        try:
            if transport is not None and not await _wait_while_client_reads(transport, drain_task):
                self.close_reason = f"the client read no data for {_DRAIN_TIMEOUT_S:g} s"
                _reset_connection(transport)
                raise ConnectionResetError(self.close_reason)
            await drain_task
        finally:
            drain_task.cancel()

    async def send_end(self) -> None:
        """End the body as its framing requires, and flush."""
        if self._chunked:
            self._unwritten += b"0\r\n\r\n"
        await self.flush()
        self._is_finished = True
        if self._body_bytes_left:  # shorter than declared: only a close can show that
            self._closes_connection = True
        # Closing while the request is still arriving would reset the connection and lose this
        # response: aiohttp reads on for a while, and then closes.
        has_unread_body = not self._request.content.is_eof()
        if self._closes_connection and not has_unread_body and self._request.transport is not None:
            self._request.transport.close()

    async def send_response(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a complete response of the proxy itself; to HEAD, the same without its body."""
        is_head_request = self._request.method == "HEAD"
        framing: Framing = "none" if is_head_request else "length"
        self.buffer_head(ResponseHead(status, "llm-proxy", headers, framing, len(body)))
        if not is_head_request:
            self.buffer_body([body])
        await self.send_end()

    async def abort(self, how: Literal["fin", "rst"]) -> None:
        """Cut off the response after what was sent: by closing (`fin`), or by a TCP reset (`rst`).

        A body that is delimited by close is always reset: a close would look like its end.
        """
        await self.flush()
        self._is_finished = self._closes_connection = self.was_aborted = True
        transport = self._request.transport
        if transport is None:
            return
        if how == "fin" and not self._is_close_delimited:
            transport.close()
            return
        await _wait_for_delivery(transport, transport.get_extra_info("socket"))
        if not transport.is_closing():
            _reset_connection(transport)

    @property
    def keep_alive(self) -> bool:
        """Whether the connection may serve another request."""
        return self._is_finished and not self._closes_connection

    async def prepare(self, request: web.BaseRequest) -> None:
        """Do nothing; aiohttp calls this."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing; aiohttp calls this."""


async def perform_actions(
    source: ActionSource, routed: RoutedRequest, writer: ResponseWriter
) -> None:
    """Perform all actions of `source` on `writer`.

    Due times are absolute: an overdue write is made at once, and delays nothing after it.
    Raises `ConnectionError` if the client has gone, and whatever the source raises.
    """
    if isinstance(source, tuple):
        await _perform_burst(source, routed, writer)
    else:
        async with aclosing(source) as bursts:
            async for burst in bursts:
                await _perform_burst(burst, routed, writer)
                if writer.was_aborted:
                    return
                await writer.flush()
    if not writer.was_aborted:
        await writer.send_end()


async def _perform_burst(burst: Burst, routed: RoutedRequest, writer: ResponseWriter) -> None:
    """Perform a burst; consecutive pieces of the body are written together."""
    pieces: list[bytes] = []
    for number, action in enumerate(burst, 1):
        if number % _ACTIONS_PER_YIELD == 0:
            await asyncio.sleep(0)
        if isinstance(action, Send) and len(pieces) < _MAX_COLLECTED_PIECES:
            pieces.append(action.data)  # a replay has hundreds: as little work as possible
            continue
        if pieces:
            writer.buffer_body(pieces)
            pieces = []
            await writer.flush_if_larger(_FLUSH_BYTES)
        match action:
            case Wait(due_ms):
                if due_ms > routed.elapsed_ms():
                    await writer.flush()
                    # May be long: the task is cancelled when the client leaves or the server stops.
                    await asyncio.sleep((due_ms - routed.elapsed_ms()) / 1000)
                if due_ms > 0:
                    late_ms = routed.elapsed_ms() - due_ms
                    writer.timed_write_count += 1
                    writer.total_late_ms += late_ms
                    writer.worst_late_ms = max(writer.worst_late_ms, late_ms)
            case Begin(head):
                writer.buffer_head(head)
            case Send(data):
                writer.buffer_body([data])
            case SendRaw(data):
                writer.buffer_raw(data)
            case Abort(how):
                await writer.abort(how)
    writer.buffer_body(pieces)


async def send_error(writer: ResponseWriter, dialect: Dialect, error: LlmProxyError) -> None:
    """Send `error` in the dialect's shape.  Raises `ConnectionError` if the client has gone."""
    status, error_type = _status_and_type(error)
    message = str(error)
    if isinstance(error, CassetteError) and not isinstance(error, CassetteTooNew):
        message = f"{error}; delete the file, or record the request again with llm-proxy record"
    body = dialect.error_body(status, error_type, message)
    headers = [
        ("Content-Type", "application/json"),
        (ERROR_HEADER, error_type),
    ]
    if not isinstance(error, UpstreamFailed) or status == HTTPStatus.LOOP_DETECTED:
        # An upstream failure may be retried, as without the proxy.
        headers.append(("x-should-retry", "false"))
    await writer.send_response(status, tuple(headers), body)


def _status_and_type(error: LlmProxyError) -> tuple[int, str]:
    match error:
        case Miss():
            return _MISS_STATUS, "cassette_not_found"
        case CassetteError():
            return _MISS_STATUS, "cassette_unusable"
        case LateRequest():
            return _MISS_STATUS, "late_request"
        case UpstreamFailed(status=status):
            return status, "upstream_failed"
        case ScriptExhausted():
            return _MISS_STATUS, "script_exhausted"
        case NotRepresentable():
            return _MISS_STATUS, "not_representable"
        case RespondFunctionFailed():
            return 500, "respond_failed"
        case RequestRefused(status=status):
            return status, "request_refused"
        case _:
            return 500, "llm_proxy_error"


def _reset_connection(transport: asyncio.WriteTransport) -> None:
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ZERO_LINGER)
    transport.abort()


async def _wait_while_client_reads(
    transport: asyncio.WriteTransport, drain_task: asyncio.Future[None]
) -> bool:
    """Wait for `drain_task`; returns False if the client stopped reading before it was done.

    Bytes that the peer's kernel took count as read: the drain makes progress in large portions,
    and a slow client needs minutes for one.  Checks are counted, not seconds: however long the
    event loop is blocked, it is one check.
    """
    sock = transport.get_extra_info("socket")
    last_unsent, idle_checks = -1, 0
    while not drain_task.done():
        unsent = transport.get_write_buffer_size() + unacknowledged_byte_count(sock)
        if unsent != last_unsent:
            last_unsent, idle_checks = unsent, 0
        elif idle_checks >= _CHECKS_PER_DRAIN_TIMEOUT:
            return False
        idle_checks += 1
        await asyncio.wait([drain_task], timeout=_DRAIN_TIMEOUT_S / _CHECKS_PER_DRAIN_TIMEOUT)
    return True


async def _wait_for_delivery(transport: asyncio.WriteTransport, sock: Any) -> None:
    """Wait until the peer's kernel has all bytes: a reset discards those still in flight.

    A client that reads gets everything, however slow it is.  Each pause counts with its nominal
    length: time in which our event loop is blocked is not the client's.
    """
    interval_s, last_unsent, waited_s = 0.001, -1, 0.0
    while not transport.is_closing():
        unsent = transport.get_write_buffer_size() + unacknowledged_byte_count(sock)
        if unsent != last_unsent:
            last_unsent, waited_s = unsent, 0.0
        if unsent == 0 or waited_s > _DELIVERY_TIMEOUT_S:
            return
        await asyncio.sleep(interval_s)
        waited_s += interval_s
        interval_s = min(interval_s * 2, _MAX_POLL_INTERVAL_S)


def unacknowledged_byte_count(sock: Any) -> int:
    """Bytes written to a socket that the peer has not acknowledged; 0 if unknown."""
    import fcntl  # noqa: PLC0415 # not on every platform

    try:
        packed_count = fcntl.ioctl(sock.fileno(), _SIOCOUTQ, b"\0\0\0\0")
    except OSError:
        return 0
    return int(struct.unpack("i", packed_count)[0])
