"""The server on raw sockets: who may ask, what is refused, and what a connection lives through."""

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

from in_process_proxy import proxy
from llm_proxy.exchange import ResponseHead
from llm_proxy.miss_report import MissReport
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running import proxy as run
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.shell.running.sources import ModeName
from llm_proxy.shell.server import journal
from llm_proxy.shell.server.intake import ClientConnection as Intake
from llm_proxy.shell.server.intake import RequestLimits
from raw_http import Line, Raw, ask, line, post
from stored_cassettes import Answer, bodies, chat, put, says
from stub_upstream import Connection, upstream
from waiting import until

GET = b"GET /v1/models HTTP/1.1\r\n"
HELLO = b"GET /_proxy/health HTTP/1.1\r\nHost: HOST\r\n\r\n"


@pytest.fixture
async def replaying(tmp_path: Path) -> AsyncIterator[RunningProxy]:
    """A replaying proxy with one recorded chat."""
    put(tmp_path, chat(), says("hello"))
    async with proxy("replay", tmp_path, pace=InstantPace()) as it:
        yield it


_LEFT = (
    r"POST /v1/chat/completions: the client left after \d+\.\d s, "
    r"before the upstream had answered"
)


def _named(host: str) -> bytes:
    return GET + f"Host: {host}\r\n\r\n".encode("latin-1")


def _error(raw: Raw) -> str:
    assert raw.header("x-llm-proxy-error") == "request_refused"
    assert raw.header("x-should-retry") == "false"
    return str(json.loads(raw.body)["error"]["message"])


async def _once(url: str, request: bytes) -> tuple[Raw, bytes]:
    """The answer to a request, and what else comes before the connection is closed."""
    async with line(url) as client:
        await client.send(request)
        return await client.answer(), await client.rest()


OTHER_HOSTS = [
    "evil.example", "evil.example:PORT", "127.0.0.1.nip.io:PORT", "localhost.evil.example:PORT",
    "2130706433:PORT", "0x7f.1:PORT", "127.1:PORT", "0.0.0.0:PORT", "[::ffff:127.0.0.1]:PORT",
    "[::]:PORT", "127.0.0.1:1", "localhost", "127.0.0.1", "127.0.0.1:", "localhost:0PORT",
    "evil@127.0.0.1:PORT", "127.0.0.1:PORT@evil.example", "localhost.:PORT", "10.0.0.1:PORT",
    "[", "[127.0.0.1]:PORT", "[localhost]:PORT", "::1:PORT:", "a b:PORT", "",
    "127.0.0.1:PORT, evil.example", "\xe9:PORT", "\xc3\xa9:PORT",
]  # fmt: skip


class TestHosts:
    @pytest.mark.parametrize("host", OTHER_HOSTS)
    async def test_a_name_that_is_not_ours_is_refused(
        self, replaying: RunningProxy, host: str
    ) -> None:
        port = replaying.url.rpartition(":")[2]
        raw, rest = await _once(replaying.url, _named(host.replace("PORT", port)))
        assert (raw.status, rest) == (421, b"")
        assert "--allow-host" in _error(raw)
        assert raw.header("connection") == "close"

    @pytest.mark.parametrize(
        ("host", "name"),
        [("127.0.0.1:1", "127.0.0.1"), ("LocalHost", "localhost"), ("[::1]:1", "::1")],
    )
    async def test_where_only_the_port_differs_that_is_what_is_said(
        self, replaying: RunningProxy, host: str, name: str
    ) -> None:
        port = replaying.url.rpartition(":")[2]
        raw = await ask(replaying.url, _named(host))
        assert raw.status == 421
        assert _error(raw) == (
            f"the host is right, the port of {host!r} is not: this proxy listens on {port}; "
            f"behind a mapped port start it with --allow-host {name}"
        )

    async def test_behind_a_mapped_port_our_own_name_can_be_allowed(self, tmp_path: Path) -> None:
        async with proxy("replay", tmp_path, allow_hosts=frozenset({"127.0.0.1"})) as replaying:
            assert (await ask(replaying.url, _named("127.0.0.1:1"))).status == 424

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost", "[::1]", "127.0.0.2"])
    async def test_our_own_names_are_served(self, replaying: RunningProxy, host: str) -> None:
        port = replaying.url.rpartition(":")[2]
        assert (await ask(replaying.url, _named(f"{host}:{port}"))).status == 424

    @pytest.mark.parametrize("host", ["box", "BOX", "box:8080", "box:80"])
    async def test_an_allowed_name_is_served_under_any_port(
        self, tmp_path: Path, host: str
    ) -> None:
        async with proxy("replay", tmp_path, allow_hosts=frozenset({"box"})) as replaying:
            assert (await ask(replaying.url, _named(host))).status == 424
            assert (await ask(replaying.url, _named("other"))).status == 421

    @pytest.mark.parametrize(
        "request_",
        [
            GET + b"\r\n",
            GET + b"Host: HOST\r\nHost: HOST\r\n\r\n",
            GET + b"Host: HOST\r\nHost: evil.example\r\n\r\n",
            b"GET /v1/models HTTP/1.0\r\n\r\n",
            b"GET /v1/models\r\n\r\n",
        ],
        ids=["none", "twice", "two", "none in HTTP/1.0", "HTTP/0.9"],
    )
    async def test_a_request_names_one_host(self, replaying: RunningProxy, request_: bytes) -> None:
        raw, rest = await _once(replaying.url, request_)
        assert (raw.status, rest) == (400, b"")


class TestTargets:
    @pytest.mark.parametrize(
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
        raw, rest = await _once(replaying.url, target + b" HTTP/1.1\r\nHost: HOST\r\n\r\n")
        assert (raw.status, rest) == (400, b"")
        assert "this is no forward proxy" in _error(raw)

    @pytest.mark.parametrize("target", ["//evil.example/x", "/@x", "/~openai", "/a/../b", "/%zz"])
    async def test_a_strange_path_is_a_path(self, replaying: RunningProxy, target: str) -> None:
        raw = await ask(replaying.url, post(target, b"", method="GET"))
        assert raw.status == 424

    async def test_a_strange_path_reaches_the_upstream_that_was_configured_and_no_other(
        self, tmp_path: Path
    ) -> None:
        async with (
            upstream(_say_target) as live,
            proxy("record", tmp_path, live.url) as recording,
        ):
            for target in ("//evil.example/x", "/a/../b", "/x?u=http://evil.example/", "/%zz"):
                raw = await ask(recording.url, post(target, b"", method="GET"))
                assert raw.body == target.encode()

    @pytest.mark.parametrize("byte", [b"\xff", "é".encode(), b"\x00", b"\x7f"])
    async def test_bytes_that_no_target_may_hold_are_refused(
        self, replaying: RunningProxy, byte: bytes
    ) -> None:
        request = b"GET /v1/" + byte + b" HTTP/1.1\r\nHost: HOST\r\n\r\n"
        raw, rest = await _once(replaying.url, request)
        assert (raw.status, rest) == (400, b"")


async def _say_target(connection: Connection) -> None:
    target = connection.head.split(b" ", 2)[1]
    await connection.begin(f"Content-Length: {len(target)}", content_type="text/plain")
    await connection.send(target)


class TestBrowsers:
    @pytest.mark.parametrize(
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
        ids=", ".join,
    )
    async def test_a_web_page_is_refused_before_anything_is_done(
        self, tmp_path: Path, headers: list[str]
    ) -> None:
        async with (
            upstream(_say_target) as live,
            proxy("record", tmp_path, live.url) as recording,
        ):
            raw = await ask(recording.url, chat("hi", *headers))
        assert raw.status == 403
        assert "--allow-origin" in _error(raw)
        assert raw.header("access-control-allow-origin") is None
        assert live.requests == []

    @pytest.mark.parametrize(
        "headers",
        [
            ["Sec-Fetch-Site: none"],
            ["Sec-Fetch-Site: same-origin"],
            ["Origin: https://good.example", "Sec-Fetch-Site: cross-site"],
        ],
        ids=", ".join,
    )
    async def test_the_address_bar_and_an_allowed_origin_may_ask(
        self, tmp_path: Path, headers: list[str]
    ) -> None:
        origins = frozenset({"https://good.example"})
        async with proxy("replay", tmp_path, allow_origins=origins) as replaying:
            assert (await ask(replaying.url, chat("hi", *headers))).status == 424

    @pytest.mark.parametrize("origin", ["https://good.example.evil", "https://GOOD.example"])
    async def test_an_origin_is_allowed_to_the_letter(self, tmp_path: Path, origin: str) -> None:
        origins = frozenset({"https://good.example"})
        async with proxy("replay", tmp_path, allow_origins=origins) as replaying:
            assert (await ask(replaying.url, chat("hi", f"Origin: {origin}"))).status == 403

    async def test_our_own_pages_are_guarded_as_well(self, replaying: RunningProxy) -> None:
        reset = post("/_proxy/sessions/default/reset", b"", "Origin: https://evil.example")
        assert (await ask(replaying.url, reset)).status == 403


class TestUpgrades:
    async def test_a_websocket_is_refused_with_a_word_of_advice(
        self, replaying: RunningProxy
    ) -> None:
        upgrade = (
            b"GET /v1/realtime HTTP/1.1\r\nHost: HOST\r\nUpgrade: WebSocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n"
        )
        raw, rest = await _once(replaying.url, upgrade)
        assert (raw.status, rest) == (426, b"")
        assert "use the provider's HTTP API" in _error(raw)

    async def test_an_offer_of_http2_is_declined_and_the_request_answered(
        self, replaying: RunningProxy
    ) -> None:
        request = chat(
            "hi",
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
        )
        raw = await ask(replaying.url, request)
        assert (raw.status, raw.body) == (200, bodies([says("hello")])[0])


def _with_body(*headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"POST /v1/x HTTP/1.1", b"Host: HOST", *headers, b"", body])


class TestExpectations:
    async def test_the_body_is_asked_for_once_the_request_is_welcome(
        self, replaying: RunningProxy
    ) -> None:
        head, _, body = chat("hi", "Host: HOST", "Expect: 100-continue").partition(b"\r\n\r\n")
        async with line(replaying.url) as client:
            await client.send(head + b"\r\n\r\n")
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            await client.send(body)
            raw = await client.answer()
        assert raw.body == bodies([says("hello")])[0]

    @pytest.mark.parametrize("expected", [b"200-ok", b"h\xff\xc3\xa9llo", b"100-continue, more"])
    async def test_any_other_expectation_fails(
        self, replaying: RunningProxy, expected: bytes
    ) -> None:
        request = _with_body(b"Expect: " + expected, b"Content-Length: 2", body=b"hi")
        raw, rest = await _once(replaying.url, request)
        assert (raw.status, rest) == (417, b"")
        assert "100-continue" in _error(raw)

    @pytest.mark.parametrize(
        ("header", "status"),
        [(b"Origin: https://evil.example", 403), (b"Upgrade: websocket", 426)],
    )
    async def test_a_request_that_is_refused_is_never_asked_for_its_body(
        self, replaying: RunningProxy, header: bytes, status: int
    ) -> None:
        async with line(replaying.url) as client:
            await client.send(_with_body(b"Expect: 100-continue", b"Content-Length: 2", header))
            assert (await client.answer()).status == status

    async def test_http_1_0_knows_no_expectations(self, replaying: RunningProxy) -> None:
        request = _with_body(b"Expect: 100-continue", b"Content-Length: 2").replace(b"1.1", b"1.0")
        async with line(replaying.url) as client:
            await client.send(request)
            await client.send(b"hi")
            assert (await client.answer()).status == 424


class TestBodies:
    @pytest.mark.parametrize("late", [False, True], ids=["at once", "after the head"])
    @pytest.mark.parametrize(
        "chunk", [b"zz\r\n", b"-1\r\n", b"5\r\nhelloXX\r\n", b"\r\n\r\n", b"1;" + b"\0" * 9]
    )
    async def test_a_malformed_chunk_is_told_at_once(
        self, replaying: RunningProxy, chunk: bytes, late: bool
    ) -> None:
        begin = _with_body(b"Transfer-Encoding: chunked", body=b"2\r\nhi\r\n")
        async with line(replaying.url) as client:
            if late:
                await client.send(begin)
                await until(lambda: replaying.server.active_count == 1)
                await client.send(chunk)
            else:
                await client.send(begin + chunk)
            raw = await client.answer()
            rest = await client.rest()
        assert (raw.status, rest) == (400, b"")
        if late:
            assert "the request body is malformed" in _error(raw)
        await until(lambda: replaying.server.active_count == 0)

    async def test_the_parser_forgets_the_reader_of_a_malformed_body(self) -> None:
        """The trap that `intake.Connection` is for; where this fails, it can go."""
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
        """The trap that `ResponseWriter._caught_up` has a task for; where this fails, it can go."""
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
            raw, rest = await _once(replaying.url, _with_body(*framing, body=body))
        assert (raw.status, rest) == (413, b"")
        assert "larger than 100 bytes" in _error(raw)
        assert "--max-body" in _error(raw)

    async def test_a_body_at_the_limit_is_not(self, tmp_path: Path) -> None:
        async with proxy("replay", tmp_path, max_body=100) as replaying:
            assert (await ask(replaying.url, post("/v1/x", b"x" * 100))).status == 424

    @pytest.mark.parametrize("header", ["Origin: https://evil.example", "X-Nothing: wrong"])
    async def test_the_refusal_reaches_a_client_that_is_still_sending(
        self, tmp_path: Path, header: str
    ) -> None:
        body = b"x" * (8 * 1024 * 1024)
        async with proxy("replay", tmp_path, max_body=100) as replaying:
            raw = await ask(replaying.url, post("/v1/x", body, header))
        assert raw.status == (403 if "Origin" in header else 413)
        assert raw.how == "clean"

    async def test_a_silent_body_is_given_up(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            run, "RequestLimits", functools.partial(RequestLimits, body_silence=0.2)
        )
        async with proxy("replay", tmp_path) as replaying:
            raw, rest = await _once(replaying.url, _with_body(b"Content-Length: 9", body=b"half"))
        assert (raw.status, rest) == (408, b"")
        assert "0.2 s" in _error(raw)

    async def test_a_body_that_keeps_coming_may_take_longer_than_the_silence(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            run, "RequestLimits", functools.partial(RequestLimits, body_silence=1.0)
        )
        async with proxy("replay", tmp_path) as replaying, line(replaying.url) as client:
            await client.send(_with_body(b"Content-Length: 6"))
            for byte in (b"a", b"b", b"c", b"d", b"e", b"f"):
                await asyncio.sleep(0.2)
                await client.send(byte)
            assert (await client.answer()).status == 424

    @pytest.mark.parametrize(
        "sent", [b"", b"GET /v1/models HTTP/1.1\r\nHost: H"], ids=["nothing", "half a head"]
    )
    @pytest.mark.parametrize("used", [False, True], ids=["new", "used before"])
    async def test_a_connection_without_a_request_is_closed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes, used: bool
    ) -> None:
        monkeypatch.setattr(run, "_KEEPALIVE", 0.2)
        async with proxy("replay", tmp_path) as replaying, line(replaying.url) as client:
            if used:
                await client.send(HELLO)
                assert (await client.answer()).status == 200
            await client.send(sent)
            assert await client.rest() == b""


SMUGGLED = [
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
    @pytest.mark.parametrize("headers", SMUGGLED, ids=repr)
    async def test_a_request_that_could_be_read_in_two_ways_reaches_nobody(
        self, tmp_path: Path, headers: tuple[bytes, ...]
    ) -> None:
        async with (
            upstream(_say_target) as live,
            proxy("record", tmp_path, live.url) as recording,
        ):
            raw, rest = await _once(recording.url, _with_body(*headers, body=b"0\r\n\r\n"))
        assert (raw.status, rest) == (400, b"")
        assert live.requests == []

    async def test_http_1_0_has_no_chunks(self, replaying: RunningProxy) -> None:
        request = _with_body(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n")
        raw, _ = await _once(replaying.url, request.replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert raw.status == 400
        assert "HTTP/1.0 has no Transfer-Encoding" in _error(raw)

    @pytest.mark.parametrize(
        "garbage",
        [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"hello\r\n\r\n", b"\x00" * 100],
        ids=["TLS", "words", "zeros"],
    )
    async def test_what_is_not_http_is_refused_and_the_next_client_served(
        self, replaying: RunningProxy, garbage: bytes
    ) -> None:
        raw, rest = await _once(replaying.url, garbage)
        assert (raw.status, rest) == (400, b"")
        async with line(replaying.url) as client:
            await client.send(HELLO)
            assert (await client.answer()).status == 200

    @pytest.mark.parametrize(
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
        raw, _ = await _once(replaying.url, garbage)
        assert (raw.status, raw.header("connection")) == (400, "close")
        assert raw.header("content-type") == "application/json"
        assert raw.header("server") is None
        message = _error(raw)
        assert re.fullmatch("this is no HTTP request that can be read: [^\n]{5,200}", message)
        assert message.isprintable()
        assert b"canary" not in raw.body
        assert caplog.text == ""

    async def test_a_line_of_the_parser_that_shows_bytes_shows_them_printable_and_cut(
        self, replaying: RunningProxy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stumble(*_: object) -> None:
            raise BadStatusLine(f"a\x1b[31m\u202e{'b' * 1000}\r\ncanary")

        def made_with_that_parser(connection: Intake, transport: asyncio.BaseTransport) -> None:
            made(connection, transport)
            connection._parser = Mock(feed_data=stumble)

        made = Intake.connection_made
        monkeypatch.setattr(Intake, "connection_made", made_with_that_parser)
        async with line(replaying.url) as client:
            await client.send(b"anything")
            message = _error(await client.answer())
        assert message.isprintable()
        assert len(message) < 300
        assert "\\x1b[31m\\u202ebbb" in message
        assert "canary" not in message

    async def test_a_bomb_of_a_header_is_refused(self, replaying: RunningProxy) -> None:
        raw = await ask(replaying.url, chat("hi", "X-Bomb: " + "a" * 200_000))
        assert raw.status in {400, 431}
        assert _error(raw).endswith("one of its headers is longer than 65536 bytes")

    async def test_a_url_that_is_too_long_is_not_shown(self, replaying: RunningProxy) -> None:
        raw = await ask(replaying.url, post("/v1/" + "a" * 70_000, b""))
        assert raw.status == 400
        assert _error(raw).endswith(
            "its first line or one of its headers is longer than 65536 bytes"
        )

    async def test_a_header_of_thirty_kilobytes_is_not_a_bomb(
        self, replaying: RunningProxy
    ) -> None:
        raw = await ask(replaying.url, chat("hi", "X-Long: " + "a" * 30_000))
        assert raw.status == 200


async def _is_alive(client: Line) -> bool:
    """Whether a connection serves another request."""
    await client.send(HELLO)
    try:
        return (await client.answer()).status == 200
    except ConnectionError:
        return False


def _answer(framing: str, body: bytes = b"", status: int = 200) -> Answer:
    head = ResponseHead(status, "OK", (("Content-Type", "text/plain"),), framing)  # type: ignore[arg-type] # a framing's name from a table
    return Answer(((1, body),) if body else (), head=head)


class TestConnections:
    @pytest.mark.parametrize(
        ("answer", "alive"),
        [
            (_answer("chunked", b"in chunks"), True),
            (_answer("chunked"), True),
            (_answer("length", b"with a length"), True),
            (_answer("length"), True),
            (_answer("none", status=204), True),
            (_answer("none", status=304), True),
            (_answer("close", b"until the close"), False),
        ],
        ids=["chunked", "chunked, empty", "length", "length, empty", "204", "304", "close"],
    )
    async def test_a_connection_is_kept_where_the_framing_allows_it(
        self, tmp_path: Path, answer: Answer, alive: bool
    ) -> None:
        put(tmp_path, post("/thing", b"", method="GET"), answer)
        async with proxy("replay", tmp_path) as replaying, line(replaying.url) as client:
            await client.send(b"GET /thing HTTP/1.1\r\nHost: HOST\r\n\r\n")
            raw = await client.answer()
            assert (raw.status, raw.body) == (answer.head.status, bodies([answer])[0])
            assert await _is_alive(client) is alive

    async def test_a_connection_is_kept_after_a_miss(self, replaying: RunningProxy) -> None:
        async with line(replaying.url) as client:
            await client.send(GET + b"Host: HOST\r\n\r\n")
            assert (await client.answer()).status == 424
            assert await _is_alive(client)

    async def test_a_client_that_asks_for_the_close_gets_it(self, replaying: RunningProxy) -> None:
        raw, rest = await _once(replaying.url, GET + b"Host: HOST\r\nConnection: close\r\n\r\n")
        assert (raw.status, raw.header("connection"), rest) == (424, "close", b"")

    @pytest.mark.parametrize(
        "path", ["/v1/models", "/_proxy/health", "/_proxy/nothing"], ids=["miss", "page", "no page"]
    )
    async def test_an_answer_to_head_has_the_length_and_not_the_body(
        self, replaying: RunningProxy, path: str
    ) -> None:
        async with line(replaying.url) as client:
            await client.send(f"HEAD {path} HTTP/1.1\r\nHost: HOST\r\n\r\n".encode())
            raw = await client.answer(bodiless=True)
            assert int(raw.header("content-length") or 0) > 20
            assert await _is_alive(client)

    async def test_a_recorded_head_is_replayed_with_its_length(self, tmp_path: Path) -> None:
        head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "none", 4711)
        put(tmp_path, post("/v1/models", b"", method="HEAD"), Answer((), head=head))
        async with proxy("replay", tmp_path) as replaying, line(replaying.url) as client:
            await client.send(b"HEAD /v1/models HTTP/1.1\r\nHost: HOST\r\n\r\n")
            raw = await client.answer(bodiless=True)
            assert (raw.status, raw.header("content-length")) == (200, "4711")
            assert await _is_alive(client)

    @pytest.mark.parametrize("mode", ["replay", "auto", "simulate"])
    @pytest.mark.parametrize("path", ["/", "/api/hello", "/~anthropic"])
    async def test_who_only_asks_whether_anybody_is_there_is_answered_and_is_no_miss(
        self, tmp_path: Path, mode: ModeName, path: str
    ) -> None:
        async with proxy(mode, tmp_path, on_miss="fail", strict=True) as it, line(it.url) as client:
            await client.send(f"HEAD {path} HTTP/1.1\r\nHost: HOST\r\n\r\n".encode())
            raw = await client.answer(bodiless=True)
            assert await _is_alive(client)
        assert raw.status == 200
        assert list(it.journal.misses) == []
        assert it.journal.entries[0].origin == "answer to a probe"

    async def test_a_recorded_answer_to_a_probe_comes_before_ours(self, tmp_path: Path) -> None:
        head = ResponseHead(503, "No", (), "none", 0)
        put(tmp_path, post("/", b"", method="HEAD"), Answer((), head=head))
        async with proxy("replay", tmp_path) as replaying, line(replaying.url) as client:
            await client.send(b"HEAD / HTTP/1.1\r\nHost: HOST\r\n\r\n")
            assert (await client.answer(bodiless=True)).status == 503

    async def test_pipelined_requests_are_answered_in_their_order(self, tmp_path: Path) -> None:
        answers = [says(f"answer {number}", gap=20.0 - number) for number in range(20)]
        for number, answer in enumerate(answers):
            put(tmp_path, chat(f"question {number}"), answer)
        asked = [chat(f"question {number}", "Host: HOST") for number in range(20)]
        async with proxy("replay", tmp_path) as replaying, line(replaying.url) as client:
            await client.send(b"".join(asked))
            got = [(await client.answer()).body for _ in answers]
        assert got == bodies(answers)

    async def test_a_hundred_pipelined_requests_are_all_answered(
        self, replaying: RunningProxy
    ) -> None:
        async with line(replaying.url) as client:
            await client.send(HELLO * 100)
            assert {(await client.answer()).status for _ in range(100)} == {200}

    @pytest.mark.parametrize("framing", ["chunked", "length", "close"])
    async def test_a_client_of_http_1_0_gets_no_chunks(self, tmp_path: Path, framing: str) -> None:
        answer = _answer(framing, b"plainly")
        put(tmp_path, post("/thing", b"", method="GET"), answer)
        async with proxy("replay", tmp_path) as replaying:
            raw, rest = await _once(replaying.url, b"GET /thing HTTP/1.0\r\nHost: HOST\r\n\r\n")
        assert (raw.body, rest) == (b"plainly", b"")
        assert raw.header("transfer-encoding") is None
        assert raw.header("connection") == "close"

    async def test_a_client_of_http_1_0_may_ask_to_keep_the_connection(
        self, replaying: RunningProxy
    ) -> None:
        request = HELLO.replace(b"HTTP/1.1\r\n", b"HTTP/1.0\r\nConnection: keep-alive\r\n")
        async with line(replaying.url) as client:
            await client.send(request)
            raw = await client.answer()
            assert raw.header("connection") == "keep-alive"
            assert await _is_alive(client)

    async def test_an_empty_line_between_requests_is_let_pass(
        self, replaying: RunningProxy
    ) -> None:
        async with line(replaying.url) as client:
            await client.send(HELLO)
            assert (await client.answer()).status == 200
            await client.send(b"\r\n")
            assert await _is_alive(client)


class TestJournal:
    def test_it_keeps_the_latest_and_counts_them_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(journal, "_KEPT", 2)
        monkeypatch.setattr(journal, "_MISSES", 1)
        it = journal.Journal()
        for number in range(5):
            it.open_entry("", "GET", f"/{number}")
            it.add_recorded(journal.RecordedFile(f"{number}", "", complete=number != 4))
            it.add_recording_failure(f"lost {number}")
            it.add_miss(MissReport(text=f"missed {number}"))
        assert [entry.number for entry in it.entries] == [4, 5]
        assert [one.file for one in it.recorded] == ["3", "4"]
        assert it.failures == ["lost 3", "lost 4"]
        assert it.misses == [MissReport(text="missed 4")]
        assert it.counts == journal.JournalCounts(
            requests=5, recorded=5, complete=4, lost=5, missed=5
        )

    async def test_it_tells_what_became_of_each_request(self, replaying: RunningProxy) -> None:
        await ask(replaying.url, chat())
        await ask(replaying.url, chat("missing", "x-llm-proxy-session: s"))
        await ask(replaying.url, _named("evil.example"))
        hit, miss, refused = replaying.journal.entries
        assert (hit.status, hit.ending, hit.session) == (200, "sent", "default")
        assert hit.origin.endswith("-1.jsonl")
        assert hit.bytes == len(bodies([says("hello")])[0])
        assert (hit.provider, hit.dialect, hit.model) == ("openai", "openai-chat", "m")
        assert (miss.status, miss.origin, miss.session) == (424, "miss", "s")
        assert miss.note.startswith("no cassette for")
        assert (refused.status, refused.origin) == (421, "refused")
        assert "evil.example" in refused.note

    async def test_bytes_of_no_encoding_do_not_make_it_unreadable(
        self, replaying: RunningProxy
    ) -> None:
        await ask(replaying.url, chat("hi", "Origin: \xff", "Host: HOST\xff"))
        await ask(replaying.url, chat("hi", "x-llm-proxy-session: \xff"))
        raw = await ask(replaying.url, post("/_proxy/journal", b"", method="GET"))
        notes = [entry["note"] for entry in json.loads(raw.body)["entries"]]
        assert "\\udcff" in notes[0]
        assert "is no session name" in notes[1]

    async def test_a_client_that_leaves_is_noticed_at_once(self, tmp_path: Path) -> None:
        put(tmp_path, chat(), says(*"abc", gap=60_000))
        async with proxy("replay", tmp_path) as replaying:
            async with line(replaying.url) as client:
                await client.send(chat("hi", "Host: HOST"))
                await client.reader.readuntil(b"\r\n\r\n")
            await until(lambda: replaying.server.active_count == 0, within=1)
            [entry] = replaying.journal.entries
        assert entry.ending == "client_gone"
        assert replaying.journal.counts.left == 0  # it had the head

    @pytest.mark.parametrize("begun", [False, True], ids=["before", "within"])
    async def test_a_client_that_leaves_is_counted_where_there_was_no_answer_yet(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, begun: bool
    ) -> None:
        async def slow(connection: Connection) -> None:
            if begun:
                await connection.begin()
                await connection.chunk(b"data: 1\n\n")
            await connection.reader.read()

        caplog.set_level("INFO")
        async with upstream(slow) as live, proxy("record", tmp_path, live.url) as recording:
            async with line(recording.url) as client:
                await client.send(chat("hi", "Host: HOST"))
                await until(lambda: len(live.requests) == 1)
                if begun:
                    await client.reader.readuntil(b"data: 1")
            await until(lambda: recording.server.active_count == 0)
        assert recording.journal.counts.left == (not begun)
        said = [message for message in caplog.messages if "left after" in message]
        assert [bool(re.fullmatch(_LEFT, item)) for item in said] == [True] * (not begun)


class TestStopping:
    async def test_open_streams_are_let_end_and_then_nothing_is_left(self, tmp_path: Path) -> None:
        answer = says(*"abcdef", gap=60)
        put(tmp_path, chat(), answer)
        async with proxy("replay", tmp_path) as replaying:
            client = asyncio.create_task(ask(replaying.url, chat()))
            await until(lambda: replaying.server.active_count == 1)
            await replaying.drain(asyncio.Event())
            raw = await client
            with pytest.raises(ConnectionError):
                await ask(replaying.url, chat())
        assert (raw.body, raw.how) == (bodies([answer])[0], "clean")

    @pytest.mark.parametrize("hurry", [False, True], ids=["the time is up", "a second signal"])
    async def test_then_what_still_runs_is_cut(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hurry: bool
    ) -> None:
        monkeypatch.setattr(run, "_DRAIN", 30.0 if hurry else 0.2)
        put(tmp_path, chat(), says(*"abcdef", gap=60_000))
        loop = asyncio.get_running_loop()
        told = asyncio.Event()
        async with proxy("replay", tmp_path) as replaying:
            client = asyncio.create_task(ask(replaying.url, chat()))
            await until(lambda: replaying.server.active_count == 1)
            begun = loop.time()
            loop.call_later(0.2, told.set if hurry else lambda: None)
            await replaying.drain(told)
        took = loop.time() - begun
        raw = await client
        assert (raw.status, raw.how) == (200, "fin")
        assert 0.15 < took < 20  # not the 30 s that a drain may take
        assert [entry.ending for entry in replaying.journal.entries] == ["cut"]

    async def test_a_kept_connection_is_closed_after_its_next_answer(self, tmp_path: Path) -> None:
        put(tmp_path, chat(), says("a", gap=150))
        async with proxy("replay", tmp_path) as replaying, line(replaying.url) as client:
            await client.send(HELLO)
            await client.answer()
            slow = asyncio.create_task(ask(replaying.url, chat()))
            await until(lambda: replaying.server.active_count == 1)
            draining = asyncio.create_task(replaying.drain(asyncio.Event()))
            await until(lambda: _refuses(replaying.url))
            await client.send(HELLO)
            assert (await client.answer()).header("connection") == "close"
            assert await client.rest() == b""
            await draining
            assert (await slow).how == "clean"

    async def test_idle_connections_do_not_delay_the_end(self, tmp_path: Path) -> None:
        loop = asyncio.get_running_loop()
        async with proxy("replay", tmp_path) as replaying:
            async with line(replaying.url) as fresh, line(replaying.url) as used:
                await used.send(HELLO)
                await used.answer()
                begun = loop.time()
                await replaying.drain(asyncio.Event())
                assert fresh.within
        assert loop.time() - begun < 20  # of the 30 s that a drain may take


def _refuses(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname, parts.port)) != 0
