"""Receives a request: its connection, its expectation, its body.

aiohttp parses requests.  One thing gets lost between its parser and the reader of a body: a
chunk that breaks the framing after the request was handed out.  The parser forgets the reader,
which would wait for ever; here it is told.  And what its parser does not take for a request is
answered in our own words.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Final

from aiohttp import HttpVersion11, web
from aiohttp.http import RawRequestMessage
from aiohttp.streams import StreamReader

from llm_proxy.dialects import OPAQUE
from llm_proxy.errors import RequestRefused, printable
from llm_proxy.routing import RoutingSettings
from llm_proxy.shell.server.error_responses import send_error
from llm_proxy.shell.server.guards import RequestGuards
from llm_proxy.shell.server.response_writer import ResponseWriter
from llm_proxy.shell.server.retries import RetryTracker

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_TOO_LONG: Final = re.compile(r"(?:\d+, message:\s*)?Got more than (\d+) bytes when reading")
_LONGEST_LINE: Final = 200
"""Characters of what the parser says that are passed on."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What a client may ask of us."""

    max_body: int = 64 * 1024 * 1024
    """Bytes of a request body."""
    body_silence: float = 60.0
    """The longest silence within a request body, in seconds."""


@dataclass(frozen=True, slots=True)
class RequestAdmission:
    """Who may ask, how much, and what calls are made of it."""

    guards: RequestGuards = field(default_factory=RequestGuards)
    limits: RequestLimits = field(default_factory=RequestLimits)
    routing: RoutingSettings = field(default_factory=RoutingSettings)
    retries: RetryTracker = field(default_factory=RetryTracker)


class ClientConnection(web.RequestHandler):
    """The protocol of one client's connection."""

    __slots__ = ("_body",)

    _body: StreamReader | None

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, and tell the reader of a body that will never end."""
        super().data_received(data)
        if not self._messages:
            return
        message, body = self._messages[-1]
        if isinstance(message, RawRequestMessage):
            self._body = body
            return
        begun = getattr(self, "_body", None)
        if begun is not None and not begun.is_eof():
            begun.set_exception(web.RequestPayloadError(message.message))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no request; aiohttp calls this with its parser's `message`."""
        if message is None:  # never the parser: a fault, which aiohttp logs
            return super().handle_error(request, status, exc)
        why = f"this is no HTTP request that can be read: {_parser_error_line(message)}"
        return _RefusalResponse(request, RequestRefused(status, why))


class _RefusalResponse(ResponseWriter):
    """An answer that is written when aiohttp wants it written."""

    def __init__(self, request: web.BaseRequest, refused: RequestRefused) -> None:
        super().__init__(request)
        self.close_afterwards()
        self._refused = refused

    async def write_eof(self, data: bytes = b"") -> None:
        """Write all of it."""
        await send_error(self, OPAQUE, self._refused)


class ConnectionListener(web.Server):
    """Makes a `ClientConnection` of every client that connects."""

    def __call__(self) -> ClientConnection:
        """The protocol of a new connection; asyncio calls this."""
        return ClientConnection(self, loop=self._loop, **self._kwargs)


async def read_body(request: web.BaseRequest, limits: RequestLimits) -> bytes:
    """The request's body, once all of it is here.

    Raises `RequestRefused` for one that is too large, too slow or malformed, and for an
    expectation that cannot be met.
    """
    if (request.content_length or 0) > limits.max_body:
        raise _body_too_large(limits)
    if request.version >= HttpVersion11 and "Expect" in request.headers:
        _send_continue(request)
    content = request.content
    try:
        # Most come with their heads, and need no patience.
        body = await (content.read() if content.is_eof() else _read_with_timeout(content, limits))
    except TimeoutError:
        # Nobody will wait for the rest of it, aiohttp neither.
        request.content.set_exception(web.RequestPayloadError("given up"))
        raise RequestRefused(
            408, f"nothing of the request body came for {limits.body_silence:g} s: send it faster"
        ) from None
    except web.RequestPayloadError as error:
        raise RequestRefused(
            400, f"the request body is malformed: {_parser_error_line(str(error))}"
        ) from None
    if len(body) > limits.max_body:
        raise _body_too_large(limits)
    return body


async def _read_with_timeout(content: StreamReader, limits: RequestLimits) -> bytes:
    pieces: list[bytes] = []
    size = 0
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(limits.body_silence) as silence:
        while piece := await content.readany():
            silence.reschedule(loop.time() + limits.body_silence)
            pieces.append(piece)
            size += len(piece)
            if size > limits.max_body:
                raise _body_too_large(limits)
    return b"".join(pieces)


def _send_continue(request: web.BaseRequest) -> None:
    if request.headers["Expect"].lower() != "100-continue":
        raise RequestRefused(417, "the only expectation that is met is 100-continue")
    if request.transport is not None and not request.content.is_eof():
        request.transport.write(_CONTINUE)


def _body_too_large(limits: RequestLimits) -> RequestRefused:
    return RequestRefused(
        413,
        f"the request body is larger than {limits.max_body} bytes: start llm-proxy with a larger "
        "--max-body",
    )


def _parser_error_line(text: str) -> str:
    """The first line of what the parser says; it draws a picture of the bytes below it."""
    if (too_long := _TOO_LONG.match(text)) is not None:  # which shows the bytes as Python does
        return f"its first line or one of its headers is longer than {too_long[1]} bytes"
    return printable(text.partition("\n")[0].rstrip(":"), _LONGEST_LINE)
