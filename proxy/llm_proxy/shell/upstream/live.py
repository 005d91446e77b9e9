"""The live upstream: sends one request and streams its response.

Upstreams come from configuration alone.  Redirects are passed on, cookies are not kept, the
environment's proxies are not used, bodies are not decoded, and URLs are not re-quoted: what the
client asked is what the provider is asked, except that no content coding is wanted, and that
Bedrock is asked with the operator's signature where the operator says so.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from secrets import token_hex
from typing import Final, Self

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict
from yarl import URL

from llm_proxy import http_heads, providers
from llm_proxy.actions import Begin, Burst, Send, Wait
from llm_proxy.credentials import credential_spellings
from llm_proxy.errors import UpstreamFailed
from llm_proxy.exchange import Ending, Headers, Request, ResponseHead
from llm_proxy.pacing import abort_of_ending
from llm_proxy.ports import Recording
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.upstream import failures
from llm_proxy.shell.upstream.connection import UnexpectedBytes, UpstreamResponse
from llm_proxy.shell.upstream.connector import REUSED, CheckedConnector
from llm_proxy.shell.upstream.pump import ResponsePump
from llm_proxy.shell.upstream.settings import UpstreamSettings
from llm_proxy.shell.upstream.signing import BEDROCK, AwsSigner, refuse_signed

_AUTOMATIC: Final = (hdrs.USER_AGENT, hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.CONTENT_TYPE)
_GRACE: Final = 0.03
"""Seconds that a response has left when its client leaves: SDKs do at the provider's `[DONE]`,
with the end of the HTTP body still on its way."""
_UNTIL_SENT: Final = 2
"""Turns of the event loop in which a request goes out: aiohttp writes a body in a task."""
_LATE: Final = 0.1
"""Seconds after the last answer in which a response too many may come."""
_LARGE: Final = 512 * 1024
"""Bytes of a request body that are sent as one."""
_LARGEST_HEADER: Final = 64 * 1024
_BUFFER: Final = 512 * 1024


class LiveUpstream:
    """The providers, over the network.  Use it as an async context manager."""

    def __init__(self, settings: UpstreamSettings, signer: AwsSigner | None = None) -> None:
        """`signer` signs what is asked of Bedrock; it is closed with us."""
        self._settings = settings
        self._signer = signer
        self.identity = f"llm-proxy-{token_hex(8)}"
        """What this process calls itself where a request may come back to it: RFC 9110, 7.6.3."""
        self._stopping = False
        self._running: dict[asyncio.Task[None], ResponsePump] = {}
        self.recording_count = 0
        """Answers that came, and that were to be recorded."""
        self.surplus_responses: list[str] = []
        """Why answers may be each other's, a sentence for each connection."""

    async def __aenter__(self) -> Self:
        named, doubt = self.identity, self.surplus_responses.append
        self._kept = CheckedConnector(keep_alive=True, identity=named, doubt=doubt)
        fresh = CheckedConnector(keep_alive=False, identity=named, doubt=doubt)
        self._make_session = _make_session(self._settings, self._kept)
        self._fresh = _make_session(self._settings, fresh)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop_all()
        if self._kept.has_multiple_responses:
            await asyncio.sleep(_LATE)  # for a response too many that is on its way
            self._kept.check_idle()
        # No limit is needed: without a shutdown timeout aiohttp says no farewell, to TLS neither.
        await self._make_session.close()
        await self._fresh.close()
        if self._signer is not None:
            self._signer.close()

    @property
    def active_count(self) -> int:
        """Responses that are not over."""
        return len(self._running)

    async def stop_all(self) -> None:
        """End every response that is not over, as `killed`: the proxy stops."""
        self._stopping = True
        for pump in list(self._running.values()):
            await pump.stop(Ending.KILLED)

    async def stream(
        self, routed: RoutedRequest, record: Callable[[], Recording] | None
    ) -> AsyncGenerator[Burst, None]:
        """Ask the provider, and give its answer as it arrives.

        `record` is called once the request is on its way.  Raises `UpstreamFailed` before the
        first burst when there is no answer, and `RequestRefused` for what cannot be asked.
        """
        sent, url = await self._upstream_request(routed)
        pump = ResponsePump(
            routed, lambda: self._open_response(routed, sent, url), self._settings.idle_timeout
        )
        self._running[pump.task] = pump
        pump.task.add_done_callback(
            lambda task: self._is_finished(task, is_recorded=record is not None)
        )
        try:
            try:
                for _ in range(_UNTIL_SENT):
                    await asyncio.sleep(0)
            finally:  # which a client that leaves at once does not change
                recording = record() if record is not None else None
                if recording is not None and sent is not routed.request:
                    recording.redact_secrets(credential_spellings(sent))
                pump.set_recording(recording)
            head = await pump.head()
            yield Wait(pump.head_at), Begin(head)
            async with aclosing(pump.bursts()) as bursts:
                async for reads in bursts:
                    yield tuple(
                        wait for read in reads for wait in (Wait(read.at_ms), Send(read.data))
                    )
            if pump.ending is not None and (abort := abort_of_ending(pump.ending)) is not None:
                yield (abort,)
        finally:
            await self._on_client_done(pump)

    def _is_finished(self, task: asyncio.Task[None], *, is_recorded: bool) -> None:
        pump = self._running.pop(task)
        self.recording_count += is_recorded and pump.has_head

    async def _on_client_done(self, pump: ResponsePump) -> None:
        if pump.task.done():
            return
        pump.release_client()
        if self._stopping:
            await pump.stop(Ending.KILLED)
        elif not self._settings.finish_on_disconnect:
            try:
                await pump.wait_finished(_GRACE)
            finally:  # the one who waits may be cancelled as well
                await pump.stop(Ending.CLIENT_GONE)

    async def _upstream_request(self, routed: RoutedRequest) -> tuple[Request, URL]:
        """The request as the provider gets it, and where."""
        sent = routed.request
        if routed.provider == BEDROCK and self._signer is None:
            refuse_signed(sent)
        elif routed.provider == BEDROCK and self._signer is not None:
            sent = await self._signer.sign_request(
                sent, lambda request: str(self._upstream_url(routed, request))
            )
        return sent, self._upstream_url(routed, sent)

    def _upstream_url(self, routed: RoutedRequest, sent: Request) -> URL:
        base = providers.upstream_address(routed.provider, self._settings.base_urls)
        if base is None and routed.provider == BEDROCK and self._signer is not None:
            base = providers.bedrock_url(sent.path, self._signer.region)
        if base is None:
            raise UpstreamFailed(
                502,
                f"no upstream is known for {routed.request.method} {routed.stored_request.path} "
                f"(provider "
                f"{routed.provider}): start llm-proxy with --upstream {routed.provider}=URL",
            )
        instead = routed.provider in self._settings.in_place_of_v1
        return URL(
            providers.join_url(base, sent.request_target, in_place_of_v1=instead), encoded=True
        )

    async def _open_response(
        self, routed: RoutedRequest, sent: Request, url: URL
    ) -> tuple[UpstreamResponse, ResponseHead]:
        try:
            try:
                response = await self._send_request(self._make_session, sent, url)
            except UnexpectedBytes:
                response = await self._send_request(self._fresh, sent, url)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # A kept-alive connection that the provider had dropped: once more, on a new one.
                kept = REUSED.get()
                if kept is None or kept.flag:
                    raise
                response = await self._send_request(self._fresh, sent, url)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise failures.upstream_failure(error, routed, url, self._settings) from error
        head = _head(response, routed.request.method)
        if (refused := failures.head_refusal(head, routed, url)) is not None:
            response.close()
            raise refused
        return response, head

    async def _send_request(
        self, session: aiohttp.ClientSession, sent: Request, url: URL
    ) -> UpstreamResponse:
        async with asyncio.timeout(self._settings.idle_timeout):
            response = await session.request(
                sent.method,
                url,
                headers=_request_headers(sent.headers),
                data=_request_body(sent.body),
                allow_redirects=False,
                proxy=self._settings.proxy,
            )
        assert isinstance(response, UpstreamResponse)  # noqa: S101 # `_session` makes no other
        return response


def _make_session(settings: UpstreamSettings, connector: CheckedConnector) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=connector,
        response_class=UpstreamResponse,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        raise_for_status=False,
        skip_auto_headers=_AUTOMATIC,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout),
        read_bufsize=_BUFFER,
        max_line_size=_LARGEST_HEADER,
        max_field_size=_LARGEST_HEADER,
    )
    # aiohttp would ask twice, whether or not the connection was fresh, wherever GET is asked.
    session._retry_connection = False  # noqa: SLF001 # there is no public way; a test pins it
    return session


def _request_headers(headers: Headers) -> CIMultiDict[str]:
    return CIMultiDict(
        (name, _utf8_of_latin1(value)) for name, value in http_heads.forwarded_headers(headers)
    )


def _request_body(body: bytes) -> bytes | io.BytesIO | None:
    """The body as aiohttp takes it: it warns of many bytes at once, and sends a file in pieces."""
    if len(body) > _LARGE:
        return io.BytesIO(body)
    return body or None


def _utf8_of_latin1(value: str) -> str:
    """A header value such that aiohttp, which writes UTF-8, writes the bytes that came.

    Of bytes that are no UTF-8 it writes the characters that they are in Latin-1.
    """
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return value


def _head(response: aiohttp.ClientResponse, method: str) -> ResponseHead:
    fields = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers
    )
    reason = (response.reason or "").encode("utf-8", "surrogateescape").decode("latin-1")
    return http_heads.response_head(response.status, reason, fields, method)
