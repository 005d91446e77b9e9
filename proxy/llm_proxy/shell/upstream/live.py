"""The live upstream: sends one request and streams its response.

Upstreams come from configuration alone.  Redirects are passed on, cookies are not kept, the
environment's proxies are not used, bodies are not decoded, and URLs are not re-quoted: the
provider gets the client's request, except that it requests no content coding, and that requests
for AWS are signed with the operator's credentials if so configured.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from secrets import token_hex
from typing import Final, Self

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict
from yarl import URL

from llm_proxy import providers
from llm_proxy.actions import Begin, Burst, Send, Wait
from llm_proxy.errors import UpstreamFailed
from llm_proxy.exchange import (
    Ending,
    Headers,
    Request,
    ResponseHead,
    forwarded_request_headers,
    head_lines,
    header_value,
    response_head,
)
from llm_proxy.pacing import abort_of_ending
from llm_proxy.ports import StartRecording
from llm_proxy.redaction import request_credential_spellings
from llm_proxy.routing import ERROR_HEADER, RoutedRequest
from llm_proxy.shell.upstream.connection import (
    REUSED_CONNECTION,
    CheckedConnector,
    UnexpectedBytes,
    UpstreamResponse,
)
from llm_proxy.shell.upstream.pump import ResponsePump
from llm_proxy.shell.upstream.signing import AwsSigner, refuse_sigv4_request

_SKIPPED_AUTO_HEADERS: Final = (
    hdrs.USER_AGENT,
    hdrs.ACCEPT,
    hdrs.ACCEPT_ENCODING,
    hdrs.CONTENT_TYPE,
)
_CLIENT_GONE_GRACE_S: Final = 0.03
"""Seconds that a response may still take when its client leaves: SDKs leave at the provider's
`[DONE]`, before the end of the HTTP body arrives."""
_LOOP_PASSES_UNTIL_SENT: Final = 2
"""Iterations of the event loop until a request is sent: aiohttp writes a body in a task."""
_SURPLUS_WAIT_S: Final = 0.1
"""Seconds to wait for surplus responses after the last response."""
_MAX_SINGLE_WRITE_BYTES: Final = 512 * 1024
"""Largest request body that is sent in one write."""
_MAX_HEADER_BYTES: Final = 64 * 1024
_READ_BUFFER_BYTES: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """Base URLs of the providers, timeouts and the HTTP proxy."""

    base_urls: Mapping[str, str]
    """Base URLs by provider name; `default` applies to the providers without an entry."""
    replacing_v1: frozenset[str] = frozenset()
    """Providers whose base URL replaces the `/v1` that a request target begins with."""
    idle_timeout_s: float = 300.0
    """Maximum silence in seconds, before the head and between reads."""
    connect_timeout_s: float = 10.0
    """Maximum time to connect, in seconds."""
    proxy_url: str | None = None
    """URL of the HTTP proxy to use, if any."""
    finish_on_disconnect: bool = False
    """Whether a response is read to its end for the recording after the client has left."""
    signs_requests: bool = False
    """Whether requests for AWS are signed with the operator's credentials."""


class LiveUpstream:
    """Sends requests to the providers over the network.  Use it as an async context manager."""

    def __init__(self, settings: UpstreamSettings) -> None:
        self._settings = settings
        self._signer: AwsSigner | None = None
        self.via_pseudonym = f"llm-proxy-{token_hex(8)}"
        """The pseudonym of this process in `Via` headers: RFC 9110, 7.6.3."""
        self._is_stopping = False
        self._pumps: dict[asyncio.Task[None], ResponsePump] = {}
        self.recorded_response_count = 0
        """Finished responses that had a head and were to be recorded."""
        self.surplus_warnings: list[str] = []
        """Why recorded responses may be mixed up, one sentence for each connection."""

    async def __aenter__(self) -> Self:
        """Raises `UsageError` if requests are to be signed, and cannot be."""
        if self._settings.signs_requests:
            url = providers.upstream_url(providers.SIGNED_PROVIDER, self._settings.base_urls)
            self._signer = await asyncio.to_thread(AwsSigner, url)
        via_pseudonym, on_surplus_response = self.via_pseudonym, self.surplus_warnings.append
        self._keep_alive_connector = CheckedConnector(
            keep_alive=True, via_pseudonym=via_pseudonym, on_surplus_response=on_surplus_response
        )
        fresh_connector = CheckedConnector(
            keep_alive=False, via_pseudonym=via_pseudonym, on_surplus_response=on_surplus_response
        )
        self._keep_alive_session = _make_session(self._settings, self._keep_alive_connector)
        self._fresh_session = _make_session(self._settings, fresh_connector)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop_all()
        if self._keep_alive_connector.has_multi_response_connection:
            await asyncio.sleep(_SURPLUS_WAIT_S)  # a surplus response may still arrive
            self._keep_alive_connector.close_idle_with_surplus()
        # No limit is needed: without a shutdown timeout aiohttp closes abruptly, TLS included.
        await self._keep_alive_session.close()
        await self._fresh_session.close()
        if self._signer is not None:
            self._signer.close()

    @property
    def active_response_count(self) -> int:
        """Responses that are still being read."""
        return len(self._pumps)

    async def stop_all(self) -> None:
        """End every response that is still being read, as `killed`: the proxy stops."""
        self._is_stopping = True
        for pump in list(self._pumps.values()):
            await pump.stop(Ending.KILLED)

    async def stream(
        self, routed: RoutedRequest, record: StartRecording | None
    ) -> AsyncGenerator[Burst, None]:
        """Send the request to its provider, and yield the response as it arrives.

        `record` is called once the request is being sent.  Raises `UpstreamFailed` before the
        first burst if there is no response, and `RequestRefused` for a request that cannot be
        sent.
        """
        upstream_request, url = await self._prepare_upstream_request(routed)
        pump = ResponsePump(
            routed,
            lambda: self._open_response(routed, upstream_request, url),
            self._settings.idle_timeout_s,
        )
        self._pumps[pump.task] = pump
        pump.task.add_done_callback(
            lambda task: self._on_pump_done(task, is_recorded=record is not None)
        )
        try:
            try:
                for _ in range(_LOOP_PASSES_UNTIL_SENT):
                    await asyncio.sleep(0)
            finally:  # also when the client leaves at once
                recording = None
                if record is not None:
                    is_changed = upstream_request is not routed.request
                    recording = record(
                        request_credential_spellings(upstream_request)
                        if is_changed
                        else frozenset()
                    )
                pump.set_recording(recording)
            head = await pump.wait_for_head()
            yield Wait(pump.head_at_ms), Begin(head)
            async with aclosing(pump.read_batches()) as bursts:
                async for reads in bursts:
                    yield tuple(
                        wait
                        for read in reads
                        for wait in (Wait(read.at_ms), Send(read.received_bytes))
                    )
            if pump.ending is not None and (abort := abort_of_ending(pump.ending)) is not None:
                yield (abort,)
        finally:
            await self._on_client_done(pump)

    def _on_pump_done(self, task: asyncio.Task[None], *, is_recorded: bool) -> None:
        pump = self._pumps.pop(task)
        self.recorded_response_count += is_recorded and pump.has_head

    async def _on_client_done(self, pump: ResponsePump) -> None:
        if pump.task.done():
            return
        pump.detach_client()
        if self._is_stopping:
            await pump.stop(Ending.KILLED)
        elif not self._settings.finish_on_disconnect:
            try:
                await pump.wait_until_done(_CLIENT_GONE_GRACE_S)
            finally:  # the waiting task may be cancelled as well
                await pump.stop(Ending.CLIENT_GONE)

    async def _prepare_upstream_request(self, routed: RoutedRequest) -> tuple[Request, URL]:
        """The request as the provider gets it, and its URL."""
        upstream_request = routed.request
        if routed.provider == providers.SIGNED_PROVIDER:
            if self._signer is None:
                refuse_sigv4_request(upstream_request)
            else:
                upstream_request = await self._signer.sign_request(
                    upstream_request, lambda request: str(self._upstream_url(routed, request))
                )
        return upstream_request, self._upstream_url(routed, upstream_request)

    def _upstream_url(self, routed: RoutedRequest, upstream_request: Request) -> URL:
        base_url = providers.upstream_url(routed.provider, self._settings.base_urls)
        if base_url is None and self._signer and routed.provider == providers.SIGNED_PROVIDER:
            base_url = providers.signed_url(upstream_request.path, self._signer.region)
        if base_url is None:
            is_signable = routed.provider == providers.SIGNED_PROVIDER
            signing = "--sign aws, or with " if is_signable else ""
            raise UpstreamFailed(
                502,
                f"no upstream is set for {routed.request.method} {routed.stored_request.path} "
                f"(provider {routed.provider}); start llm-proxy with "
                f"{signing}--upstream {routed.provider}=URL",
            )
        replaces_v1 = routed.provider in self._settings.replacing_v1
        return URL(
            providers.join_url(base_url, upstream_request.request_target, replaces_v1=replaces_v1),
            encoded=True,
        )

    async def _open_response(
        self, routed: RoutedRequest, upstream_request: Request, url: URL
    ) -> tuple[UpstreamResponse, ResponseHead]:
        try:
            try:
                response = await self._send_request(self._keep_alive_session, upstream_request, url)
            except UnexpectedBytes:
                response = await self._send_request(self._fresh_session, upstream_request, url)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # The provider had dropped a kept-alive connection: retry on a new one.
                reused = REUSED_CONNECTION.get()
                if reused is None or reused.has_response_bytes:
                    raise
                response = await self._send_request(self._fresh_session, upstream_request, url)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _upstream_failure(error, routed, url, self._settings) from error
        head = _response_head(response, routed.request.method)
        if (failure := _response_head_failure(head, routed, url)) is not None:
            response.close()
            raise failure
        return response, head

    async def _send_request(
        self, session: aiohttp.ClientSession, upstream_request: Request, url: URL
    ) -> UpstreamResponse:
        async with asyncio.timeout(self._settings.idle_timeout_s):
            response = await session.request(
                upstream_request.method,
                url,
                headers=_request_headers(upstream_request.headers),
                data=_request_body(upstream_request.body),
                allow_redirects=False,
                proxy=self._settings.proxy_url,
            )
        assert isinstance(response, UpstreamResponse)  # noqa: S101 # `_make_session` sets it
        return response


def _make_session(settings: UpstreamSettings, connector: CheckedConnector) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=connector,
        response_class=UpstreamResponse,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        raise_for_status=False,
        skip_auto_headers=_SKIPPED_AUTO_HEADERS,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout_s),
        read_bufsize=_READ_BUFFER_BYTES,
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
    )
    # aiohttp would retry every GET, even one on a new connection.
    session._retry_connection = False  # noqa: SLF001 # no public API; a test pins it
    return session


def _request_headers(headers: Headers) -> CIMultiDict[str]:
    return CIMultiDict(
        (name, _redecode_as_utf8(value)) for name, value in forwarded_request_headers(headers)
    )


def _request_body(body: bytes) -> bytes | io.BytesIO | None:
    """The body as aiohttp wants it: it warns of large bytes, and sends a file in pieces."""
    if len(body) > _MAX_SINGLE_WRITE_BYTES:
        return io.BytesIO(body)
    return body or None


def _redecode_as_utf8(value: str) -> str:
    """A Latin-1 header value as UTF-8 text, so that aiohttp, which writes UTF-8, writes its bytes.

    Bytes that are not UTF-8 are written as the Latin-1 characters that they stand for.
    """
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return value


def _response_head(response: aiohttp.ClientResponse, method: str) -> ResponseHead:
    fields = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers
    )
    reason = (response.reason or "").encode("utf-8", "surrogateescape").decode("latin-1")
    return response_head(response.status, reason, fields, method)


def _response_head_failure(
    head: ResponseHead, routed: RoutedRequest, url: URL
) -> UpstreamFailed | None:
    """Why a response with this head cannot be passed on; None if it can.

    The reason is an invalid head (502), or a loop through another llm-proxy (508).
    """
    if reason := _invalid_head_reason(head):
        return UpstreamFailed(
            502, f"{_target_description(routed, url)} sent an invalid HTTP response: {reason}"
        )
    if head.status == HTTPStatus.LOOP_DETECTED and header_value(head.headers, ERROR_HEADER):
        hint = f"set --upstream {routed.provider}=URL to the provider's own address"
        reason = "is a proxy that has already forwarded this request (a loop)"
        return UpstreamFailed(508, f"{_target_description(routed, url)} {reason}; {hint}")
    return None


def _invalid_head_reason(head: ResponseHead) -> str:
    """What makes this head invalid; empty if it is valid."""
    if head.status == HTTPStatus.SWITCHING_PROTOCOLS:
        return "status 101 without an upgrade request"
    if head.status < HTTPStatus.OK:  # aiohttp has dropped other 1xx responses
        return f"status {head.status}"
    try:
        head_lines(head)
    except ValueError:
        return "the status line or a header contains a control character"
    return ""


def _upstream_failure(
    error: Exception, routed: RoutedRequest, url: URL, settings: UpstreamSettings
) -> UpstreamFailed:
    """The error to respond with when an attempt failed with `error`."""
    upstream = _target_description(routed, url)
    hint = f"check that the upstream is running, or set --upstream {routed.provider}=URL"
    if settings.proxy_url is not None:
        if (proxy_failure := _upstream_proxy_failure(error, URL(settings.proxy_url))) is not None:
            return UpstreamFailed(502, f"--upstream-proxy {settings.proxy_url} {proxy_failure}")
        upstream += f" through --upstream-proxy {settings.proxy_url}"
    match error:
        case aiohttp.ServerTimeoutError():
            return UpstreamFailed(
                502,
                f"{upstream} could not be reached within {settings.connect_timeout_s:g} s; {hint}",
            )
        case TimeoutError():
            return UpstreamFailed(
                504, f"{upstream} did not respond within {settings.idle_timeout_s:g} s"
            )
        case aiohttp.ClientConnectorError():
            return UpstreamFailed(
                502, f"{upstream} cannot be reached ({os_error_text(error.os_error)}); {hint}"
            )
        case UnexpectedBytes():
            return UpstreamFailed(502, f"{upstream} sent data before it received the request")
        case aiohttp.ServerDisconnectedError() | OSError():
            return UpstreamFailed(502, f"{upstream} closed the connection without a response")
        case aiohttp.ClientResponseError():  # its message quotes upstream bytes, secrets included
            return UpstreamFailed(502, f"{upstream} did not send a valid HTTP response")
        case _:
            return UpstreamFailed(502, f"the request to {upstream} failed ({type(error).__name__})")


def _upstream_proxy_failure(error: Exception, proxy: URL) -> str | None:
    """The message for a failure of the operator's HTTP proxy itself; None for any other failure."""
    match error:
        case aiohttp.ClientHttpProxyError():
            return (
                f"refused to connect to the upstream (HTTP {error.status}); configure this proxy "
                "to allow the upstream's host, or start llm-proxy with another --upstream-proxy"
            )
        case aiohttp.ClientConnectorError() if (error.host, error.port) == (proxy.host, proxy.port):
            return (
                f"cannot be reached ({os_error_text(error.os_error)}); check that the proxy is "
                "running, or start llm-proxy with another --upstream-proxy"
            )
        case _:
            return None


def os_error_text(error: OSError) -> str:
    """The reason, without the number and the address that asyncio adds."""
    if error.errno is None or isinstance(error, ssl.SSLError | socket.gaierror):
        return str(error.strerror or error)
    return os.strerror(error.errno)


def _target_description(routed: RoutedRequest, url: URL) -> str:
    return f"the upstream {url.origin()} (provider {routed.provider})"
