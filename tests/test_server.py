"""The server on raw sockets: allowed clients, refused requests and connection lifetimes."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import StreamWriter
from aiohttp.http_exceptions import BadStatusLine
from aiohttp.http_parser import HttpRequestParser, HttpRequestParserPy

from case_tables import each_row
from in_process_proxy import proxy
from llm_proxy.exchange import ResponseHead
from llm_proxy.miss_report import MissReport
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running import proxy as run
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.shell.running.settings import ModeName
from llm_proxy.shell.server import journal
from llm_proxy.shell.server.intake import ClientConnection as Intake
from llm_proxy.shell.server.intake import RequestAdmission
from raw_http import RawConnection, RawResponse, build_http_request, open_line, send_request
from stored_cassettes import (
    StoredResponse,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from stub_upstream import Connection, upstream
from waiting import wait_until

MODELS_REQUEST_LINE = b"GET /v1/models HTTP/1.1\r\n"
HEALTH_REQUEST = b"GET /_proxy/health HTTP/1.1\r\nHost: HOST\r\n\r\n"


@pytest.fixture
async def replaying(tmp_path: Path) -> AsyncIterator[RunningProxy]:
    """A replaying proxy with one recorded chat."""
    write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))
    async with proxy("replay", tmp_path, pace=InstantPace()) as running_proxy:
        yield running_proxy


_CLIENT_LEFT_LOG = (
    r"POST /v1/chat/completions: client disconnected after \d+\.\d s, "
    r"before the upstream responded"
)


def _models_request_for(host: str) -> bytes:
    return MODELS_REQUEST_LINE + f"Host: {host}\r\n\r\n".encode("latin-1")


def _refusal_message(raw: RawResponse) -> str:
    assert raw.header("x-llm-proxy-error") == "request_refused"
    assert raw.header("x-should-retry") == "false"
    return str(json.loads(raw.body)["error"]["message"])


async def _response_and_rest(url: str, request: bytes) -> tuple[RawResponse, bytes]:
    """The response to a request, and the bytes after it until the connection closes."""
    async with open_line(url) as client:
        await client.send(request)
        return await client.read_response(), await client.read_until_closed()


OTHER_HOSTS = [
    "evil.example", "evil.example:PORT", "127.0.0.1.nip.io:PORT", "localhost.evil.example:PORT",
    "2130706433:PORT", "0x7f.1:PORT", "127.1:PORT", "0.0.0.0:PORT", "[::ffff:127.0.0.1]:PORT",
    "[::]:PORT", "127.0.0.1:1", "localhost", "127.0.0.1", "127.0.0.1:", "localhost:0PORT",
    "evil@127.0.0.1:PORT", "127.0.0.1:PORT@evil.example", "localhost.:PORT", "10.0.0.1:PORT",
    "[", "[127.0.0.1]:PORT", "[localhost]:PORT", "::1:PORT:", "a b:PORT", "",
    "127.0.0.1:PORT, evil.example", "\xe9:PORT", "\xc3\xa9:PORT",
]  # fmt: skip


class TestHosts:
    @each_row("host", OTHER_HOSTS)
    async def test_a_name_that_is_not_ours_is_refused(
        self, replaying: RunningProxy, host: str
    ) -> None:
        port = replaying.url.rpartition(":")[2]
        raw, rest = await _response_and_rest(
            replaying.url, _models_request_for(host.replace("PORT", port))
        )
        assert (raw.status, rest) == (421, b"")
        assert "--allow-host" in _refusal_message(raw)
        assert raw.header("connection") == "close"

    @each_row(
        ("host", "name"),
        [("127.0.0.1:1", "127.0.0.1"), ("LocalHost", "localhost"), ("[::1]:1", "::1")],
    )
    async def test_a_host_whose_port_alone_differs_is_refused_with_the_port(
        self, replaying: RunningProxy, host: str, name: str
    ) -> None:
        port = replaying.url.rpartition(":")[2]
        raw = await send_request(replaying.url, _models_request_for(host))
        assert raw.status == 421
        assert _refusal_message(raw) == (
            f"wrong port in the Host header {host!r}: this proxy listens on port {port}; "
            f"if the port is mapped, start llm-proxy with --allow-host {name}"
        )

    async def test_behind_a_mapped_port_our_own_name_can_be_allowed(self, tmp_path: Path) -> None:
        async with proxy("replay", tmp_path, allow_hosts=frozenset({"127.0.0.1"})) as replaying:
            assert (
                await send_request(replaying.url, _models_request_for("127.0.0.1:1"))
            ).status == 424

    @each_row("host", ["127.0.0.1", "localhost", "LocalHost", "[::1]", "127.0.0.2"])
    async def test_our_own_names_are_served(self, replaying: RunningProxy, host: str) -> None:
        port = replaying.url.rpartition(":")[2]
        assert (
            await send_request(replaying.url, _models_request_for(f"{host}:{port}"))
        ).status == 424

    @each_row("host", ["box", "BOX", "box:8080", "box:80"])
    async def test_an_allowed_name_is_served_under_any_port(
        self, tmp_path: Path, host: str
    ) -> None:
        async with proxy("replay", tmp_path, allow_hosts=frozenset({"box"})) as replaying:
            assert (await send_request(replaying.url, _models_request_for(host))).status == 424
            assert (await send_request(replaying.url, _models_request_for("other"))).status == 421

    @each_row(
        "request_",
        [
            MODELS_REQUEST_LINE + b"\r\n",
            MODELS_REQUEST_LINE + b"Host: HOST\r\nHost: HOST\r\n\r\n",
            MODELS_REQUEST_LINE + b"Host: HOST\r\nHost: evil.example\r\n\r\n",
            b"GET /v1/models HTTP/1.0\r\n\r\n",
            b"GET /v1/models\r\n\r\n",
        ],
        ids=["none", "twice", "two", "none in HTTP/1.0", "HTTP/0.9"],
    )
    async def test_a_request_names_one_host(self, replaying: RunningProxy, request_: bytes) -> None:
        raw, rest = await _response_and_rest(replaying.url, request_)
        assert (raw.status, rest) == (400, b"")


class TestTargets:
    @each_row(
        "target",
        [
            b"GET http://evil.example/v1/models",
            b"GET http://HOST/v1/models",
            b"GET https://HOST/v1/models",
            b"CONNECT evil.example:443",
            b"OPTIONS *",
        ],
    )
    async def test_what_is_no_path_is_refused(self, replaying: RunningProxy, target: bytes) -> None:
        raw, rest = await _response_and_rest(
            replaying.url, target + b" HTTP/1.1\r\nHost: HOST\r\n\r\n"
        )
        assert (raw.status, rest) == (400, b"")
        assert "llm-proxy cannot be used as a forward proxy" in _refusal_message(raw)

    @each_row("target", ["//evil.example/x", "/@x", "/~openai", "/a/../b", "/%zz"])
    async def test_a_strange_path_is_a_path(self, replaying: RunningProxy, target: str) -> None:
        raw = await send_request(replaying.url, build_http_request(target, b"", method="GET"))
        assert raw.status == 424

    async def test_a_strange_path_reaches_the_upstream_that_was_configured_and_no_other(
        self, tmp_path: Path
    ) -> None:
        async with (
            upstream(_echo_target) as live,
            proxy("record", tmp_path, live.url) as recording,
        ):
            for target in ("//evil.example/x", "/a/../b", "/x?u=http://evil.example/", "/%zz"):
                raw = await send_request(
                    recording.url, build_http_request(target, b"", method="GET")
                )
                assert raw.body == target.encode()

    @each_row("byte", [b"\xff", "é".encode(), b"\x00", b"\x7f"])
    async def test_bytes_that_no_target_may_hold_are_refused(
        self, replaying: RunningProxy, byte: bytes
    ) -> None:
        request = b"GET /v1/" + byte + b" HTTP/1.1\r\nHost: HOST\r\n\r\n"
        raw, rest = await _response_and_rest(replaying.url, request)
        assert (raw.status, rest) == (400, b"")


async def _echo_target(connection: Connection) -> None:
    target = connection.head.split(b" ", 2)[1]
    await connection.begin(f"Content-Length: {len(target)}", content_type="text/plain")
    await connection.send(target)


class TestBrowsers:
    @each_row(
        "headers",
        [
            ["Origin: https://evil.example"],
            ["Origin: null"],
            ["Origin: http://127.0.0.1:1"],
            ["Origin: https://\xe9vil.example"],
            ["Sec-Fetch-Site: cross-site"],
            ["Sec-Fetch-Site: same-site"],
            ["Origin: https://evil.example", "Sec-Fetch-Site: same-origin"],
        ],
    )
    async def test_a_web_page_is_refused_before_anything_is_done(
        self, tmp_path: Path, headers: list[str]
    ) -> None:
        async with (
            upstream(_echo_target) as live,
            proxy("record", tmp_path, live.url) as recording,
        ):
            raw = await send_request(recording.url, raw_chat_request("hi", *headers))
        assert raw.status == 403
        assert "--allow-origin" in _refusal_message(raw)
        assert raw.header("access-control-allow-origin") is None
        assert live.requests == []

    @each_row(
        "headers",
        [
            ["Sec-Fetch-Site: none"],
            ["Sec-Fetch-Site: same-origin"],
            ["Origin: https://good.example", "Sec-Fetch-Site: cross-site"],
        ],
    )
    async def test_the_address_bar_and_an_allowed_origin_are_served(
        self, tmp_path: Path, headers: list[str]
    ) -> None:
        origins = frozenset({"https://good.example"})
        async with proxy("replay", tmp_path, allow_origins=origins) as replaying:
            assert (
                await send_request(replaying.url, raw_chat_request("hi", *headers))
            ).status == 424

    @each_row("origin", ["https://good.example.evil", "https://GOOD.example"])
    async def test_an_origin_is_allowed_to_the_letter(self, tmp_path: Path, origin: str) -> None:
        origins = frozenset({"https://good.example"})
        async with proxy("replay", tmp_path, allow_origins=origins) as replaying:
            assert (
                await send_request(replaying.url, raw_chat_request("hi", f"Origin: {origin}"))
            ).status == 403

    async def test_our_own_pages_are_guarded_as_well(self, replaying: RunningProxy) -> None:
        reset = build_http_request(
            "/_proxy/sessions/default/reset", b"", "Origin: https://evil.example"
        )
        assert (await send_request(replaying.url, reset)).status == 403


class TestUpgrades:
    async def test_a_websocket_is_refused_with_advice(self, replaying: RunningProxy) -> None:
        upgrade = (
            b"GET /v1/realtime HTTP/1.1\r\nHost: HOST\r\nUpgrade: WebSocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n"
        )
        raw, rest = await _response_and_rest(replaying.url, upgrade)
        assert (raw.status, rest) == (426, b"")
        assert "use the provider's HTTP API" in _refusal_message(raw)

    async def test_an_offer_of_http2_is_declined_and_the_request_answered(
        self, replaying: RunningProxy
    ) -> None:
        request = raw_chat_request(
            "hi",
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
        )
        raw = await send_request(replaying.url, request)
        assert (raw.status, raw.body) == (200, response_bodies([text_response("hello")])[0])


def _with_body(*headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"POST /v1/x HTTP/1.1", b"Host: HOST", *headers, b"", body])


class TestExpectations:
    async def test_the_body_is_requested_once_the_head_is_accepted(
        self, replaying: RunningProxy
    ) -> None:
        head, _, body = raw_chat_request("hi", "Host: HOST", "Expect: 100-continue").partition(
            b"\r\n\r\n"
        )
        async with open_line(replaying.url) as client:
            await client.send(head + b"\r\n\r\n")
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            await client.send(body)
            raw = await client.read_response()
        assert raw.body == response_bodies([text_response("hello")])[0]

    @each_row("expected", [b"200-ok", b"h\xff\xc3\xa9llo", b"100-continue, more"])
    async def test_any_other_expectation_fails(
        self, replaying: RunningProxy, expected: bytes
    ) -> None:
        request = _with_body(b"Expect: " + expected, b"Content-Length: 2", body=b"hi")
        raw, rest = await _response_and_rest(replaying.url, request)
        assert (raw.status, rest) == (417, b"")
        assert "100-continue" in _refusal_message(raw)

    @each_row(
        ("header", "status"),
        [(b"Origin: https://evil.example", 403), (b"Upgrade: websocket", 426)],
    )
    async def test_a_request_that_is_refused_is_never_asked_for_its_body(
        self, replaying: RunningProxy, header: bytes, status: int
    ) -> None:
        async with open_line(replaying.url) as client:
            await client.send(_with_body(b"Expect: 100-continue", b"Content-Length: 2", header))
            assert (await client.read_response()).status == status

    async def test_http_1_0_knows_no_expectations(self, replaying: RunningProxy) -> None:
        request = _with_body(b"Expect: 100-continue", b"Content-Length: 2").replace(b"1.1", b"1.0")
        async with open_line(replaying.url) as client:
            await client.send(request)
            await client.send(b"hi")
            assert (await client.read_response()).status == 424


class TestBodies:
    @each_row("is_sent_late", [False, True], ids=["at once", "after the head"])
    @each_row("chunk", [b"zz\r\n", b"-1\r\n", b"5\r\nhelloXX\r\n", b"\r\n\r\n", b"1;" + b"\0" * 9])
    async def test_a_malformed_chunk_is_reported_at_once(
        self, replaying: RunningProxy, chunk: bytes, is_sent_late: bool
    ) -> None:
        head_and_first_chunk = _with_body(b"Transfer-Encoding: chunked", body=b"2\r\nhi\r\n")
        async with open_line(replaying.url) as client:
            if is_sent_late:
                await client.send(head_and_first_chunk)
                await wait_until(lambda: replaying.server.active_request_count == 1)
                await client.send(chunk)
            else:
                await client.send(head_and_first_chunk + chunk)
            raw = await client.read_response()
            rest = await client.read_until_closed()
        assert (raw.status, rest) == (400, b"")
        if is_sent_late:
            assert "malformed request body" in _refusal_message(raw)
        await wait_until(lambda: replaying.server.active_request_count == 0)

    async def test_the_parser_forgets_the_reader_of_a_malformed_body(self) -> None:
        """Pins the aiohttp bug that `intake.ClientConnection` works around.

        If this fails, the workaround can be removed.
        """
        loop = asyncio.get_running_loop()
        protocol = aiohttp.web.RequestHandler(
            aiohttp.web.Server(lambda _: None),  # type: ignore[arg-type, return-value] # never called
            loop=loop,
        )
        protocol.data_received(_with_body(b"Transfer-Encoding: chunked", body=b"2\r\nhi\r\n"))
        _, body = protocol._messages[0]
        protocol.data_received(b"zz\r\n")
        assert len(protocol._messages) == 2
        assert body.exception() is None
        assert not body.is_eof()
        assert HttpRequestParser is not HttpRequestParserPy

    async def test_a_drain_that_was_cancelled_spoils_the_next_one(self) -> None:
        """Pins the aiohttp bug for which `ResponseWriter` drains in a task of its own.

        If this fails, the task can be removed.
        """
        protocol = BaseProtocol(asyncio.get_running_loop())
        protocol.transport = Mock()
        protocol.pause_writing()
        writer = StreamWriter(protocol, asyncio.get_running_loop())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await writer.drain()
        with pytest.raises(asyncio.CancelledError):
            await writer.drain()

    @pytest.mark.parametrize(
        "framing",
        [[b"Content-Length: 101"], [b"Transfer-Encoding: chunked"]],
        ids=["length", "chunked"],
    )
    async def test_a_body_beyond_the_limit_is_refused(
        self, tmp_path: Path, framing: list[bytes]
    ) -> None:
        body = b"x" * 101 if b"Length" in framing[0] else b"65\r\n" + b"x" * 101 + b"\r\n0\r\n\r\n"
        async with proxy("replay", tmp_path, max_body=100) as replaying:
            raw, rest = await _response_and_rest(replaying.url, _with_body(*framing, body=body))
        assert (raw.status, rest) == (413, b"")
        assert "larger than 100 bytes" in _refusal_message(raw)
        assert "--max-body" in _refusal_message(raw)

    async def test_a_body_at_the_limit_is_not(self, tmp_path: Path) -> None:
        async with proxy("replay", tmp_path, max_body=100) as replaying:
            assert (
                await send_request(replaying.url, build_http_request("/v1/x", b"x" * 100))
            ).status == 424

    @pytest.mark.parametrize("header", ["Origin: https://evil.example", "X-Nothing: wrong"])
    async def test_the_refusal_reaches_a_client_that_is_still_sending(
        self, tmp_path: Path, header: str
    ) -> None:
        body = b"x" * (8 * 1024 * 1024)
        async with proxy("replay", tmp_path, max_body=100) as replaying:
            raw = await send_request(replaying.url, build_http_request("/v1/x", body, header))
        assert raw.status == (403 if "Origin" in header else 413)
        assert raw.ending == "clean"

    async def test_a_silent_body_is_given_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            run, "RequestAdmission", functools.partial(RequestAdmission, body_idle_timeout_s=0.2)
        )
        async with proxy("replay", tmp_path) as replaying:
            raw, rest = await _response_and_rest(
                replaying.url, _with_body(b"Content-Length: 9", body=b"half")
            )
        assert (raw.status, rest) == (408, b"")
        assert "0.2 s" in _refusal_message(raw)

    async def test_a_body_that_keeps_coming_may_take_longer_than_the_silence(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            run, "RequestAdmission", functools.partial(RequestAdmission, body_idle_timeout_s=1.0)
        )
        async with proxy("replay", tmp_path) as replaying, open_line(replaying.url) as client:
            await client.send(_with_body(b"Content-Length: 6"))
            for byte in (b"a", b"b", b"c", b"d", b"e", b"f"):
                await asyncio.sleep(0.2)
                await client.send(byte)
            assert (await client.read_response()).status == 424

    @pytest.mark.parametrize(
        "sent", [b"", b"GET /v1/models HTTP/1.1\r\nHost: H"], ids=["nothing", "half a head"]
    )
    @pytest.mark.parametrize("used", [False, True], ids=["new", "used before"])
    async def test_a_connection_without_a_request_is_closed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes, used: bool
    ) -> None:
        monkeypatch.setattr(run, "_KEEPALIVE_TIMEOUT_S", 0.2)
        async with proxy("replay", tmp_path) as replaying, open_line(replaying.url) as client:
            if used:
                await client.send(HEALTH_REQUEST)
                assert (await client.read_response()).status == 200
            await client.send(sent)
            assert await client.read_until_closed() == b""


AMBIGUOUS_HEADERS = [
    (b"Content-Length: 3", b"Transfer-Encoding: chunked"),
    (b"Content-Length: 3", b"Content-Length: 4"),
    (b"Content-Length: 3, 4",),
    (b"Content-Length: +3",),
    (b"Content-Length: -3",),
    (b"Content-Length: 0x3",),
    (b"Content-Length : 3",),
    (b"Transfer-Encoding: xchunked",),
    (b"Transfer-Encoding: chunked, identity",),
    (b"X-Folded: a", b" b"),
    (b"X-Null: a\x00b",),
    (b": empty",),
    (b"X-Bare: a\rb",),
]


class TestFraming:
    @each_row("headers", AMBIGUOUS_HEADERS)
    async def test_an_ambiguously_framed_request_is_not_forwarded(
        self, tmp_path: Path, headers: tuple[bytes, ...]
    ) -> None:
        async with (
            upstream(_echo_target) as live,
            proxy("record", tmp_path, live.url) as recording,
        ):
            raw, rest = await _response_and_rest(
                recording.url, _with_body(*headers, body=b"0\r\n\r\n")
            )
        assert (raw.status, rest) == (400, b"")
        assert live.requests == []

    async def test_http_1_0_has_no_chunks(self, replaying: RunningProxy) -> None:
        request = _with_body(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n")
        raw, _ = await _response_and_rest(replaying.url, request.replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert raw.status == 400
        assert "HTTP/1.0 does not support Transfer-Encoding" in _refusal_message(raw)

    @each_row(
        "garbage",
        [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"hello\r\n\r\n", b"\x00" * 100],
        ids=["TLS", "words", "zeros"],
    )
    async def test_what_is_not_http_is_refused_and_the_next_client_served(
        self, replaying: RunningProxy, garbage: bytes
    ) -> None:
        raw, rest = await _response_and_rest(replaying.url, garbage)
        assert (raw.status, rest) == (400, b"")
        async with open_line(replaying.url) as client:
            await client.send(HEALTH_REQUEST)
            assert (await client.read_response()).status == 200

    @each_row(
        "garbage",
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"canary words\r\n\r\n",
            b"POST /v1/x HTTP/1.1\r\nHost: HOST\r\nX-Folded: a\r\n canary\r\n\r\n",
            b"GET /v1/x HTTP/9.9\r\nX-Api-Key: canary\r\nAccept: text/html\r\n\r\n",
            _with_body(b"Transfer-Encoding: chunked", body=b"zz canary\r\n"),
        ],
        ids=["TLS", "words", "folded header", "version", "chunk"],
    )
    async def test_what_cannot_be_read_is_refused_in_our_own_words(
        self, replaying: RunningProxy, caplog: pytest.LogCaptureFixture, garbage: bytes
    ) -> None:
        raw, _ = await _response_and_rest(replaying.url, garbage)
        assert (raw.status, raw.header("connection")) == (400, "close")
        assert raw.header("content-type") == "application/json"
        assert raw.header("server") is None
        message = _refusal_message(raw)
        assert re.fullmatch("malformed HTTP request: [^\n]{5,200}", message)
        assert message.isprintable()
        assert b"canary" not in raw.body
        assert caplog.text == ""

    async def test_bytes_in_a_parser_error_are_escaped_and_truncated(
        self, replaying: RunningProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def raise_bad_status(*_: object) -> None:
            raise BadStatusLine(f"a\x1b[31m\u202e{'b' * 1000}\r\ncanary")

        def connect_with_failing_parser(
            connection: Intake, transport: asyncio.BaseTransport
        ) -> None:
            original_connection_made(connection, transport)
            connection._parser = Mock(feed_data=raise_bad_status)

        original_connection_made = Intake.connection_made
        monkeypatch.setattr(Intake, "connection_made", connect_with_failing_parser)
        async with open_line(replaying.url) as client:
            await client.send(b"anything")
            message = _refusal_message(await client.read_response())
        assert message.isprintable()
        assert len(message) < 300
        assert "\\x1b[31m\\u202ebbb" in message
        assert "canary" not in message

    async def test_an_oversized_header_is_refused(self, replaying: RunningProxy) -> None:
        raw = await send_request(replaying.url, raw_chat_request("hi", "X-Bomb: " + "a" * 200_000))
        assert raw.status in {400, 431}
        assert _refusal_message(raw).endswith(
            "the request line or a header is longer than 65536 bytes"
        )

    async def test_a_url_that_is_too_long_is_not_shown(self, replaying: RunningProxy) -> None:
        raw = await send_request(replaying.url, build_http_request("/v1/" + "a" * 70_000, b""))
        assert raw.status == 400
        assert _refusal_message(raw).endswith(
            "the request line or a header is longer than 65536 bytes"
        )

    async def test_a_header_of_thirty_kilobytes_is_accepted(self, replaying: RunningProxy) -> None:
        raw = await send_request(replaying.url, raw_chat_request("hi", "X-Long: " + "a" * 30_000))
        assert raw.status == 200


async def _is_alive(client: RawConnection) -> bool:
    """Whether the connection serves another request."""
    await client.send(HEALTH_REQUEST)
    try:
        return (await client.read_response()).status == 200
    except ConnectionError:
        return False


def _recorded_answer(framing: str, body: bytes = b"", status: int = 200) -> StoredResponse:
    head = ResponseHead(status, "OK", (("Content-Type", "text/plain"),), framing)  # type: ignore[arg-type] # a framing's name from a table
    return StoredResponse(((1, body),) if body else (), head=head)


class TestConnections:
    @each_row(
        ("answer", "alive"),
        [
            (_recorded_answer("chunked", b"in chunks"), True),
            (_recorded_answer("chunked"), True),
            (_recorded_answer("length", b"with a length"), True),
            (_recorded_answer("length"), True),
            (_recorded_answer("none", status=204), True),
            (_recorded_answer("none", status=304), True),
            (_recorded_answer("close", b"until the close"), False),
        ],
        ids=["chunked", "chunked, empty", "length", "length, empty", "204", "304", "close"],
    )
    async def test_a_connection_is_kept_where_the_framing_allows_it(
        self, tmp_path: Path, answer: StoredResponse, alive: bool
    ) -> None:
        write_cassettes(tmp_path, build_http_request("/thing", b"", method="GET"), answer)
        async with proxy("replay", tmp_path) as replaying, open_line(replaying.url) as client:
            await client.send(b"GET /thing HTTP/1.1\r\nHost: HOST\r\n\r\n")
            raw = await client.read_response()
            assert (raw.status, raw.body) == (answer.head.status, response_bodies([answer])[0])
            assert await _is_alive(client) is alive

    async def test_a_connection_is_kept_after_a_miss(self, replaying: RunningProxy) -> None:
        async with open_line(replaying.url) as client:
            await client.send(MODELS_REQUEST_LINE + b"Host: HOST\r\n\r\n")
            assert (await client.read_response()).status == 424
            assert await _is_alive(client)

    async def test_a_client_that_asks_for_the_close_gets_it(self, replaying: RunningProxy) -> None:
        raw, rest = await _response_and_rest(
            replaying.url, MODELS_REQUEST_LINE + b"Host: HOST\r\nConnection: close\r\n\r\n"
        )
        assert (raw.status, raw.header("connection"), rest) == (424, "close", b"")

    @each_row(
        "path", ["/v1/models", "/_proxy/health", "/_proxy/nothing"], ids=["miss", "page", "no page"]
    )
    async def test_an_answer_to_head_has_the_length_and_not_the_body(
        self, replaying: RunningProxy, path: str
    ) -> None:
        async with open_line(replaying.url) as client:
            await client.send(f"HEAD {path} HTTP/1.1\r\nHost: HOST\r\n\r\n".encode())
            raw = await client.read_response(bodiless=True)
            assert int(raw.header("content-length") or 0) > 20
            assert await _is_alive(client)

    async def test_a_recorded_head_is_replayed_with_its_length(self, tmp_path: Path) -> None:
        head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "none", 4711)
        write_cassettes(
            tmp_path,
            build_http_request("/v1/models", b"", method="HEAD"),
            StoredResponse((), head=head),
        )
        async with proxy("replay", tmp_path) as replaying, open_line(replaying.url) as client:
            await client.send(b"HEAD /v1/models HTTP/1.1\r\nHost: HOST\r\n\r\n")
            raw = await client.read_response(bodiless=True)
            assert (raw.status, raw.header("content-length")) == (200, "4711")
            assert await _is_alive(client)

    @each_row("mode", ["replay", "auto", "simulate"])
    @each_row("path", ["/", "/api/hello", "/~anthropic"])
    async def test_a_connectivity_probe_is_answered_and_is_no_miss(
        self, tmp_path: Path, mode: ModeName, path: str
    ) -> None:
        async with (
            proxy(mode, tmp_path, on_miss="fail", strict=True) as running_proxy,
            open_line(running_proxy.url) as client,
        ):
            await client.send(f"HEAD {path} HTTP/1.1\r\nHost: HOST\r\n\r\n".encode())
            raw = await client.read_response(bodiless=True)
            assert await _is_alive(client)
        assert raw.status == 200
        assert list(running_proxy.journal.misses) == []
        assert running_proxy.journal.entries[0].origin == "response to a probe"

    async def test_a_recorded_answer_to_a_probe_comes_before_ours(self, tmp_path: Path) -> None:
        head = ResponseHead(503, "No", (), "none", 0)
        write_cassettes(
            tmp_path, build_http_request("/", b"", method="HEAD"), StoredResponse((), head=head)
        )
        async with proxy("replay", tmp_path) as replaying, open_line(replaying.url) as client:
            await client.send(b"HEAD / HTTP/1.1\r\nHost: HOST\r\n\r\n")
            assert (await client.read_response(bodiless=True)).status == 503

    async def test_pipelined_requests_are_answered_in_their_order(self, tmp_path: Path) -> None:
        answers = [text_response(f"answer {number}", gap=20.0 - number) for number in range(20)]
        for number, answer in enumerate(answers):
            write_cassettes(tmp_path, raw_chat_request(f"question {number}"), answer)
        requests = [raw_chat_request(f"question {number}", "Host: HOST") for number in range(20)]
        async with proxy("replay", tmp_path) as replaying, open_line(replaying.url) as client:
            await client.send(b"".join(requests))
            received = [(await client.read_response()).body for _ in answers]
        assert received == response_bodies(answers)

    async def test_a_hundred_pipelined_requests_are_all_answered(
        self, replaying: RunningProxy
    ) -> None:
        async with open_line(replaying.url) as client:
            await client.send(HEALTH_REQUEST * 100)
            assert {(await client.read_response()).status for _ in range(100)} == {200}

    @each_row("framing", ["chunked", "length", "close"])
    async def test_a_client_of_http_1_0_gets_no_chunks(self, tmp_path: Path, framing: str) -> None:
        answer = _recorded_answer(framing, b"plainly")
        write_cassettes(tmp_path, build_http_request("/thing", b"", method="GET"), answer)
        async with proxy("replay", tmp_path) as replaying:
            raw, rest = await _response_and_rest(
                replaying.url, b"GET /thing HTTP/1.0\r\nHost: HOST\r\n\r\n"
            )
        assert (raw.body, rest) == (b"plainly", b"")
        assert raw.header("transfer-encoding") is None
        assert raw.header("connection") == "close"

    async def test_a_client_of_http_1_0_may_ask_to_keep_the_connection(
        self, replaying: RunningProxy
    ) -> None:
        request = HEALTH_REQUEST.replace(b"HTTP/1.1\r\n", b"HTTP/1.0\r\nConnection: keep-alive\r\n")
        async with open_line(replaying.url) as client:
            await client.send(request)
            raw = await client.read_response()
            assert raw.header("connection") == "keep-alive"
            assert await _is_alive(client)

    async def test_an_empty_line_between_requests_is_let_pass(
        self, replaying: RunningProxy
    ) -> None:
        async with open_line(replaying.url) as client:
            await client.send(HEALTH_REQUEST)
            assert (await client.read_response()).status == 200
            await client.send(b"\r\n")
            assert await _is_alive(client)


class TestJournal:
    def test_it_keeps_the_latest_and_counts_them_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(journal, "_MAX_ENTRIES", 2)
        monkeypatch.setattr(journal, "_MAX_MISSES", 1)
        run_journal = journal.Journal()
        for number in range(5):
            run_journal.open_entry("", "GET", f"/{number}")
            run_journal.add_recorded_file(str(number), is_complete=number != 4)
            run_journal.add_recording_failure(f"lost {number}")
            run_journal.add_miss(MissReport(text=f"missed {number}"))
        assert [entry.number for entry in run_journal.entries] == [4, 5]
        assert run_journal.recorded_files == ["3", "4"]
        assert run_journal.recording_failures == ["lost 3", "lost 4"]
        assert run_journal.misses == [MissReport(text="missed 4")]
        assert run_journal.counts == journal.JournalCounts(
            requests=5, recorded=5, complete_recordings=4, lost_recordings=5, missed=5
        )

    async def test_it_records_the_outcome_of_each_request(self, replaying: RunningProxy) -> None:
        await send_request(replaying.url, raw_chat_request())
        await send_request(replaying.url, raw_chat_request("missing", "x-llm-proxy-session: s"))
        await send_request(replaying.url, _models_request_for("evil.example"))
        hit, miss, refused = replaying.journal.entries
        assert (hit.status, hit.ending, hit.session) == (200, "sent", "default")
        assert hit.origin.endswith("-1.jsonl")
        assert hit.bytes == len(response_bodies([text_response("hello")])[0])
        assert (hit.provider, hit.dialect, hit.model) == ("openai", "openai-chat", "m")
        assert (miss.status, miss.origin, miss.session) == (424, "miss", "s")
        assert miss.note.startswith("no cassette matches")
        assert (refused.status, refused.origin) == (421, "refused")
        assert "evil.example" in refused.note

    async def test_bytes_of_no_encoding_do_not_make_it_unreadable(
        self, replaying: RunningProxy
    ) -> None:
        await send_request(replaying.url, raw_chat_request("hi", "Origin: \xff", "Host: HOST\xff"))
        await send_request(replaying.url, raw_chat_request("hi", "x-llm-proxy-session: \xff"))
        raw = await send_request(
            replaying.url, build_http_request("/_proxy/journal", b"", method="GET")
        )
        notes = [entry["note"] for entry in json.loads(raw.body)["entries"]]
        assert "\\udcff" in notes[0]
        assert "is not a valid session name" in notes[1]

    async def test_a_client_that_leaves_is_noticed_at_once(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response(*"abc", gap=60_000))
        async with proxy("replay", tmp_path) as replaying:
            async with open_line(replaying.url) as client:
                await client.send(raw_chat_request("hi", "Host: HOST"))
                await client.reader.readuntil(b"\r\n\r\n")
            await wait_until(lambda: replaying.server.active_request_count == 0, timeout_s=1)
            [entry] = replaying.journal.entries
        assert entry.ending == "client_gone"
        assert replaying.journal.counts.clients_left == 0  # the client had received the head

    @pytest.mark.parametrize("has_begun", [False, True], ids=["before", "within"])
    async def test_a_client_that_leaves_is_counted_where_there_was_no_answer_yet(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, has_begun: bool
    ) -> None:
        async def slow(connection: Connection) -> None:
            if has_begun:
                await connection.begin()
                await connection.chunk(b"data: 1\n\n")
            await connection.reader.read()

        caplog.set_level("INFO")
        async with upstream(slow) as live, proxy("record", tmp_path, live.url) as recording:
            async with open_line(recording.url) as client:
                await client.send(raw_chat_request("hi", "Host: HOST"))
                await wait_until(lambda: len(live.requests) == 1)
                if has_begun:
                    await client.reader.readuntil(b"data: 1")
            await wait_until(lambda: recording.server.active_request_count == 0)
        assert recording.journal.counts.clients_left == (not has_begun)
        departures = [
            message for message in caplog.messages if "client disconnected after" in message
        ]
        assert [bool(re.fullmatch(_CLIENT_LEFT_LOG, item)) for item in departures] == [True] * (
            not has_begun
        )


class TestStopping:
    async def test_a_drain_waits_for_open_streams(self, tmp_path: Path) -> None:
        answer = text_response(*"abcdef", gap=60)
        write_cassettes(tmp_path, raw_chat_request(), answer)
        async with proxy("replay", tmp_path) as replaying:
            client = asyncio.create_task(send_request(replaying.url, raw_chat_request()))
            await wait_until(lambda: replaying.server.active_request_count == 1)
            await replaying.drain(asyncio.Event())
            raw = await client
            with pytest.raises(ConnectionError):
                await send_request(replaying.url, raw_chat_request())
        assert (raw.body, raw.ending) == (response_bodies([answer])[0], "clean")

    @pytest.mark.parametrize(
        "has_second_signal", [False, True], ids=["the time is up", "a second signal"]
    )
    async def test_streams_that_outlast_the_drain_are_cut(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_second_signal: bool
    ) -> None:
        monkeypatch.setattr(run, "_DRAIN_TIMEOUT_S", 30.0 if has_second_signal else 0.2)
        write_cassettes(tmp_path, raw_chat_request(), text_response(*"abcdef", gap=60_000))
        loop = asyncio.get_running_loop()
        second_signal = asyncio.Event()
        async with proxy("replay", tmp_path) as replaying:
            client = asyncio.create_task(send_request(replaying.url, raw_chat_request()))
            await wait_until(lambda: replaying.server.active_request_count == 1)
            started_at = loop.time()
            loop.call_later(0.2, second_signal.set if has_second_signal else lambda: None)
            await replaying.drain(second_signal)
        elapsed_s = loop.time() - started_at
        raw = await client
        assert (raw.status, raw.ending) == (200, "fin")
        assert 0.15 < elapsed_s < 20  # less than the 30 s that a drain may take
        assert [entry.ending for entry in replaying.journal.entries] == ["cut"]

    async def test_a_kept_connection_is_closed_after_its_next_answer(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("a", gap=150))
        async with proxy("replay", tmp_path) as replaying, open_line(replaying.url) as client:
            await client.send(HEALTH_REQUEST)
            await client.read_response()
            slow = asyncio.create_task(send_request(replaying.url, raw_chat_request()))
            await wait_until(lambda: replaying.server.active_request_count == 1)
            draining = asyncio.create_task(replaying.drain(asyncio.Event()))
            await wait_until(lambda: _refuses_connections(replaying.url))
            await client.send(HEALTH_REQUEST)
            assert (await client.read_response()).header("connection") == "close"
            assert await client.read_until_closed() == b""
            await draining
            assert (await slow).ending == "clean"

    async def test_idle_connections_do_not_delay_the_end(self, tmp_path: Path) -> None:
        loop = asyncio.get_running_loop()
        async with proxy("replay", tmp_path) as replaying:
            async with open_line(replaying.url) as fresh, open_line(replaying.url) as used:
                await used.send(HEALTH_REQUEST)
                await used.read_response()
                started_at = loop.time()
                await replaying.drain(asyncio.Event())
                assert fresh.timeout_s
        assert loop.time() - started_at < 20  # less than the 30 s that a drain may take


def _refuses_connections(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname, parts.port)) != 0
