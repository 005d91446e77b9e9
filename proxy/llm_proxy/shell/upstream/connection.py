"""aiohttp's client connection, extended to remember failures and surplus bytes.

Four things get lost between aiohttp's parser and its reader; they are kept here, where they
happen, because nothing further up can find them out for certain:

* A malformed chunk makes the parser raise, and the reader of the body is forgotten: it waits
  for ever.  Here it gets the error.
* A head that arrives together with a malformed body is never given out.  Here the parser gets
  the head by itself, after those of 1xx responses before it.
* A reset of a body that is delimited by close looks like its clean end, and the response lets
  go of its connection with its last byte.  Here the response keeps hold of it.
* Bytes that no request waits for are the answer to the next request, which may be anybody's.
  Here they close the connection: those that come while it is idle, those before a request is
  sent, and those behind the end of an answer.  A connection goes to a request only while nothing
  waits in its socket to be read.
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

log: Final = logging.getLogger("llm_proxy")

_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_LONGEST_END: Final = 4
"""Bytes of a line end and a blank line, at most."""
_ENDS_OF_CHUNKS: Final = (b"\r\n\r\n", b"\n\n")
_SWITCHED: Final = 101
_INFORMATIONAL: Final = frozenset(range(100, 200)) - {_SWITCHED}
"""Statuses of responses that another one follows; aiohttp drops them."""
_RESPONSE: Final = b"HTTP/1"
_LOOK: Final = 16
"""Bytes by which what waits in a socket is recognised."""
_IDLE_TIMEOUT: Final = b"HTTP/1.1 408"
"""What some servers say of themselves before they close an idle connection."""


class MalformedResponse(aiohttp.ClientPayloadError):
    """The upstream broke the framing of its body."""


class UnexpectedBytes(aiohttp.ClientConnectionError):
    """The upstream sent bytes before the request was sent, which is not sent on this connection."""


class UpstreamProtocol(ResponseHandler):
    """The protocol of one connection to an upstream."""

    was_reset = False
    """Whether the connection was lost otherwise than by a clean close."""
    has_served = False
    """Whether a request was sent on it."""
    flag = False
    """Whether any byte of the answer has come."""
    writer: AbstractStreamWriter | None = None
    """What sends the request; None until it is known."""
    answers = 0
    """How many came."""
    _head = b""
    """The last bytes of a head that is still arriving."""
    _is_whole = False
    """Whether the parser has bytes up to the end of a head, and no others."""
    _has_answer = False
    """Whether the head of the answer has come."""
    _body: StreamReader | None = None
    """Of the answer, where its own end or that of the connection ends it."""
    _left = inf
    """Bytes of the answer's body that are still to come, where its head says how many."""
    _end = b""
    """The last bytes of a chunked body."""

    def __init__(self, loop: asyncio.AbstractEventLoop, doubt: Callable[[str], None]) -> None:
        """`doubt` learns why answers on this connection may be each other's."""
        super().__init__(loop)
        self._surplus_reason = doubt

    def set_response_params(self, **params: Any) -> None:
        """Expect the next response; aiohttp calls this for every request."""
        self._has_answer = False
        self._body, self._left, self._head, self._end = None, inf, b"", b""
        self.writer = None
        self.has_served = True
        self.flag = False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived: first what belongs to the head, then the body, and nothing else."""
        if not data:  # the parser goes on with what it has
            super().data_received(data)
        elif not self.has_served or self._is_complete:
            self._close_unexpected(data)
        elif self.writer is not None and self.writer.output_size == 0:
            self._close_unexpected(data)
            self.set_exception(UnexpectedBytes())
        else:
            self.flag = True
            if body := self._receive_head(data):
                self._receive_body(body)
        if self._body is not None and self._is_complete and not self._end.endswith(_ENDS_OF_CHUNKS):
            self._close_unexpected(self._end)

    def _receive_head(self, data: bytes) -> bytes:
        """Parse what belongs to heads; gives what follows the last one."""
        while data and not self._has_answer:
            end = _END_OF_HEAD.search(self._head + data)
            if end is None:
                self._head = (self._head + data)[-_LONGEST_END:]
                break
            size = end.end() - len(self._head)
            self._head, self._is_whole = b"", True
            super().data_received(data[:size])  # comes to `feed_data`
            self._is_whole = False
            data = data[size:] if self.exception() is None else b""
        return data

    def _receive_body(self, data: bytes) -> None:
        surplus = b""
        if self._left != inf:
            size = int(self._left)
            data, surplus = data[:size], data[size:]
            self._left -= len(data)
        self._end = (self._end + data[-_LONGEST_END:])[-_LONGEST_END:]
        if data:
            super().data_received(data)
        if surplus:
            self._close_unexpected(surplus)

    @property
    def _is_complete(self) -> bool:
        return self._left == 0 or (self._body is not None and self._body.is_eof())

    def _close_unexpected(self, data: bytes) -> None:
        """Close the connection, for nobody waits for these bytes.

        Where they are a response, and came behind several answers, one that came too many before
        may have been taken for the answer to the request that was sent next, and so on.
        """
        if self.transport is None:
            return
        if self.has_served and not data.startswith(_IDLE_TIMEOUT):
            host, port, *_ = self.transport.get_extra_info("peername")
            where = f"the upstream at {host}, port {port},"
            log.warning("%s sent bytes that no request waits for; its connection is closed", where)
            if data.startswith(_RESPONSE) and self.answers > 1:
                self._surplus_reason(
                    f"{where} sent more responses on a connection than it got requests "
                    f"({self.answers}): which answers which is not certain; record them again"
                )
        self.close()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take a head from the parser: after that of a 1xx response another one follows."""
        message, body = data
        if self._has_answer:  # a second one, in the bytes of the first
            self._close_unexpected(_RESPONSE)
            return
        if message.code not in _INFORMATIONAL:
            self._has_answer = True
            self.answers += 1
            length = message.headers.get(hdrs.CONTENT_LENGTH)
            if not self._is_whole:  # the parser knows ends of a head that we do not
                self.force_close()
            elif body is EMPTY_PAYLOAD:
                self._left = 0
            elif message.chunked or length is None:
                self._body = body
            else:
                self._left = int(length)
        super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Note that the connection failed, and tell the reader of the body."""
        super().set_exception(exc, *cause)
        body = self._payload
        if isinstance(exc, HttpProcessingError) and body is not None and not body.is_eof():
            body.set_exception(MalformedResponse(exc.message), exc)

    def peek_waiting(self) -> bytes | None:
        """The first bytes that wait in the socket to be read; none at its end; else None.

        Of TLS, at the beginning of a connection, it is None: that has to say something for itself.
        Later it is none as at the end: what waits may be its farewell, and is not readable here.
        """
        if self.transport is None or self.transport.is_closing():
            return b""
        is_tls = self.transport.get_extra_info("ssl_object") is not None
        descriptor = self.transport.get_extra_info("socket").fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if (is_tls and not self.has_served) or not poll.poll(0):
            return None
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as same:
            return b"" if is_tls else same.recv(_LOOK, socket.MSG_PEEK)
        return b""

    def is_local_upstream(self) -> bool:
        """Whether the upstream runs where we do, so that it may be ourselves."""
        if self.transport is None:
            return False
        peer, own = (self.transport.get_extra_info(name)[0] for name in ("peername", "sockname"))
        return peer == own or ip_address(peer).is_loopback

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note how the connection was lost, before anybody learns that it was."""
        self.was_reset = exc is not None
        super().connection_lost(exc)


class UpstreamResponse(aiohttp.ClientResponse):
    """A response that knows its connection to the end, and after it."""

    protocol: UpstreamProtocol

    def __init__(self, *args: Any, stream_writer: AbstractStreamWriter, **more: Any) -> None:
        super().__init__(*args, stream_writer=stream_writer, **more)
        self._request_is_sent = stream_writer

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Wait for the head; aiohttp calls this once the request is on its way."""
        assert isinstance(connection.protocol, UpstreamProtocol)  # noqa: S101 # `CheckedConnector` makes no other
        self.protocol = connection.protocol
        self.protocol.writer = self._request_is_sent
        return await super().start(connection)
