"""The behaviour of aiohttp on which llm-proxy relies, tested against aiohttp itself.

Each test names the code of ours that relies on it.  If one fails after an upgrade, check that
code.  Some pin a defect that we work around; once it is fixed, the workaround may go.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import http_parser, web
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDict
from yarl import URL

from case_tables import each_row
from raw_http import build_http_request, send_request
from stub_upstream import Connection, Script, fixed_length, upstream
from waiting import wait_until

IN_C = http_parser.HttpResponseParser is not http_parser.HttpResponseParserPy
GET = b"GET /%7E[x]?q=%7E HTTP/1.1\r\n\r\n"


@asynccontextmanager
async def response_of(
    *scripts: Script, method: str = "GET", **options: Any
) -> AsyncIterator[aiohttp.ClientResponse]:
    """The response of an upstream that runs these scripts."""
    async with upstream(*scripts) as provider, aiohttp.ClientSession(**options) as session:
        async with session.request(
            method, provider.url, timeout=aiohttp.ClientTimeout()
        ) as response:
            yield response


def write_script(
    data: bytes, then: Callable[[Connection], Awaitable[None]] | None = None
) -> Script:
    """A script that writes `data` at once."""

    async def script(connection: Connection) -> None:
        await connection.send(data)
        if then is not None:
            await then(connection)

    return script


async def hold(connection: Connection) -> None:
    with suppress(ConnectionError):
        await connection.reader.read(1)


async def fin(connection: Connection) -> None:
    connection.fin()


async def rst(connection: Connection) -> None:
    await connection.rst()


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


# --- the body of a response ---------------------------------------------------------------------


async def test_a_late_reader_is_refused_what_arrived_before_an_error_and_may_ask_again() -> None:
    """`ResponsePump._drain_content` clears the error and reads on; else these bytes are lost."""
    async with response_of(write_script(CHUNKED + b"5\r\nhello\r\n", fin)) as response:
        content = response.content
        await wait_until(lambda: content.exception() is not None)
        with pytest.raises(aiohttp.ClientPayloadError):
            await content.readchunk()
        with pytest.raises(aiohttp.ClientPayloadError):
            content.read_nowait()
        content.set_exception(cast("Any", None))
        assert content.read_nowait() == b"hello"
        assert content.read_nowait() == b""


@pytest.mark.skipif(not IN_C, reason="a defect of the parser in C")
async def test_the_reader_of_a_malformed_chunk_is_forgotten_while_the_protocol_knows() -> None:
    """`UpstreamProtocol.set_exception` passes the error to the reader; `sock_read` would not."""
    first_chunk_read = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.send(CHUNKED + b"5\r\nhello\r\n")
        await first_chunk_read.wait()
        await connection.send(b"zz\r\n")
        await hold(connection)

    async with response_of(script) as response:
        assert response.connection is not None
        protocol = response.connection.protocol
        assert protocol is not None
        closed = protocol.closed
        assert closed is not None
        assert await response.content.readchunk() == (b"hello", True)
        waiting = asyncio.ensure_future(response.content.readchunk())
        first_chunk_read.set()
        async with asyncio.timeout(20):
            await closed
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()
        assert isinstance(protocol.exception(), HttpProcessingError)
        assert response.content.exception() is None
        waiting.cancel()


@pytest.mark.skipif(not IN_C, reason="a defect of the parser in C")
async def test_a_head_is_lost_when_a_malformed_body_arrives_with_it() -> None:
    """`UpstreamProtocol.data_received` feeds the head to the parser separately."""
    with pytest.raises(aiohttp.ClientResponseError):
        async with response_of(write_script(CHUNKED + b"5\r\nhello\r\nzz\r\n", hold)):
            pass


async def test_the_parser_gives_each_head_to_a_method_also_that_of_a_1xx() -> None:
    """`UpstreamProtocol.feed_data` learns there that another head follows."""
    codes: list[int] = []

    class RecordingHandler(ResponseHandler):
        def feed_data(self, data: Any, size: int = 0) -> None:
            codes.append(data[0].code)
            super().feed_data(data, size)

    class RecordingConnector(aiohttp.TCPConnector):
        def __init__(self) -> None:
            super().__init__()
            make: Callable[..., ResponseHandler] = RecordingHandler
            self._factory = partial(make, loop=self._loop)

    early = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    async with response_of(
        write_script(early + CHUNKED + b"0\r\n\r\n"), connector=RecordingConnector()
    ) as response:
        assert response.status == 200
    assert codes == [103, 200]


async def test_connections_are_created_and_notified_by_the_methods_that_we_override() -> None:
    """`CheckedConnector` sets `_factory`; `UpstreamProtocol` overrides these methods."""
    calls: list[str] = []

    class RecordingHandler(ResponseHandler):
        def set_response_params(self, **params: Any) -> None:
            calls.append("set_response_params")
            super().set_response_params(**params)

        def data_received(self, data: bytes) -> None:
            calls.append("data_received")
            super().data_received(data)

        def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
            calls.append(f"set_exception {type(exc).__name__}")
            super().set_exception(exc, *cause)

        def connection_lost(self, exc: BaseException | None) -> None:
            calls.append("connection_lost")
            super().connection_lost(exc)

    class RecordingConnector(aiohttp.TCPConnector):
        def __init__(self) -> None:
            super().__init__()
            make: Callable[..., ResponseHandler] = RecordingHandler
            self._factory = partial(make, loop=self._loop)

    async with response_of(write_script(CHUNKED), connector=RecordingConnector()) as response:
        protocol = response.connection and response.connection.protocol
        assert isinstance(protocol, RecordingHandler)
        assert protocol._payload is response.content  # the reader that gets the error
        assert calls == ["set_response_params", "data_received"]
        protocol.data_received(b"zz\r\n")
        assert calls[3] == "set_exception HttpProcessingError"
        await wait_until(lambda: "connection_lost" in calls)


async def test_a_reset_of_a_body_delimited_by_close_looks_like_its_end() -> None:
    """`UpstreamProtocol.connection_lost` notes the reset; `UpstreamResponse` keeps the protocol."""
    closed: list[asyncio.Future[None] | None] = []

    class Holding(aiohttp.ClientResponse):
        async def start(self, connection: Any) -> aiohttp.ClientResponse:
            closed.append(connection.protocol.closed)
            return await super().start(connection)

    async with response_of(
        write_script(HEAD + b"\r\nhello", rst), response_class=Holding
    ) as response:
        assert await response.content.read() == b"hello"
        assert response.connection is None
        [future] = closed
        assert future is not None
        with pytest.raises(aiohttp.ClientConnectionError):
            await future


async def test_reads_keep_the_boundaries_of_chunks() -> None:
    """`ResponsePump._read_body` records one read per chunk, even if one packet holds many."""
    body = b"1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n0\r\n\r\n"
    async with response_of(write_script(CHUNKED + body)) as response:
        pieces = [data async for data, _ in response.content.iter_chunks() if data]
    assert pieces == [b"a", b"bc", b"def"]


async def test_all_empty_bodies_share_one_reader_that_ends_but_once() -> None:
    """`ResponsePump._read_body` checks `at_eof` first: `iter_chunks` would loop forever."""
    for _ in range(2):
        async with response_of(write_script(b"HTTP/1.1 204 X\r\n\r\n")) as response:
            assert response.content is EMPTY_PAYLOAD
            assert response.content.at_eof()
            await response.content.readchunk()
    assert await EMPTY_PAYLOAD.readchunk() == (b"", True)  # which is not the end


async def test_an_encoded_body_is_decoded_by_default() -> None:
    """`_make_session` sets `auto_decompress=False`; the header stays in both cases."""
    compressed = gzip.compress(b"hello")
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(compressed)
    async with response_of(write_script(head + compressed), auto_decompress=False) as response:
        assert await response.read() == compressed
    async with response_of(write_script(head + compressed)) as response:
        assert await response.read() == b"hello"
        assert response.headers["Content-Encoding"] == "gzip"


async def test_headers_of_a_response_come_raw_and_its_reason_as_utf8() -> None:
    """`_response_head` takes `raw_headers` as bytes, and encodes the reason back to bytes."""
    head = b"HTTP/1.1 200 Gr\xc3\xbc\xff\r\nx-A: 1\r\nX-a: \xe9\r\nContent-Length: 0\r\n\r\n"
    async with response_of(write_script(head)) as response:
        assert response.raw_headers[:2] == ((b"x-A", b"1"), (b"X-a", b"\xe9"))
        assert response.reason == "Gr\xfc\udcff"


# --- a request ----------------------------------------------------------------------------------


async def _sent_head(**options: Any) -> bytes:
    """The head that an upstream receives."""
    url = options.pop("url", URL("/"))
    async with upstream(fixed_length(b"{}")) as provider, aiohttp.ClientSession() as session:
        base = URL(provider.url)
        url = URL(f"{provider.url}{url}", encoded=True) if isinstance(url, str) else base.join(url)
        async with session.get(url, **options):
            return provider.requests[0][0]


async def test_a_url_is_quoted_again_unless_marked_as_encoded() -> None:
    """`LiveUpstream._upstream_url` sets `encoded=True`."""
    assert (await _sent_head(url="/%7E/../[]?q=%zz")).startswith(b"GET /%7E/../[]?q=%zz HTTP/1.1")
    assert URL("http://h/%7E/../[]?q=%zz").raw_path_qs != "/%7E/../[]?q=%zz"


async def test_a_header_in_two_spellings_loses_the_first() -> None:
    """`_request_headers` gives repeated headers one spelling."""
    mixed = CIMultiDict([("X-Twice", "1"), ("x-twice", "2")])
    same = CIMultiDict([("X-Twice", "1"), ("X-Twice", "2")])
    assert (await _sent_head(headers=mixed)).lower().count(b"x-twice") == 1
    assert (await _sent_head(headers=same)).lower().count(b"x-twice") == 2


async def test_headers_are_written_as_utf8() -> None:
    """`_redecode_as_utf8` turns the received Latin-1 into text that encodes to the same bytes."""
    assert b"X-A: caf\xc3\xa9\r\n" in await _sent_head(headers={"X-A": "caf\xe9"})


async def test_headers_that_nobody_gave_are_added_unless_they_are_skipped() -> None:
    """`_make_session` skips `_SKIPPED_AUTO_HEADERS`."""
    added = await _sent_head()
    skipped = await _sent_head(skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"))
    for name in (b"User-Agent:", b"Accept:", b"Accept-Encoding:"):
        assert name in added
        assert name not in skipped


async def test_keys_go_along_with_a_redirect_to_another_host() -> None:
    """`LiveUpstream._send_request` sets `allow_redirects=False`, whatever a provider answers."""
    async with upstream(fixed_length(b"{}")) as other:
        script = write_script(
            b"HTTP/1.1 307 X\r\nContent-Length: 0\r\nLocation: %b\r\n\r\n"
            % other.url.replace("127.0.0.1", "localhost").encode()
        )
        async with upstream(script) as provider, aiohttp.ClientSession() as session:
            keys = {"x-api-key": "canary", "Authorization": "Bearer canary"}
            async with session.get(provider.url, headers=keys):
                assert b"x-api-key: canary" in other.requests[0][0]
                assert b"Bearer" not in other.requests[0][0]
            async with session.get(provider.url, headers=keys, allow_redirects=False) as response:
                assert response.status == 307
                assert len(other.requests) == 1


@each_row("keeping", [True, False])
async def test_cookies_are_kept_and_sent_again_unless_the_jar_is_a_dummy(*, keeping: bool) -> None:
    """`_make_session` uses a `DummyCookieJar`: the proxy serves many clients."""
    jar = aiohttp.CookieJar(unsafe=True) if keeping else aiohttp.DummyCookieJar()
    script = write_script(HEAD + b"Set-Cookie: a=canary\r\nContent-Length: 0\r\n\r\n")
    async with upstream(script) as provider, aiohttp.ClientSession(cookie_jar=jar) as session:
        for _ in range(2):
            async with session.get(provider.url):
                pass
    assert (b"canary" in provider.requests[1][0]) is keeping


@pytest.mark.parametrize("trusting", [True, False])
async def test_proxies_of_the_environment_are_used_only_when_trusted(
    *, trusting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`_make_session` sets `trust_env=False`."""
    async with (
        upstream(fixed_length(b"{}")) as http_proxy,
        upstream(fixed_length(b"{}")) as provider,
    ):
        monkeypatch.setenv("http_proxy", http_proxy.url)
        async with aiohttp.ClientSession(trust_env=trusting) as session:
            async with session.get(provider.url):
                pass
    assert (len(http_proxy.requests), len(provider.requests)) == ((1, 0) if trusting else (0, 1))


def test_the_defaults_would_end_long_streams_and_queue_many() -> None:
    """`_make_session` sets `total=None`, and `CheckedConnector` `limit=0`."""
    assert aiohttp.client.DEFAULT_TIMEOUT.total == 300

    async def limit() -> int:
        async with aiohttp.TCPConnector() as connector:
            return connector.limit

    assert asyncio.run(limit()) == 100


# --- connections that drop ----------------------------------------------------------------------


@each_row(
    ("method", "retrying", "requests"),
    [("GET", True, 2), ("GET", False, 1), ("POST", True, 1), ("POST", False, 1)],
)
async def test_a_get_is_retried_unless_disabled_and_a_post_is_not(
    *, method: str, retrying: bool, requests: int
) -> None:
    """`_make_session` unsets `_retry_connection`; `LiveUpstream._open_response` retries."""
    async with upstream(write_script(b"", fin)) as provider, aiohttp.ClientSession() as session:
        session._retry_connection = retrying  # the attribute that we set
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await session.request(method, provider.url)
    assert len(provider.requests) == requests


async def test_a_drop_says_whether_an_answer_had_begun() -> None:
    """`LiveUpstream._open_response` retries on a stale connection, not after a partial response."""
    with pytest.raises(aiohttp.ServerDisconnectedError) as idle:
        async with response_of(write_script(b"", fin), method="POST"):
            pass
    assert isinstance(idle.value.message, str)
    with pytest.raises(aiohttp.ServerDisconnectedError) as begun:
        async with response_of(write_script(b"HTTP/1.1 200 OK\r\nContent-Ty", fin), method="POST"):
            pass
    assert not isinstance(begun.value.message, str)


async def test_a_connection_is_requested_in_the_task_of_the_request_and_notified_of_each() -> None:
    """`CheckedConnector.connect` sets `REUSED_CONNECTION` there, from what the protocol noted."""
    mark: ContextVar[int] = ContextVar("mark", default=0)
    seen: list[tuple[ResponseHandler, int]] = []

    class RecordingHandler(ResponseHandler):
        requests = 0

        def set_response_params(self, **params: Any) -> None:
            self.requests += 1
            super().set_response_params(**params)

    class RecordingConnector(aiohttp.TCPConnector):
        def __init__(self) -> None:
            super().__init__()
            make: Callable[..., ResponseHandler] = RecordingHandler
            self._factory = partial(make, loop=self._loop)

        async def connect(self, *args: Any, **more: Any) -> Any:
            connection = await super().connect(*args, **more)
            assert isinstance(connection.protocol, RecordingHandler)
            seen.append((connection.protocol, connection.protocol.requests))
            mark.set(len(seen))
            return connection

    async with upstream(fixed_length(b"{}")) as provider:
        async with aiohttp.ClientSession(connector=RecordingConnector()) as session:
            for number in (1, 2):
                async with session.get(provider.url) as response:
                    await response.read()
                assert mark.get() == number
    (one, before_one), (two, before_two) = seen
    assert one is two
    assert (before_one, before_two) == (0, 1)


async def test_an_error_shows_the_url_as_a_string_and_not_in_its_message() -> None:
    """`upstream_failure` quotes the message only: a URL may hold a key."""
    async with (
        upstream(write_script(b"SSH-2.0\r\n", hold)) as provider,
        aiohttp.ClientSession() as session,
    ):
        with pytest.raises(aiohttp.ClientResponseError) as caught:
            await session.get(f"{provider.url}/?key=canary")
    assert "canary" in str(caught.value)
    assert "canary" not in caught.value.message


async def test_an_abort_is_a_fin_and_only_no_lingering_makes_it_a_reset() -> None:
    """`ResponseWriter.abort` sets SO_LINGER before it aborts (asyncio's doing, not aiohttp's)."""

    async def abort(connection: Connection) -> None:
        connection.writer.transport.abort()

    async def abort_at_once(connection: Connection) -> None:
        sock = connection.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.writer.transport.abort()

    async with upstream(abort, abort_at_once) as provider:
        assert [(await send_request(provider.url, GET)).ending for _ in range(2)] == ["fin", "rst"]


# --- the server ---------------------------------------------------------------------------------

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def run_server(handler: Handler, **options: Any) -> AsyncIterator[str]:
    """An aiohttp server with one handler for all requests."""
    runner = web.ServerRunner(web.Server(handler, **options), shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@each_row("cancelling", [True, False])
async def test_a_handler_learns_that_its_client_has_gone_only_by_cancellation(
    *, cancelling: bool
) -> None:
    """`ProxyServer.listener` sets `handler_cancellation=True`: a stalled stream writes nothing."""
    requests: list[web.BaseRequest] = []
    endings: list[str] = []
    release = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        requests.append(request)
        try:
            await release.wait()
        except asyncio.CancelledError:
            endings.append("cancelled")
            raise
        endings.append("released")
        return web.Response()

    async with run_server(handler, handler_cancellation=cancelling) as url:
        port = int(url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        await wait_until(lambda: bool(requests))
        writer.close()
        await wait_until(lambda: requests[0].transport is None)
        if cancelling:
            await wait_until(lambda: bool(endings))
        release.set()
        await wait_until(lambda: bool(endings))
    assert endings == ["cancelled" if cancelling else "released"]


async def test_the_target_and_the_headers_of_a_request_come_raw() -> None:
    """`_to_request` reads `raw_path` and `raw_headers`; `path` is decoded and normalised."""
    seen: list[object] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        matching_headers = [pair for pair in request.raw_headers if pair[0].lower() == b"x-a"]
        seen.extend((request.raw_path, request.path, matching_headers))
        return web.Response()

    async with run_server(handler) as url:
        await send_request(url, b"GET /%7E[x]?q=%7E&a HTTP/1.1\r\nX-a: \xe9\r\nx-A: 2\r\n\r\n")
    assert seen == ["/%7E[x]?q=%7E&a", "/~[x]", [(b"X-a", b"\xe9"), (b"x-A", b"2")]]


async def test_a_handler_that_returns_after_a_fault_forges_the_end_of_a_stream() -> None:
    """`ResponseWriter` writes the end itself, and `ResponseWriter.write_eof` writes nothing."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"half of it")
        return response

    async with run_server(handler) as url:
        assert (await send_request(url, GET)).ending == "clean"


@each_row("keep", [True, False])
async def test_a_response_is_asked_to_prepare_to_end_and_whether_to_keep_the_connection(
    *, keep: bool
) -> None:
    """`ResponseWriter` overrides these three and bypasses aiohttp; nothing else may be written."""
    calls: list[str] = []
    response_bytes = HEAD + b"X-Ours: 1\r\nContent-Length: 2\r\n\r\nok"

    class RecordingResponse(web.StreamResponse):
        @property
        def keep_alive(self) -> bool:
            calls.append("keep_alive")
            return keep

        async def prepare(self, request: web.BaseRequest) -> None:
            calls.append("prepare")

        async def write_eof(self, data: bytes = b"") -> None:
            calls.append("write_eof")

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(response_bytes)
        return RecordingResponse()

    async with run_server(handler) as url:
        port = int(url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2 if keep else 1):
            writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            async with asyncio.timeout(20):
                assert await reader.readexactly(len(response_bytes)) == response_bytes
        if not keep:
            assert await reader.read() == b""
        writer.close()
    assert calls == ["prepare", "write_eof", "keep_alive"] * (2 if keep else 1)


async def test_a_drain_waits_for_a_client_that_is_behind() -> None:
    """`ResponseWriter.flush` awaits `request.writer.drain` after it writes to the transport."""
    written = 0
    waits = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal written
        assert request.transport is not None
        request.transport.write(HEAD + b"Connection: close\r\n\r\n")
        while written < 64 * 1024**2:
            request.transport.write(bytes(1024**2))
            written += 1024**2
            asyncio.get_running_loop().call_later(0.2, waits.set)
            await request.writer.drain()
        raise AssertionError("it never waited")

    async with run_server(handler, handler_cancellation=True) as url:
        port = int(url.rpartition(":")[2])
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", port))
            sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            await waits.wait()
            assert 0 < written < 64 * 1024**2


async def test_a_request_body_comes_decoded_by_default() -> None:
    """`running.proxy` sets `auto_decompress=False`: encoded bodies are forwarded unchanged."""
    seen: list[bytes] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(await request.content.read())
        return web.Response()

    compressed = gzip.compress(b"hello")
    for options in ({}, {"auto_decompress": False}):
        async with run_server(handler, **options) as url:
            await send_request(url, build_http_request("/", compressed, "Content-Encoding: gzip"))
    assert seen == [b"hello", compressed]


@pytest.mark.skipif(not IN_C, reason="a defect of the parser in C")
async def test_the_reader_of_a_malformed_request_body_is_forgotten_and_an_error_is_queued() -> None:
    """`ClientConnection.data_received` passes the error in `_messages` to the reader."""
    connections: list[web.RequestHandler] = []
    read: list[bytes] = []
    queued = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        connections.append(request.protocol)
        read.append(await request.content.readany())
        waiting = asyncio.ensure_future(request.content.readany())
        await queued.wait()
        await asyncio.wait([waiting], timeout=0.1)
        forgotten = waiting.cancel()
        return web.Response(status=200 if forgotten else 500)

    async with run_server(handler) as url:
        port = int(url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        await wait_until(lambda: bool(read))
        writer.write(b"zz\r\n")
        await wait_until(lambda: bool(connections[0]._messages))
        queued.set()
        message, _ = connections[0]._messages[-1]
        assert not isinstance(message, RawRequestMessage)
        assert "chunk size" in message.message
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()
    assert read == [b"x"]
