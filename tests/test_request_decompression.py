"""Requests that arrive compressed: passed on as they came, kept plain, found again."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli  # type: ignore[import-untyped] # it comes without types
import pytest
from backports import zstd

from in_process_proxy import cassettes, proxy
from llm_proxy.exchange import Request
from llm_proxy.shell.server.request_decompression import decompress_request
from provider_streams import CHAT_WHOLE, document
from raw_http import ask, post
from stub_upstream import upstream

PATH = "/v1/chat/completions"
CANARY = "sk-canary-0123456789"
ASKED = {"model": "gpt-5", "messages": [{"role": "user", "content": f"my key is {CANARY}"}]}
BODY = json.dumps(ASKED).encode()
KEY = f"Authorization: Bearer {CANARY}"
MOST = 1024 * 1024

CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "gzip, zstd": lambda body: zstd.compress(gzip.compress(body)),
}


def coded(coding: str, body: bytes) -> bytes:
    return post(PATH, body, "Content-Type: application/json", f"Content-Encoding: {coding}", KEY)


def request(coding: str, body: bytes) -> Request:
    return Request("POST", PATH, "", (("Content-Encoding", coding), ("Accept", "*/*")), body)


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_compressed_request_is_passed_on_as_it_came_and_kept_plain(
    coding: str, tmp_path: Path
) -> None:
    packed = CODINGS[coding](BODY)
    async with upstream(document(CHAT_WHOLE)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            await ask(recording.url, coded(coding, packed))

    [(head, body)] = live.requests
    [cassette] = cassettes(tmp_path)
    assert (body, f"Content-Encoding: {coding}".encode() in head) == (packed, True)
    assert CANARY.encode() not in cassette.request.body
    assert json.loads(cassette.request.body)["model"] == cassette.meta.model == "gpt-5"
    assert "content-encoding" not in dict(cassette.request.headers)
    assert cassette.request.redacted == 1


async def test_a_request_is_found_again_however_it_was_compressed(tmp_path: Path) -> None:
    async with upstream(document(CHAT_WHOLE)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            await ask(recording.url, coded("gzip", gzip.compress(BODY, 1)))
    async with proxy("replay", tmp_path) as replaying:
        again = [
            await ask(replaying.url, coded("gzip", gzip.compress(BODY, 9))),
            await ask(replaying.url, coded("zstd", zstd.compress(BODY))),
            await ask(replaying.url, coded("identity", BODY)),
            await ask(replaying.url, post(PATH, BODY, "Content-Type: application/json", KEY)),
        ]

    assert [raw.status for raw in again] == [200] * 4


@pytest.mark.parametrize(
    ("coding", "body", "why"),
    [
        ("gzip", b"no gzip at all", "incorrect header check"),
        ("gzip", gzip.compress(BODY)[:-9], "the coded body is cut short"),
        ("gzip", gzip.compress(bytes(MOST + 1)), f"it decodes to more than {MOST} bytes"),
        ("snappy", BODY, "it cannot be decoded here"),
    ],
    ids=["broken", "cut", "bomb", "unknown"],
)
async def test_what_cannot_be_decoded_is_not_kept(coding: str, body: bytes, why: str) -> None:
    plain = await decompress_request(request(coding, body), MOST)

    assert plain is not None
    assert plain.body.startswith(f"[redacted] body in {coding}: ".encode())
    assert why.encode() in plain.body
    assert CANARY.encode() not in plain.body
    assert plain.headers == (("Accept", "*/*"),)


async def test_bodies_that_cannot_be_decoded_are_told_apart() -> None:
    one, other = [
        await decompress_request(request("snappy", item), MOST) for item in (b"one", b"other")
    ]

    assert one != other
    assert one == await decompress_request(request("snappy", b"one"), MOST)


@pytest.mark.parametrize(("coding", "body"), [("", BODY), ("identity", BODY), ("gzip", b"")])
async def test_a_plain_request_is_left_alone(coding: str, body: bytes) -> None:
    assert await decompress_request(request(coding, body), MOST) is None


async def test_a_large_one_is_decoded_as_a_small_one() -> None:
    large = json.dumps({"text": list(range(200_000))}).encode()

    plain = await decompress_request(request("gzip", gzip.compress(large)), 16 * MOST)

    assert plain is not None
    assert plain.body == large
