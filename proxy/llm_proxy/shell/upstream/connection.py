"""aiohttp's client connection, with a memory for how it failed.

Three things get lost between aiohttp's parser and its reader; they are kept here, where they
happen, because nothing further up can find them out for certain:

* A malformed chunk makes the parser raise, and the reader of the body is forgotten: it waits
  for ever.  Here it is told.
* A head that arrives together with a malformed body is never given out.  Here the parser gets
  the head by itself, after those of 1xx responses before it.
* A reset of a body that is delimited by close looks like its clean end, and the response lets
  go of its connection with its last byte.  Here the response keeps hold of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

REUSED: Final[ContextVar[Receiver | None]] = ContextVar("REUSED", default=None)
"""The connection that this task was given last, if it had served before.  (A trace of aiohttp's
would tell as well, and cost each request as much time as all the rest that we do with it.)"""

_END_OF_HEAD: Final = b"\r\n\r\n"
_SWITCHED: Final = 101
_INFORMATIONAL: Final = frozenset(range(100, 200)) - {_SWITCHED}
"""Statuses of responses that another one follows; aiohttp drops them."""


class Malformed(aiohttp.ClientPayloadError):
    """The upstream broke the framing of its body."""


class Receiver(ResponseHandler):
    """The protocol of one connection to an upstream."""

    was_reset = False
    """Whether the connection was lost otherwise than by a clean close."""
    has_served = False
    """Whether a request was sent on it."""
    heard = False
    """Whether any byte of the answer has come."""
    _head: bytes | None = None
    """The last bytes of a head that is still arriving."""

    def set_response_params(self, **params: Any) -> None:
        """Expect the next response; aiohttp calls this for every request."""
        self._head = b""
        self.has_served = True
        self.heard = False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived: first what belongs to the head, then the rest."""
        self.heard = True
        while data and self._head is not None:
            end = (self._head + data).find(_END_OF_HEAD)
            if end == -1:
                self._head = (self._head + data)[-len(_END_OF_HEAD) :]
                break
            size = end + len(_END_OF_HEAD) - len(self._head)
            self._head = None
            super().data_received(data[:size])  # comes to `feed_data`
            data = data[size:]
            if self.exception() is not None:
                return
        if data:
            super().data_received(data)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take a head from the parser: after that of a 1xx response another one follows."""
        if data[0].code in _INFORMATIONAL:
            self._head = b""
        super().feed_data(data, size)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """Note that the connection failed, and tell the reader of the body."""
        super().set_exception(exc, *cause)
        body = self._payload
        if isinstance(exc, HttpProcessingError) and body is not None and not body.is_eof():
            body.set_exception(Malformed(exc.message), exc)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Note how the connection was lost, before anybody learns that it was."""
        self.was_reset = exc is not None
        super().connection_lost(exc)


class Connector(aiohttp.TCPConnector):
    """Makes connections with a memory, and as many as are asked for."""

    def __init__(self, *, keep_alive: bool) -> None:
        super().__init__(limit=0, force_close=not keep_alive)
        make: Callable[..., ResponseHandler] = Receiver
        self._factory = partial(make, loop=self._loop)

    async def connect(self, req: aiohttp.ClientRequest, *args: Any, **more: Any) -> Connection:
        """A connection for a request, new or kept; aiohttp calls this."""
        connection = await super().connect(req, *args, **more)
        assert isinstance(connection.protocol, Receiver)  # noqa: S101 # we make no other
        REUSED.set(connection.protocol if connection.protocol.has_served else None)
        return connection


class UpstreamResponse(aiohttp.ClientResponse):
    """A response that knows its connection to the end, and after it."""

    receiver: Receiver

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Wait for the head; aiohttp calls this once the request is on its way."""
        assert isinstance(connection.protocol, Receiver)  # noqa: S101 # `Connector` makes no other
        self.receiver = connection.protocol
        return await super().start(connection)
