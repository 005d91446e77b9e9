"""The request that the provider gets, and the response that reaches the client and the disk."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import shutil
import socket
import ssl
import subprocess
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import accumulate
from pathlib import Path

import brotli  # type: ignore[import-untyped] # it comes without types
import pytest

from case_tables import each_row
from in_process_proxy import load_cassettes, proxy
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.shell.recording.recorder import SpooledRecording
from llm_proxy.shell.upstream import live
from llm_proxy.shell.upstream.connection import UpstreamResponse
from llm_proxy.shell.upstream.live import LiveUpstream, UpstreamSettings
from llm_proxy.shell.upstream.pump import ResponsePump
from raw_http import RawResponse, build_http_request, open_line, send_request
from stored_cassettes import route_raw_request
from stub_upstream import Connection, Script, Upstream, chunked, fixed_length, upstream
from thoroughness import quick_or_thorough
from waiting import wait_until

STREAM = b'data: {"choices":[{"index":0,"delta":{"content":"Gr\xc3\xbc\xc3\x9fe"}}]}\n\n' * 20
DONE = b"data: [DONE]\n\n"
BODY = json.dumps({"model": "m", "stream": True, "messages": []}).encode()
CHAT = build_http_request("/v1/chat/completions", BODY, "Content-Type: application/json")


def _bodiless_request(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", *headers, "", ""]).encode("latin-1")


def _header_values(head: bytes, name: str) -> list[str]:
    """The values of one header of a head, in order."""
    fields = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return [value.strip().decode("latin-1") for key, _, value in fields if key.decode() == name]


async def _record_once(
    folder: Path, request: bytes, *scripts: Script
) -> tuple[Upstream, RawResponse]:
    """Send one request through a recording proxy; return the upstream and the response."""
    async with upstream(*scripts) as live, proxy("record", folder, live.url) as recording:
        return live, await send_request(recording.url, request)


# --- the forwarded request --------------------------------------------------------------------


async def test_no_content_coding_is_requested(tmp_path: Path) -> None:
    request = _bodiless_request("/v1/models", "Accept-Encoding: gzip, br, zstd")
    live, _ = await _record_once(tmp_path, request, fixed_length(b"{}"))
    assert _header_values(live.requests[0][0], "Accept-Encoding") == ["identity"]


TARGETS = [
    "/v1/chat/completions",
    "/v1/%7Euser/x",
    "/v1/../x",
    "/v1/./x//y/",
    "/v1/a[b]?c[]=d&c[]=e",
    "/v1/%zz?q=%zz",
    "/v1/a%2Fb%2fc",
    "/v1/%E6%97%A5?x=%C3%BC+%20",
    "/v1/x?a=b?c=d&&=",
    "/v1/models/claude:generate;v=1@2,3'(4)*!$",
    "//double/slash",
    "/",
]


@each_row("target", TARGETS)
async def test_the_target_reaches_the_provider_as_it_was_sent(tmp_path: Path, target: str) -> None:
    live, raw = await _record_once(tmp_path, _bodiless_request(target), fixed_length(b"{}"))
    assert raw.status == 200
    assert live.requests[0][0].split(b"\r\n")[0] == f"GET {target} HTTP/1.1".encode()


@each_row(
    ("base", "target", "expected_target"),
    [
        ("/v1", "/v1/models", "/v1/models"),
        ("/v1/", "/v1/models", "/v1/models"),
        ("/v1", "/v1?x=1", "/v1?x=1"),
        ("/v1", "/v1beta/models", "/v1/v1beta/models"),
        ("/api/v1", "/v1/models", "/api/v1/models"),
        ("/gateway", "/v1/models", "/gateway/v1/models"),
        ("", "/v1/models", "/v1/models"),
    ],
)
async def test_a_v1_that_base_and_path_share_is_joined_once(
    tmp_path: Path, base: str, target: str, expected_target: str
) -> None:
    async with upstream(fixed_length(b"{}")) as live:
        async with proxy("record", tmp_path, live.url + base) as recording:
            await send_request(recording.url, _bodiless_request(target))
    assert live.requests[0][0].split(b" ")[1] == expected_target.encode()


async def test_headers_of_the_connection_end_here_and_all_others_go_on(tmp_path: Path) -> None:
    request = build_http_request(
        "/v1/chat/completions",
        BODY,
        "Connection: keep-alive, X-Hop",
        "Connection: x-second-hop",
        "X-Hop: 1",
        "X-Second-Hop: 1",
        "Keep-Alive: timeout=5",
        "TE: trailers",
        "Proxy-Authorization: Basic x",
        "Proxy-Connection: keep-alive",
        "X-Twice: one",
        "x-twice: two",
        "X-Utf8: caf\xc3\xa9",
        "Authorization: Bearer sk-canary-0123456789",
        "x-llm-proxy-session: mine",
    )
    live, _ = await _record_once(tmp_path, request, chunked([STREAM, DONE]))
    head, body = live.requests[0]
    names = {line.partition(b":")[0].lower().decode() for line in head.split(b"\r\n")[1:] if line}
    assert names == {
        "host", "content-length", "accept-encoding", "x-twice", "x-utf8", "authorization", "via",
    }  # fmt: skip
    assert _header_values(head, "X-Twice") == ["one", "two"]
    assert _header_values(head, "X-Utf8") == ["caf\xc3\xa9"]
    assert _header_values(head, "Host") == [live.url.removeprefix("http://")]
    assert body == BODY


async def test_a_request_in_chunks_goes_on_with_its_length(tmp_path: Path) -> None:
    head = _bodiless_request("/v1/chat/completions", "Transfer-Encoding: chunked", method="POST")
    request = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    live, _ = await _record_once(tmp_path, request, chunked([STREAM, DONE]))
    sent, body = live.requests[0]
    assert _header_values(sent, "Content-Length") == [str(len(BODY))]
    assert _header_values(sent, "Transfer-Encoding") == []
    assert body == BODY


async def test_a_client_that_expects_a_continue_gets_it_from_the_proxy(
    tmp_path: Path,
) -> None:
    async with (
        upstream(chunked([STREAM, DONE])) as live,
        proxy("record", tmp_path, live.url) as recording,
    ):
        port = int(recording.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        host = f"Host: 127.0.0.1:{port}"
        request = build_http_request("/v1/chat/completions", BODY, host, "Expect: 100-continue")
        head, _, body = request.partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        async with asyncio.timeout(20):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert live.requests == []
        writer.write(body)
        async with asyncio.timeout(20):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        writer.close()
    assert _header_values(live.requests[0][0], "Expect") == []


async def test_the_proxies_of_the_environment_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        upstream(fixed_length(b"{}")) as environment_proxy,
        upstream(fixed_length(b"{}")) as live,
    ):
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, environment_proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with proxy("record", tmp_path, live.url) as recording:
            await send_request(recording.url, _bodiless_request("/v1/models"))
    assert (len(live.requests), len(environment_proxy.requests)) == (1, 0)


async def test_the_proxy_of_the_operator_is_used(tmp_path: Path) -> None:
    async with upstream(fixed_length(b"{}")) as forward_proxy:
        async with proxy(
            "record", tmp_path, "http://provider.invalid", upstream_proxy=forward_proxy.url
        ) as recording:
            raw = await send_request(recording.url, _bodiless_request("/v1/models"))
    assert raw.status == 200
    assert forward_proxy.requests[0][0].startswith(
        b"GET http://provider.invalid/v1/models HTTP/1.1"
    )


# --- the response ---------------------------------------------------------------------------


async def test_a_redirect_is_passed_on_and_not_followed(tmp_path: Path) -> None:
    async with upstream(fixed_length(b"{}")) as elsewhere:

        async def redirect(connection: Connection) -> None:
            await connection.begin(
                f"Location: {elsewhere.url}/v1/x", "Content-Length: 0", status="307 Elsewhere"
            )

        request = build_http_request(
            "/v1/chat/completions", BODY, "x-api-key: sk-canary-0123456789"
        )
        _, raw = await _record_once(tmp_path, request, redirect)
        assert (raw.status, raw.reason) == (307, "Elsewhere")
        assert raw.header("location") == f"{elsewhere.url}/v1/x"
        assert elsewhere.requests == []


async def test_cookies_reach_the_client_and_neither_the_next_one_nor_the_disk(
    tmp_path: Path,
) -> None:
    async def with_cookies(connection: Connection) -> None:
        await connection.begin(
            "Set-Cookie: __cf_bm=canary-one; path=/; HttpOnly",
            "set-cookie: session=canary-two",
            "Content-Length: 2",
            content_type="application/json",
        )
        await connection.send(b"{}")

    async with upstream(with_cookies) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            first = await send_request(recording.url, _bodiless_request("/v1/models"))
            await send_request(recording.url, _bodiless_request("/v1/models?2"))
    cookies = [value for name, value in first.headers if name.lower() == "set-cookie"]
    assert cookies == ["__cf_bm=canary-one; path=/; HttpOnly", "session=canary-two"]
    assert [_header_values(head, "Cookie") for head, _ in live.requests] == [[], []]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2
    assert not [path for path in files if b"canary" in path.read_bytes()]


async def test_a_response_keeps_its_headers_but_those_of_the_connection(tmp_path: Path) -> None:
    async def script(connection: Connection) -> None:
        await connection.begin(
            "Connection: keep-alive, X-Hop",
            "X-Hop: 1",
            "Keep-Alive: timeout=5",
            "X-Twice: one",
            "x-Twice: two",
            "X-Latin: caf\xe9",
            "Transfer-Encoding: chunked",
            status="200 Gr\xc3\xbc\xc3\x9fe",
        )
        await connection.finish()

    _, raw = await _record_once(tmp_path, CHAT, script)
    assert raw.headers == [
        ("Content-Type", "text/event-stream"),
        ("X-Twice", "one"),
        ("x-Twice", "two"),
        ("X-Latin", "caf\xe9"),
        ("Transfer-Encoding", "chunked"),
    ]
    assert raw.reason == "Gr\xc3\xbc\xc3\x9fe"


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    ("method", "status", "headers"),
    [
        ("HEAD", "200 OK", ["Content-Length: 12345"]),
        ("HEAD", "200 OK", ["Transfer-Encoding: chunked"]),
        ("GET", "204 No Content", ["X-A: b", "Connection: keep-alive"]),
        ("GET", "304 Not Modified", ['ETag: "x"', "Content-Length: 5"]),
        ("GET", "200 OK", ["Content-Length: 0"]),
    ],
    ids=["HEAD", "HEAD, chunked", "204", "304", "length 0"],
)
async def test_an_answer_without_a_body_ends_with_its_head(
    tmp_path: Path, method: str, status: str, headers: list[str], times: int
) -> None:
    async def script(connection: Connection) -> None:
        await connection.begin(*headers, status=status, content_type="application/json")

    async with upstream(script) as live, proxy("record", tmp_path, live.url) as recording:
        raws = [
            await send_request(
                recording.url, _bodiless_request(f"/v1/x?{number}", method=method), timeout_s=3
            )
            for number in range(times)
        ]
        assert live.connections == 1
    for raw in raws:
        assert (raw.status, raw.ending, raw.body) == (int(status[:3]), "clean", b"")
        if method == "HEAD" and "Length" in headers[0]:
            assert raw.header("content-length") == "12345"
    recorded = load_cassettes(tmp_path)
    assert len(recorded) == times
    assert all(
        cassette_outcome(item).is_complete and item.response_body == b"" for item in recorded
    )

    async with proxy("replay", tmp_path) as replaying:
        replayed = await send_request(replaying.url, _bodiless_request("/v1/x?0", method=method))
    assert (replayed.status, replayed.ending, replayed.body) == (int(status[:3]), "clean", b"")
    assert replayed.header("content-length") == raws[0].header("content-length")


def _raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip, two members": (
        "X-GZIP",
        lambda data: gzip.compress(data[:99]) + gzip.compress(data[99:]),
    ),
    "deflate": ("deflate", zlib.compress),
    "deflate, against the RFC": ("deflate", _raw_deflate),
    "br": ("br", brotli.compress),
}


def _compressed_script(coding: str, pieces: list[bytes]) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(f"Content-Encoding: {coding}", "Transfer-Encoding: chunked")
        for piece in pieces:
            await connection.chunk(piece)
        await connection.finish()

    return script


def _in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("name", CODINGS)
async def test_a_compressed_body_is_passed_on_compressed_and_stored_decompressed(
    tmp_path: Path, name: str, size: int
) -> None:
    coding, compress = CODINGS[name]
    compressed = compress(STREAM + DONE)
    _, raw = await _record_once(
        tmp_path, CHAT, _compressed_script(coding, _in_pieces(compressed, size))
    )
    assert raw.chunks == _in_pieces(compressed, size)
    assert raw.header("content-encoding") == coding

    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_body == STREAM + DONE
    assert cassette.content_coding == coding.lower()
    assert cassette_outcome(cassette).is_complete
    async with proxy("replay", tmp_path) as replaying:
        replayed = await send_request(replaying.url, CHAT)
    assert replayed.body == STREAM + DONE
    assert replayed.header("content-encoding") is None


@pytest.mark.parametrize("name", ["gzip", "deflate", "br"])
@pytest.mark.parametrize("damage", ["broken", "cut short"])
async def test_a_body_that_cannot_be_decompressed_is_malformed_and_never_complete(
    tmp_path: Path, name: str, damage: str
) -> None:
    coding, compress = CODINGS[name]
    compressed = compress(STREAM + DONE)
    damaged = (
        compressed[:20] + b"\x00\xff\x00\xff" + compressed[24:]
        if damage == "broken"
        else compressed[:-6]
    )
    _, raw = await _record_once(tmp_path, CHAT, _compressed_script(coding, _in_pieces(damaged, 11)))
    assert raw.body == damaged
    assert raw.ending == "clean"  # the HTTP framing is intact: the client detects the damage

    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.ending is Ending.MALFORMED
    assert not cassette_outcome(cassette).is_complete
    assert (STREAM + DONE).startswith(cassette.response_body)


async def test_an_unknown_coding_is_stored_compressed_with_its_header(tmp_path: Path) -> None:
    _, raw = await _record_once(tmp_path, CHAT, _compressed_script("exi", [b"\x80\x81", b"\x82"]))
    assert raw.chunks == [b"\x80\x81", b"\x82"]
    [cassette] = load_cassettes(tmp_path)
    assert (cassette.response_body, cassette.content_coding) == (b"\x80\x81\x82", "")
    async with proxy("replay", tmp_path, allow_partial=True) as replaying:
        replayed = await send_request(replaying.url, CHAT)
    assert replayed.body == b"\x80\x81\x82"
    assert replayed.header("content-encoding") == "exi"


# --- errors without a response ----------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@each_row(
    ("path", "error_message"),
    [
        ("/v1/chat/completions", lambda document: document["error"]["message"]),
        ("/api/chat", lambda document: document["error"]),
        ("/anything", lambda document: document["error"]["message"]),
    ],
    ids=["openai-chat", "ollama", "opaque"],
)
async def test_an_unreachable_provider_is_a_502_in_the_shape_of_the_dialect(
    tmp_path: Path, path: str, error_message: Callable[[dict[str, dict[str, str]]], str]
) -> None:
    unreachable_url = f"http://127.0.0.1:{_free_port()}"
    async with proxy("record", tmp_path, unreachable_url) as recording:
        raw = await send_request(
            recording.url, build_http_request(path, BODY, "Content-Type: application/json")
        )
    assert raw.status == 502
    assert raw.header("x-should-retry") is None
    message = error_message(json.loads(raw.body))
    assert unreachable_url in message
    assert "--upstream" in message
    assert load_cassettes(tmp_path) == []


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_cannot_be_reached_is_named_and_not_the_provider(
    tmp_path: Path, scheme: str
) -> None:
    unreachable_url = f"http://127.0.0.1:{_free_port()}"
    async with (
        upstream(fixed_length(b"{}")) as live,
        proxy(
            "record", tmp_path, live.url.replace("http", scheme), upstream_proxy=unreachable_url
        ) as recording,
    ):
        raw = await send_request(recording.url, CHAT)
    message = json.loads(raw.body)["error"]["message"]
    assert (raw.status, live.requests) == (502, [])
    assert message.startswith(f"--upstream-proxy {unreachable_url} cannot be reached (")
    assert live.url not in message


async def test_a_proxy_whose_name_does_not_resolve_is_named_and_not_the_provider(
    tmp_path: Path,
) -> None:
    settings = {"upstream_proxy": "http://proxy.invalid:3128"}
    async with proxy("record", tmp_path, "http://127.0.0.1:1", **settings) as recording:
        raw = await send_request(recording.url, CHAT)
    message = json.loads(raw.body)["error"]["message"]
    assert message.startswith("--upstream-proxy http://proxy.invalid:3128 cannot be reached (")


async def test_a_proxy_that_refuses_the_tunnel_is_named_with_its_status(tmp_path: Path) -> None:
    async with upstream(fixed_length(b"no", status="403 Forbidden")) as forward_proxy:
        async with proxy(
            "record", tmp_path, "https://provider.invalid", upstream_proxy=forward_proxy.url
        ) as recording:
            raw = await send_request(recording.url, CHAT)
    assert raw.status == 502
    message = json.loads(raw.body)["error"]["message"]
    assert message.startswith(
        f"--upstream-proxy {forward_proxy.url} refused to connect to the upst"
    )
    assert "HTTP 403" in message


async def test_a_failure_behind_the_proxy_names_both(tmp_path: Path) -> None:
    async def close_at_once(connection: Connection) -> None:
        connection.fin()

    async with upstream(close_at_once) as forward_proxy:
        async with proxy(
            "record", tmp_path, "http://provider.invalid", upstream_proxy=forward_proxy.url
        ) as recording:
            raw = await send_request(recording.url, CHAT)
    message = json.loads(raw.body)["error"]["message"]
    assert "http://provider.invalid" in message
    assert f"through --upstream-proxy {forward_proxy.url}" in message


async def test_a_provider_whose_name_does_not_resolve_is_a_502_that_says_so(
    tmp_path: Path,
) -> None:
    async with proxy("record", tmp_path, "http://provider.invalid") as recording:
        raw = await send_request(recording.url, CHAT)
    assert raw.status == 502
    assert "provider.invalid" in json.loads(raw.body)["error"]["message"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl, which makes certificates, is not here")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    result = subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "-", "-days", "2",
         "-subj", "/CN=localhost"],
        capture_output=True, check=True,
    )  # fmt: skip
    file.write_bytes(result.stdout)
    return file


@asynccontextmanager
async def _tls_server(certificate: Path) -> AsyncIterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context
    )
    async with server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}"


async def test_an_untrusted_certificate_is_a_502_that_says_so(
    tmp_path: Path, certificate: Path
) -> None:
    async with _tls_server(certificate) as url, proxy("record", tmp_path, url) as recording:
        raw = await send_request(recording.url, CHAT)
    assert raw.status == 502
    assert "certificate" in json.loads(raw.body)["error"]["message"]


async def test_a_provider_that_does_not_speak_tls_is_a_502(tmp_path: Path) -> None:
    async def respond_without_tls(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(respond_without_tls, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, proxy("record", tmp_path, url) as recording:
        raw = await send_request(recording.url, CHAT)
    assert raw.status == 502
    assert url in json.loads(raw.body)["error"]["message"]


async def test_a_secret_of_the_query_is_in_no_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def garbage(connection: Connection) -> None:
        await connection.send(b"SSH-2.0-OpenSSH_9.2\r\n")

    request = build_http_request(
        "/v1beta/models/gemini:streamGenerateContent?key=AIzaCanary0123456789", b"{}"
    )
    _, raw = await _record_once(tmp_path, request, garbage)
    assert raw.status == 502
    assert b"Canary" not in raw.body
    assert "Canary" not in caplog.text
    assert b"\\n" not in raw.body  # a single line


async def test_an_internal_error_gives_no_answer_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def raise_error(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(live, "_response_head", raise_error)
    _, raw = await _record_once(tmp_path, CHAT, fixed_length(b"{}"))
    assert (raw.status, raw.ending) == (0, "rst")
    assert "please report it" in caplog.text
    assert load_cassettes(tmp_path) == []


@pytest.mark.parametrize("method_name", ["record_head", "record_read", "finish"])
async def test_an_internal_error_within_an_answer_is_a_reset_and_is_logged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method_name: str,
) -> None:
    def raise_error(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(SpooledRecording, method_name, raise_error)
    async with upstream(chunked([STREAM, DONE])) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            raw = await send_request(recording.url, CHAT, timeout_s=5)
            assert recording.active_stream_count() == 0
    assert raw.ending == "rst"
    assert caplog.text.count("internal error in llm-proxy; please report it") == 1
    assert "a fault of ours" in caplog.text
    assert not any(cassette_outcome(cassette).is_complete for cassette in load_cassettes(tmp_path))


async def test_an_internal_error_after_the_client_has_left_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client_left = asyncio.Event()
    original_method = ResponsePump._queue_and_record

    def raise_error(pump: ResponsePump, data: bytes) -> None:
        if data == DONE:
            raise RuntimeError("a fault of ours")
        original_method(pump, data)

    async def script(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(STREAM)
        await client_left.wait()
        await connection.chunk(DONE)
        await connection.finish()

    monkeypatch.setattr(ResponsePump, "_queue_and_record", raise_error)
    settings = {"finish_on_disconnect": True}
    async with (
        upstream(script) as live,
        proxy("record", tmp_path, live.url, **settings) as recording,
    ):
        async with open_line(recording.url) as client:
            await client.send(CHAT.replace(b"\r\n", b"\r\nHost: HOST\r\n", 1))
            await client.reader.readuntil(b"\n\n")
        await wait_until(lambda: recording.server.active_request_count == 0)
        client_left.set()
        await wait_until(lambda: not recording.active_stream_count())
        await wait_until(lambda: "please report it" in caplog.text)
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.ending is Ending.RECORDER_ERROR
    assert cassette.response_body == STREAM


# --- cancellation ---------------------------------------------------------------------------------


async def _hang_without_head() -> tuple[UpstreamResponse, ResponseHead]:
    """Open an upstream that sends no head, and whose cancellation takes 50 ms."""
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.05)
    raise AssertionError("it was cancelled")


async def test_stopping_a_pump_can_be_cancelled() -> None:
    pump = ResponsePump(route_raw_request(CHAT), _hang_without_head, 30.0)
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(pump.stop(Ending.KILLED))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    await asyncio.wait([pump.task])
    assert pump.task.cancelled()


async def test_closing_the_response_closes_its_bursts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = False
    original_method = ResponsePump.read_batches

    async def bursts(pump: ResponsePump) -> AsyncIterator[list[Read]]:
        nonlocal closed
        try:
            async for pieces in original_method(pump):
                yield pieces
        finally:
            closed = True

    monkeypatch.setattr(ResponsePump, "read_batches", bursts)
    async with upstream(chunked([STREAM])) as live:
        async with LiveUpstream(UpstreamSettings({"default": live.url})) as provider:
            source = provider.stream(route_raw_request(CHAT), None)
            for _ in range(2):  # the head, and the first burst
                await anext(source)
            await wait_until(lambda: not provider.active_response_count)
            await source.aclose()
            assert closed


# --- kept and dropped connections ---------------------------------------------------------------


async def _drop(connection: Connection) -> None:
    connection.fin()


async def _drop_by_reset(connection: Connection) -> None:
    await connection.rst()


@pytest.mark.parametrize("drop", [_drop, _drop_by_reset], ids=["fin", "rst"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_kept_connection_that_drops_is_replaced_once(
    tmp_path: Path, method: str, drop: Script
) -> None:
    async with (
        upstream(fixed_length(b"{}"), drop, fixed_length(b"[]")) as live,
        proxy("record", tmp_path, live.url) as recording,
    ):
        await send_request(recording.url, _bodiless_request("/v1/models"))
        raw = await send_request(
            recording.url, _bodiless_request("/v1/x", "Content-Length: 0", method=method)
        )
    assert (raw.status, raw.body) == (200, b"[]")
    assert len(live.requests) == 3
    assert live.connections == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_replacement_that_drops_as_well_is_not_replaced(
    tmp_path: Path, method: str
) -> None:
    async with (
        upstream(fixed_length(b"{}"), _drop) as live,
        proxy("record", tmp_path, live.url) as recording,
    ):
        await send_request(recording.url, _bodiless_request("/v1/models"))
        raw = await send_request(
            recording.url, _bodiless_request("/v1/x", "Content-Length: 0", method=method)
        )
    assert raw.status == 502
    assert len(live.requests) == 3


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_fresh_connection_that_drops_is_not_tried_again(
    tmp_path: Path, method: str
) -> None:
    live, raw = await _record_once(
        tmp_path, _bodiless_request("/v1/x", "Content-Length: 0", method=method), _drop
    )
    assert raw.status == 502
    assert len(live.requests) == 1


async def test_a_request_is_not_repeated_once_its_answer_has_begun(tmp_path: Path) -> None:
    async def half_a_head(connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
        connection.fin()

    async with (
        upstream(fixed_length(b"{}"), half_a_head) as live,
        proxy("record", tmp_path, live.url) as recording,
    ):
        await send_request(recording.url, _bodiless_request("/v1/models"))
        raw = await send_request(recording.url, build_http_request("/v1/chat/completions", BODY))
    assert raw.status == 502
    assert len(live.requests) == 2


# --- size ------------------------------------------------------------------------------------


def _resident_bytes() -> int:
    """The resident memory of this process in bytes."""
    status = Path("/proc/self/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int:
    """The peak resident memory of this process in bytes since `_reset_peak`."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def _boundaries(pieces: list[bytes]) -> list[int]:
    return list(accumulate(map(len, pieces)))


async def test_thousands_of_tiny_chunks_arrive_in_their_pieces(tmp_path: Path) -> None:
    pieces = [b"data: %d\n\n" % number for number in range(quick_or_thorough(2000, 10_000))]
    _, raw = await _record_once(tmp_path, CHAT, chunked([*pieces, DONE]))
    [cassette] = load_cassettes(tmp_path)
    assert raw.body == cassette.response_body == b"".join([*pieces, DONE])
    assert [read.received_bytes for read in cassette.reads] == raw.chunks
    # A network read that ends within a chunk splits it; the provider sets all other boundaries.
    cuts = set(_boundaries(raw.chunks)) - set(_boundaries([*pieces, DONE]))
    assert set(_boundaries([*pieces, DONE])) <= set(_boundaries(raw.chunks))
    assert len(cuts) < 50
    assert cassette_outcome(cassette).is_complete
