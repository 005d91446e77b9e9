"""Receives a request: its connection, guards, expectation, body, content coding and retries.

aiohttp parses requests, but loses an error between its parser and the reader of a body: when a
malformed chunk arrives after the request was delivered, the reader would wait for ever.  Here it
gets the error.  Input that the parser rejects gets an error response of the proxy.

Messages quote client input in ASCII only: bytes that are not UTF-8 arrive as lone surrogates,
which JSON cannot hold.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import itertools
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from aiohttp import HttpVersion11, web
from aiohttp.http import RawRequestMessage
from aiohttp.streams import StreamReader

from llm_proxy.dialects import OPAQUE
from llm_proxy.errors import RequestRefused, printable_excerpt
from llm_proxy.exchange import Request
from llm_proxy.redaction import PLACEHOLDER, displayable_target, redact_text
from llm_proxy.routing import RoutedRequest, RoutingSettings
from llm_proxy.shell.content_decoders import InvalidContentCoding, new_decoder
from llm_proxy.shell.server.response_writer import ResponseWriter, send_error
from llm_proxy.take_numbers import LogicalRequest

_CONTINUE_RESPONSE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINE_TOO_LONG: Final = re.compile(r"(?:\d+, message:\s*)?Got more than (\d+) bytes when reading")
_MAX_PARSER_ERROR_CHARS: Final = 200
"""Maximum length of a parser error in a response."""
_MAX_OPEN_REQUESTS: Final = 10_000
"""Maximum number of open requests that are remembered, the latest."""
_HOST_HEADER: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:]+)\]|(?P<name>[^\[\]:@/\s]+))(?::(?P<port>[0-9]+))?"
)


@dataclass(frozen=True, slots=True)
class RequestGuards:
    """Which requests are accepted, by host, origin and `Via`.

    Listening on localhost alone is no protection: a web page can reach the proxy by DNS rebinding
    or by a cross-site POST.  So the `Host` must be the proxy's, and a browser's request must not
    come from another origin.
    """

    allow_hosts: frozenset[str] = frozenset()
    """Further host names of the proxy, such as a container's."""
    allow_origins: frozenset[str] = frozenset()
    """Origins of web pages that may send requests."""
    via_pseudonym: str = ""
    """The pseudonym of this process in `Via`; empty if it has no upstream."""

    def check(self, request: web.BaseRequest) -> None:
        """Raise `RequestRefused` for a request that is not meant for this proxy."""
        target = request.raw_path
        if not target.startswith("/"):
            shown = redact_text(displayable_target(target))
            raise RequestRefused(
                400,
                f"{shown!a} is not a path; llm-proxy cannot be used as a forward proxy; "
                "set the base URL of the client to the address of llm-proxy",
            )
        if request.version < HttpVersion11 and "Transfer-Encoding" in request.headers:
            raise RequestRefused(
                400, "HTTP/1.0 does not support Transfer-Encoding; send a Content-Length header"
            )
        if request.headers.get("Upgrade", "").lower() == "websocket":
            raise RequestRefused(426, "WebSockets are not supported; use the provider's HTTP API")
        if self.via_pseudonym and self.via_pseudonym in ",".join(request.headers.getall("Via", [])):
            raise RequestRefused(508, "request loop: an --upstream URL leads back to this proxy")
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1:
            raise RequestRefused(400, f"expected one Host header, got {len(hosts)}")
        sockname = request.transport and request.transport.get_extra_info("sockname")
        port = sockname[1] if sockname else None
        if not _is_own_host(hosts[0], port, self.allow_hosts):
            name, _ = _split_host(hosts[0])
            if _is_local_name(name):
                raise RequestRefused(
                    421,
                    f"wrong port in the Host header {hosts[0]!a}: this proxy listens on port "
                    f"{port}; if the port is mapped, start llm-proxy with --allow-host {name}",
                )
            raise RequestRefused(
                421,
                f"unknown host {hosts[0]!a} in the Host header; start llm-proxy with --allow-host "
                "NAME to allow it",
            )

        origin = request.headers.get("Origin")
        if origin in self.allow_origins:
            return
        site = request.headers.get("Sec-Fetch-Site", "none")
        if origin is not None or site in {"cross-site", "same-site"}:
            page = f"{origin!a}" if origin is not None else "another site"
            raise RequestRefused(
                403,
                f"requests from web pages of {page} are not allowed; to allow these requests, "
                "start "
                "llm-proxy with --allow-origin ORIGIN",
            )


@lru_cache(64)  # one client always sends the same header
def _is_own_host(host: str, port: int | None, allowed: frozenset[str]) -> bool:
    name, named_port = _split_host(host)
    if name in allowed or host.lower() in allowed:
        return True
    return _is_local_name(name) and (named_port or "80") == str(port)


def _split_host(host: str) -> tuple[str, str]:
    """Name and port of a Host header; the port may be empty, and both are if it is malformed."""
    match = _HOST_HEADER.fullmatch(host)
    if match is None:
        return "", ""
    return (match["v6"] or match["name"]).lower(), match["port"] or ""


def _is_local_name(name: str) -> bool:
    """Whether this name always means the local machine: localhost or a loopback address."""
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback and getattr(address, "ipv4_mapped", None) is None


@dataclass(slots=True)
class _OpenRequest:
    """A request that may be retried: it is still running, or has failed."""

    logical_request: LogicalRequest
    fingerprint: bytes
    has_failed: bool = False


class RetryTracker:
    """Assigns the attempts of a client to logical requests.

    The SDKs of OpenAI and Anthropic send the number of previous attempts, but not which request
    they retry.  That is inferred from the outcome of the identical requests: one that failed, else
    one that is still running, whose client timed out.
    """

    def __init__(self) -> None:
        self._request_numbers = itertools.count(1)
        self._open_requests: dict[int, _OpenRequest] = {}
        """By the number of the logical request, in the order of their latest attempts."""

    def assign_logical_request(self, routed: RoutedRequest) -> RoutedRequest:
        """The routed request with its logical request: a new one, or the one that it retries."""
        request = routed.decompressed_request
        digest = hashlib.sha256(request.body)
        for part in (routed.session, routed.provider, request.method, request.path, request.query):
            digest.update(b"\n" + part.encode("utf-8", "surrogateescape"))
        fingerprint = digest.digest()
        retry_count = routed.sdk_retry_count or 0
        preceding_attempts = [
            open_request
            for open_request in (self._open_requests.values() if retry_count else ())
            if open_request.fingerprint == fingerprint
            and open_request.logical_request.attempt_index == retry_count - 1
        ]
        if preceding_attempts:
            preceding = max(preceding_attempts, key=lambda attempt: attempt.has_failed)
            logical_request = replace(preceding.logical_request, attempt_index=retry_count)
            del self._open_requests[logical_request.number]
        else:
            logical_request = LogicalRequest(next(self._request_numbers), retry_count)
        self._open_requests[logical_request.number] = _OpenRequest(logical_request, fingerprint)
        if len(self._open_requests) > _MAX_OPEN_REQUESTS:
            del self._open_requests[next(iter(self._open_requests))]
        return replace(routed, logical_request=logical_request)

    def end_attempt(self, routed: RoutedRequest, *, succeeded: bool) -> None:
        """End an attempt; a request that succeeded is no longer open."""
        logical_request = routed.logical_request
        open_request = self._open_requests.get(logical_request.number) if logical_request else None
        if open_request is None or open_request.logical_request != logical_request:
            return  # a later attempt took its place
        if succeeded:
            del self._open_requests[open_request.logical_request.number]
        else:
            open_request.has_failed = True


@dataclass(frozen=True, slots=True)
class RequestAdmission:
    """How requests are admitted: guards, limits, routing settings and retry detection."""

    guards: RequestGuards = field(default_factory=RequestGuards)
    max_body_bytes: int = 64 * 1024 * 1024
    """Maximum size of a request body."""
    body_idle_timeout_s: float = 60.0
    """Maximum silence within a request body, in seconds."""
    routing_settings: RoutingSettings = field(default_factory=RoutingSettings)
    retry_tracker: RetryTracker | None = None
    """Groups the attempts of a request; None counts each as a request of its own."""


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
        reason = f"malformed HTTP request: {_parser_error_line(message)}"
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


async def read_body(request: web.BaseRequest, admission: RequestAdmission) -> bytes:
    """The whole body of the request.

    Raises `RequestRefused` for a body that is too large, too slow or malformed, and for an
    `Expect` header other than 100-continue.
    """
    if (request.content_length or 0) > admission.max_body_bytes:
        raise _body_too_large_error(admission.max_body_bytes)
    content = request.content
    if request.version >= HttpVersion11 and "Expect" in request.headers:
        if request.headers["Expect"].lower() != "100-continue":
            raise RequestRefused(
                417, "unsupported Expect header; the only supported value is 100-continue"
            )
        if request.transport is not None and not content.is_eof():
            request.transport.write(_CONTINUE_RESPONSE)
    try:
        # Most bodies arrive with their heads, and need no timeout.
        body = await (
            content.read() if content.is_eof() else _read_with_idle_timeout(content, admission)
        )
    except TimeoutError:
        # Keeps aiohttp, too, from waiting for the rest of the body.
        content.set_exception(web.RequestPayloadError("given up"))
        raise RequestRefused(
            408, f"no request body data arrived for {admission.body_idle_timeout_s:g} s"
        ) from None
    except web.RequestPayloadError as error:
        raise RequestRefused(
            400, f"malformed request body: {_parser_error_line(str(error))}"
        ) from None
    if len(body) > admission.max_body_bytes:
        raise _body_too_large_error(admission.max_body_bytes)
    return body


async def _read_with_idle_timeout(content: StreamReader, admission: RequestAdmission) -> bytes:
    chunks: list[bytes] = []
    body_bytes = 0
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(admission.body_idle_timeout_s) as timeout:
        while chunk := await content.readany():
            timeout.reschedule(loop.time() + admission.body_idle_timeout_s)
            chunks.append(chunk)
            body_bytes += len(chunk)
            if body_bytes > admission.max_body_bytes:
                raise _body_too_large_error(admission.max_body_bytes)
    return b"".join(chunks)


def _body_too_large_error(max_body_bytes: int) -> RequestRefused:
    return RequestRefused(
        413,
        f"the request body is larger than {max_body_bytes} bytes; start llm-proxy with "
        "a larger --max-body",
    )


def _parser_error_line(text: str) -> str:
    """The first line of a parser error; the lines below it quote the bytes."""
    if (too_long := _LINE_TOO_LONG.match(text)) is not None:  # the message quotes the bytes
        return f"the request line or a header is longer than {too_long[1]} bytes"
    return printable_excerpt(text.partition("\n")[0].rstrip(":"), _MAX_PARSER_ERROR_CHARS)


async def decompress_request(request: Request, max_bytes: int) -> Request | None:
    """The request without its content coding; None if it has none.

    The provider gets the body as the client sent it.  The stored body is decompressed: secrets
    cannot be found in compressed bytes, and compressors differ in their output.  A body that
    cannot be decoded to at most `max_bytes` is replaced by one line with the error and a hash of
    the body.
    """
    codings = [
        coding.strip()
        for name, value in request.headers
        if name.lower() == "content-encoding"
        for coding in value.lower().split(",")
        if coding.strip() not in {"", "identity"}
    ]
    if not codings or not request.body:
        return None
    # In a thread, even for a small body: a few bytes may take a second to decompress.
    body = await asyncio.to_thread(_decompress_all, request.body, codings[::-1], max_bytes)
    headers = tuple(header for header in request.headers if header[0].lower() != "content-encoding")
    return replace(request, headers=headers, body=body)


def _decompress_all(body: bytes, codings: list[str], max_bytes: int) -> bytes:
    try:
        for coding in codings:
            body = _decompress(body, coding, max_bytes)
    except InvalidContentCoding as error:
        digest = hashlib.sha256(body).hexdigest()
        return f"{PLACEHOLDER} body in {', '.join(codings)}: {error}; sha256 {digest}".encode()
    return body


def _decompress(body: bytes, coding: str, max_bytes: int) -> bytes:
    decoder = new_decoder(coding)
    if decoder is None:
        raise InvalidContentCoding("it cannot be decoded here")
    decompressed = bytearray()
    for piece in decoder.decode(body):
        decompressed += piece
        if len(decompressed) > max_bytes:
            raise InvalidContentCoding(f"it decodes to more than {max_bytes} bytes")
    decoder.raise_if_truncated()
    return bytes(decompressed)
