"""Receives a request: its connection, its expectation, its body.

aiohttp parses requests, but loses an error between its parser and the reader of a body: when a
malformed chunk arrives after the request was delivered, the reader would wait for ever.  Here it
gets the error.  Input that the parser rejects gets an error response of the proxy.
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
from llm_proxy.errors import RequestRefused, printable_excerpt
from llm_proxy.routing import RoutingSettings
from llm_proxy.shell.server.error_responses import send_error
from llm_proxy.shell.server.guards import RequestGuards
from llm_proxy.shell.server.response_writer import ResponseWriter
from llm_proxy.shell.server.retries import RetryTracker

_CONTINUE_RESPONSE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINE_TOO_LONG: Final = re.compile(r"(?:\d+, message:\s*)?Got more than (\d+) bytes when reading")
_MAX_PARSER_ERROR_CHARS: Final = 200
"""Maximum length of a parser error in a response."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits on the request body."""

    max_body_bytes: int = 64 * 1024 * 1024
    """Maximum size of a request body."""
    body_idle_timeout_s: float = 60.0
    """Maximum silence within a request body, in seconds."""


@dataclass(frozen=True, slots=True)
class RequestAdmission:
    """How requests are admitted: guards, limits, routing settings and retry detection."""

    guards: RequestGuards = field(default_factory=RequestGuards)
    limits: RequestLimits = field(default_factory=RequestLimits)
    routing_settings: RoutingSettings = field(default_factory=RoutingSettings)
    retry_tracker: RetryTracker = field(default_factory=RetryTracker)


class ClientConnection(web.RequestHandler):
    """The asyncio protocol of one client's connection."""

    __slots__ = ("_body",)

    _body: StreamReader | None

    def data_received(self, data: bytes) -> None:
        """Parse `data`, and pass a parser error to the reader of an unfinished body."""
        super().data_received(data)
        if not self._messages:
            return
        message, body = self._messages[-1]
        if isinstance(message, RawRequestMessage):
            self._body = body
            return
        previous_body = getattr(self, "_body", None)
        if previous_body is not None and not previous_body.is_eof():
            previous_body.set_exception(web.RequestPayloadError(message.message))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to a malformed request; aiohttp calls this with its parser's `message`."""
        if message is None:  # not from the parser: an internal error, which aiohttp logs
            return super().handle_error(request, status, exc)
        reason = f"this is no HTTP request that can be read: {_parser_error_line(message)}"
        return _RefusalResponse(request, RequestRefused(status, reason))


class _RefusalResponse(ResponseWriter):
    """An error response that is written when aiohttp calls `write_eof`."""

    def __init__(self, request: web.BaseRequest, refusal: RequestRefused) -> None:
        super().__init__(request)
        self.disable_keep_alive()
        self._refusal = refusal

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the whole response."""
        await send_error(self, OPAQUE, self._refusal)


class ConnectionFactory(web.Server):
    """Creates a `ClientConnection` for every client that connects."""

    def __call__(self) -> ClientConnection:
        """The protocol object of a new connection; asyncio calls this."""
        return ClientConnection(self, loop=self._loop, **self._kwargs)


async def read_body(request: web.BaseRequest, limits: RequestLimits) -> bytes:
    """The whole body of the request.

    Raises `RequestRefused` for a body that is too large, too slow or malformed, and for an
    `Expect` header other than 100-continue.
    """
    if (request.content_length or 0) > limits.max_body_bytes:
        raise _body_too_large_error(limits)
    if request.version >= HttpVersion11 and "Expect" in request.headers:
        _send_continue(request)
    content = request.content
    try:
        # Most bodies arrive with their heads, and need no timeout.
        body = await (
            content.read() if content.is_eof() else _read_with_idle_timeout(content, limits)
        )
    except TimeoutError:
        # Keeps aiohttp, too, from waiting for the rest of the body.
        request.content.set_exception(web.RequestPayloadError("given up"))
        raise RequestRefused(
            408,
            f"nothing of the request body came for {limits.body_idle_timeout_s:g} s: send it "
            "faster",
        ) from None
    except web.RequestPayloadError as error:
        raise RequestRefused(
            400, f"the request body is malformed: {_parser_error_line(str(error))}"
        ) from None
    if len(body) > limits.max_body_bytes:
        raise _body_too_large_error(limits)
    return body


async def _read_with_idle_timeout(content: StreamReader, limits: RequestLimits) -> bytes:
    chunks: list[bytes] = []
    body_bytes = 0
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(limits.body_idle_timeout_s) as timeout:
        while chunk := await content.readany():
            timeout.reschedule(loop.time() + limits.body_idle_timeout_s)
            chunks.append(chunk)
            body_bytes += len(chunk)
            if body_bytes > limits.max_body_bytes:
                raise _body_too_large_error(limits)
    return b"".join(chunks)


def _send_continue(request: web.BaseRequest) -> None:
    if request.headers["Expect"].lower() != "100-continue":
        raise RequestRefused(417, "the only expectation that is met is 100-continue")
    if request.transport is not None and not request.content.is_eof():
        request.transport.write(_CONTINUE_RESPONSE)


def _body_too_large_error(limits: RequestLimits) -> RequestRefused:
    return RequestRefused(
        413,
        f"the request body is larger than {limits.max_body_bytes} bytes: start llm-proxy with "
        "a larger "
        "--max-body",
    )


def _parser_error_line(text: str) -> str:
    """The first line of a parser error; the lines below it quote the bytes."""
    if (too_long := _LINE_TOO_LONG.match(text)) is not None:  # the message quotes the bytes
        return f"its first line or one of its headers is longer than {too_long[1]} bytes"
    return printable_excerpt(text.partition("\n")[0].rstrip(":"), _MAX_PARSER_ERROR_CHARS)
