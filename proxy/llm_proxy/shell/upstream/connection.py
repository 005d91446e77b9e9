"""aiohttp's client connection, extended to remember failures and surplus bytes, and its connector.

aiohttp loses four things between its parser and its reader.  They are kept here, where they
happen, because no later stage can determine them reliably:

* A malformed chunk makes the parser raise, but the reader of the body never learns of it and
  waits for ever.  Here the reader gets the error.
* A head that arrives together with a malformed body is never delivered.  Here the parser is fed
  each head separately, those of preceding 1xx responses included.
* A reset of a body that is delimited by close looks like its clean end, and aiohttp's response
  releases its connection with the last byte.  Here the response keeps a reference to it.
* Surplus bytes would become the response to the next request, possibly another client's.  Here
  they close the connection, whether they arrive while it is idle, before a request is sent or
  after the end of a response.  A connection is assigned to a request only while its socket has
  nothing to read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from ipaddress import ip_address
from math import inf
from typing import Any, Final

import aiohttp
from aiohttp import hdrs
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from multidict import CIMultiDict

log: Final = logging.getLogger("llm_proxy")

_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_TAIL_BYTES: Final = 4
"""Bytes kept of the end of a head or a chunked body: a line end and a blank line at most."""
_CHUNKED_BODY_ENDINGS: Final = (b"\r\n\r\n", b"\n\n")
_SWITCHING_PROTOCOLS: Final = 101
_INFORMATIONAL: Final = frozenset(range(100, 200)) - {_SWITCHING_PROTOCOLS}
"""Statuses of interim responses, which another response follows; aiohttp drops them."""
_STATUS_LINE_START: Final = b"HTTP/1"
_PEEK_BYTES: Final = 16
"""Bytes peeked from a socket: enough to recognise a response."""
_IDLE_TIMEOUT_RESPONSE: Final = b"HTTP/1.1 408"
"""The response that some servers send unprompted before they close an idle connection."""
_OUR_VIA: Final = re.compile(r"1\.1 llm-proxy-[0-9a-f]{16}")


class MalformedResponse(aiohttp.ClientPayloadError):
    """The upstream violated the framing of its response body."""


class UnexpectedBytes(aiohttp.ClientConnectionError):
    """The upstream sent bytes before the request, so the request is not sent on this connection."""


class UpstreamProtocol(ResponseHandler):
    """The protocol of one connection to an upstream."""

    was_reset = False
    """Whether the connection was lost by anything but a clean close."""
    has_served = False
    """Whether a request was sent on it."""
    has_response_bytes = False
    """Whether any byte of the current response has arrived."""
    request_writer: AbstractStreamWriter | None = None
    """aiohttp's writer of the current request; None until the request is under way."""
    response_count = 0
    """Final (not 1xx) responses received on this connection."""
    _head_tail = b""
    """The last bytes of a head that is still arriving."""
    _is_feeding_whole_head = False
    """Whether the bytes being fed to the parser end exactly where a head ends."""
    _has_response_head = False
    """Whether the final head of the current response has arrived."""
    _unsized_body_reader: StreamReader | None = None
    """The current response's body if it is chunked or delimited by close; None otherwise."""
    _body_bytes_left = inf
    """Bytes of the response body still expected; `inf` if its head declares no length."""
    _body_tail = b""
    """The last bytes of a chunked body."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_surplus_response: Callable[[str], None]
    ) -> None:
        """`on_surplus_response` is called with the reason why responses may be mixed up."""
        super().__init__(loop)
        self._on_surplus_response = on_surplus_response

    def set_response_params(self, **params: Any) -> None:
        """Expect the next response; aiohttp calls this for every request."""
        self._has_response_head = False
        self._unsized_body_reader, self._body_bytes_left, self._head_tail, self._body_tail = (
            None,
            inf,
            b"",
            b"",
        )
        self.request_writer = None
        self.has_served = True
        self.has_response_bytes = False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Feed the parser first the head, then the body, and no surplus bytes."""
        if not data:  # the parser continues with its buffer
            super().data_received(data)
        elif not self.has_served or self._is_response_complete:
            self._close_on_surplus(data)
        elif self.request_writer is not None and self.request_writer.output_size == 0:
            self._close_on_surplus(data)
            self.set_exception(UnexpectedBytes())
        else:
            self.has_response_bytes = True
            if body := self._feed_heads(data):
                self._feed_body(body)
        if (
            self._unsized_body_reader is not None
            and self._is_response_complete
            and not self._body_tail.endswith(_CHUNKED_BODY_ENDINGS)
        ):
            self._close_on_surplus(self._body_tail)

    def _feed_heads(self, data: bytes) -> bytes:
        """Feed the parser the bytes of heads; returns the bytes after the last head."""
        while data and not self._has_response_head:
            head_end = _END_OF_HEAD.search(self._head_tail + data)
            if head_end is None:
                self._head_tail = (self._head_tail + data)[-_TAIL_BYTES:]
                break
            head_bytes = head_end.end() - len(self._head_tail)
            self._head_tail, self._is_feeding_whole_head = b"", True
            super().data_received(data[:head_bytes])  # calls `feed_data`
            self._is_feeding_whole_head = False
            data = data[head_bytes:] if self.exception() is None else b""
        return data

    def _feed_body(self, data: bytes) -> None:
        surplus = b""
        if self._body_bytes_left != inf:
            body_bytes = int(self._body_bytes_left)
            data, surplus = data[:body_bytes], data[body_bytes:]
            self._body_bytes_left -= len(data)
        self._body_tail = (self._body_tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        if data:
            super().data_received(data)
        if surplus:
            self._close_on_surplus(surplus)

    @property
    def _is_response_complete(self) -> bool:
        return self._body_bytes_left == 0 or (
            self._unsized_body_reader is not None and self._unsized_body_reader.is_eof()
        )

    def _close_on_surplus(self, data: bytes) -> None:
        """Close the connection because of surplus bytes.

        If they are a response and several came before it, an earlier surplus response may have
        been taken for the response to the request after it, and so on: that is reported.
        """
        if self.transport is None:
            return
        if self.has_served and not data.startswith(_IDLE_TIMEOUT_RESPONSE):
            host, port, *_ = self.transport.get_extra_info("peername")
            upstream = f"the upstream at {host}, port {port}"
            log.warning("%s sent unexpected data; the connection was closed", upstream)
            if data.startswith(_STATUS_LINE_START) and self.response_count > 1:
                self._on_surplus_response(
                    f"{upstream} received {self.response_count} requests on a connection but sent "
                    "more responses; the cassettes of this run may contain wrong responses, so "
                    "record them again"
                )
        self.close()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take a head from the parser; the head of a 1xx response is followed by another one."""
        message, body = data
        if self._has_response_head:  # a second one, in the bytes of the first
            self._close_on_surplus(_STATUS_LINE_START)
            return
        if message.code not in _INFORMATIONAL:
            self._has_response_head = True
            self.response_count += 1
            length = message.headers.get(hdrs.CONTENT_LENGTH)
            if (
                not self._is_feeding_whole_head
            ):  # the parser accepts head endings that `_END_OF_HEAD` does not
                self.force_close()
            elif body is EMPTY_PAYLOAD:
                self._body_bytes_left = 0
            elif message.chunked or length is None:
                self._unsized_body_reader = body
            else:
                self._body_bytes_left = int(length)
        super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Mark the connection as failed, and pass a parser error to the reader of the body."""
        super().set_exception(exc, *cause)
        body = self._payload
        if isinstance(exc, HttpProcessingError) and body is not None and not body.is_eof():
            body.set_exception(MalformedResponse(exc.message), exc)

    def peek_socket(self) -> bytes | None:
        """The first unread bytes in the socket; `b""` at its end; None if there are none.

        With TLS it is None on a new connection, where the handshake has messages of its own, and
        later `b""`, as at the end: unread data may be a close notification, which is encrypted.
        """
        if self.transport is None or self.transport.is_closing():
            return b""
        is_tls = self.transport.get_extra_info("ssl_object") is not None
        descriptor = self.transport.get_extra_info("socket").fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if (is_tls and not self.has_served) or not poll.poll(0):
            return None
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as socket_copy:
            return b"" if is_tls else socket_copy.recv(_PEEK_BYTES, socket.MSG_PEEK)
        return b""

    def is_local_upstream(self) -> bool:
        """Whether the upstream runs on this machine, so that it may be this proxy itself."""
        if self.transport is None:
            return False
        peer, local = (self.transport.get_extra_info(name)[0] for name in ("peername", "sockname"))
        return peer == local or ip_address(peer).is_loopback

    def connection_lost(self, exc: BaseException | None) -> None:
        """Set `was_reset` before anything else learns of the loss."""
        self.was_reset = exc is not None
        super().connection_lost(exc)


class UpstreamResponse(aiohttp.ClientResponse):
    """A response that keeps a reference to its connection, even after its last byte."""

    protocol: UpstreamProtocol

    def __init__(self, *args: Any, stream_writer: AbstractStreamWriter, **kwargs: Any) -> None:
        super().__init__(*args, stream_writer=stream_writer, **kwargs)
        self._request_writer = stream_writer

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Wait for the head; aiohttp calls this once the request is being sent."""
        assert isinstance(connection.protocol, UpstreamProtocol)  # noqa: S101 # `CheckedConnector` makes no other
        self.protocol = connection.protocol
        self.protocol.request_writer = self._request_writer
        return await super().start(connection)


REUSED_CONNECTION: Final[ContextVar[UpstreamProtocol | None]] = ContextVar("REUSED", default=None)
"""The connection that this task got last, if it had served before; None otherwise.  (An aiohttp
trace would show that too, but would double the time that each request costs us.)"""


class CheckedConnector(aiohttp.TCPConnector):
    """Connector without a connection limit, whose connections are `UpstreamProtocol`s."""

    def __init__(
        self, *, keep_alive: bool, via_pseudonym: str, on_surplus_response: Callable[[str], None]
    ) -> None:
        """`via_pseudonym` names this process in `Via` headers to local upstreams.

        `on_surplus_response` is called with the reason why responses may be mixed up.
        """
        super().__init__(limit=0, force_close=not keep_alive)
        self._via_pseudonym = via_pseudonym
        protocol_factory: Callable[..., ResponseHandler] = UpstreamProtocol
        self._factory = partial(protocol_factory, self._loop, on_surplus_response)

    @property
    def has_multi_response_connection(self) -> bool:
        """Whether any idle connection has delivered more than one response."""
        return any(protocol.response_count > 1 for protocol in self._idle_connections())

    def close_idle_with_surplus(self) -> None:
        """Close each idle connection that has unread bytes."""
        for protocol in self._idle_connections():
            if surplus := protocol.peek_socket():
                protocol.data_received(surplus)

    def _idle_connections(self) -> list[UpstreamProtocol]:
        protocols = [
            protocol
            for host_connections in self._conns.values()
            for protocol, _ in host_connections
        ]
        return [protocol for protocol in protocols if isinstance(protocol, UpstreamProtocol)]

    async def connect(self, req: aiohttp.ClientRequest, *args: Any, **kwargs: Any) -> Connection:
        """A connection for a request, new or reused, with nothing to read; aiohttp calls this.

        Raises `UnexpectedBytes` if the upstream sends first on a new one.
        """
        while True:
            connection = await super().connect(req, *args, **kwargs)
            protocol = connection.protocol
            assert isinstance(protocol, UpstreamProtocol)  # noqa: S101 # we make no other
            if (surplus := protocol.peek_socket()) is None:
                REUSED_CONNECTION.set(protocol if protocol.has_served else None)
                is_local = req.proxy is None and protocol.is_local_upstream()
                _set_via(req.headers, self._via_pseudonym if is_local else "")
                return connection
            if surplus:
                protocol.data_received(surplus)
            connection.close()
            if not protocol.has_served:
                raise UnexpectedBytes if surplus else aiohttp.ServerDisconnectedError


def _set_via(headers: CIMultiDict[str], via_pseudonym: str) -> None:
    """Add `via_pseudonym` to `Via`; without one, remove every llm-proxy's.

    So no pseudonym of an llm-proxy leaves this machine.
    """
    if via_pseudonym:
        headers.add(hdrs.VIA, f"1.1 {via_pseudonym}")
    elif any(map(_OUR_VIA.fullmatch, via_values := headers.getall(hdrs.VIA, []))):
        headers.popall(hdrs.VIA)
        headers.extend((hdrs.VIA, text) for text in via_values if _OUR_VIA.fullmatch(text) is None)
