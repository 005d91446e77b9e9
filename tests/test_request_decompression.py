"""Compressed requests are passed on unchanged, stored decompressed, and found in replay."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli  # type: ignore[import-untyped] # it comes without types
import pytest
from backports import zstd

from case_tables import each_row
from in_process_proxy import load_cassettes, proxy
from llm_proxy.exchange import Request
from llm_proxy.shell.server.intake import decompress_request
from provider_streams import CHAT_COMPLETION, json_response
from raw_http import build_http_request, send_request
from stub_upstream import upstream

PATH = "/v1/chat/completions"
CANARY = "sk-canary-0123456789"
REQUEST_JSON = {"model": "gpt-5", "messages": [{"role": "user", "content": f"my key is {CANARY}"}]}
BODY = json.dumps(REQUEST_JSON).encode()
AUTHORIZATION = f"Authorization: Bearer {CANARY}"
MAX_BYTES = 1024 * 1024

CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "gzip, zstd": lambda body: zstd.compress(gzip.compress(body)),
}


def compressed_request_bytes(coding: str, body: bytes) -> bytes:
    return build_http_request(
        PATH, body, "Content-Type: application/json", f"Content-Encoding: {coding}", AUTHORIZATION
    )


def compressed_request(coding: str, body: bytes) -> Request:
    return Request("POST", PATH, "", (("Content-Encoding", coding), ("Accept", "*/*")), body)


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_compressed_request_is_passed_on_as_it_came_and_kept_plain(
    coding: str, tmp_path: Path
) -> None:
    compressed = CODINGS[coding](BODY)
    async with upstream(json_response(CHAT_COMPLETION)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            await send_request(recording.url, compressed_request_bytes(coding, compressed))

    [(head, body)] = live.requests
    [cassette] = load_cassettes(tmp_path)
    assert (body, f"Content-Encoding: {coding}".encode() in head) == (compressed, True)
    assert CANARY.encode() not in cassette.request.body
    assert json.loads(cassette.request.body)["model"] == cassette.meta.model == "gpt-5"
    assert "content-encoding" not in dict(cassette.request.headers)
    assert cassette.request.redacted_count == 1


async def test_a_request_is_found_again_however_it_was_compressed(tmp_path: Path) -> None:
    async with upstream(json_response(CHAT_COMPLETION)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            await send_request(
                recording.url, compressed_request_bytes("gzip", gzip.compress(BODY, 1))
            )
    async with proxy("replay", tmp_path) as replaying:
        responses = [
            await send_request(
                replaying.url, compressed_request_bytes("gzip", gzip.compress(BODY, 9))
            ),
            await send_request(
                replaying.url, compressed_request_bytes("zstd", zstd.compress(BODY))
            ),
            await send_request(replaying.url, compressed_request_bytes("identity", BODY)),
            await send_request(
                replaying.url,
                build_http_request(PATH, BODY, "Content-Type: application/json", AUTHORIZATION),
            ),
        ]

    assert [raw.status for raw in responses] == [200] * 4


@each_row(
    ("coding", "body", "reason"),
    [
        ("gzip", b"no gzip at all", "incorrect header check"),
        ("gzip", gzip.compress(BODY)[:-9], "the coded body is cut short"),
        ("gzip", gzip.compress(bytes(MAX_BYTES + 1)), f"it decodes to more than {MAX_BYTES} bytes"),
        ("snappy", BODY, "it cannot be decoded here"),
    ],
    ids=["broken", "cut", "bomb", "unknown"],
)
async def test_an_undecodable_body_is_not_stored(coding: str, body: bytes, reason: str) -> None:
    plain = await decompress_request(compressed_request(coding, body), MAX_BYTES)

    assert plain is not None
    assert plain.body.startswith(f"[redacted] body in {coding}: ".encode())
    assert reason.encode() in plain.body
    assert CANARY.encode() not in plain.body
    assert plain.headers == (("Accept", "*/*"),)


async def test_undecodable_bodies_are_distinguished() -> None:
    first, second = [
        await decompress_request(compressed_request("snappy", item), MAX_BYTES)
        for item in (b"one", b"other")
    ]

    assert first != second
    assert first == await decompress_request(compressed_request("snappy", b"one"), MAX_BYTES)


@each_row(("coding", "body"), [("", BODY), ("identity", BODY), ("gzip", b"")])
async def test_a_plain_request_is_left_alone(coding: str, body: bytes) -> None:
    assert await decompress_request(compressed_request(coding, body), MAX_BYTES) is None


async def test_a_large_body_is_decoded() -> None:
    large = json.dumps({"text": list(range(200_000))}).encode()

    plain = await decompress_request(
        compressed_request("gzip", gzip.compress(large)), 16 * MAX_BYTES
    )

    assert plain is not None
    assert plain.body == large
