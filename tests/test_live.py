"""In front of a real model: what three clients hear live, they hear again from the replay.

The model streams at its own pace, on a real server of its own; nothing here is made up.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import sdk_clients
from in_process_proxy import cassettes, proxy
from llm_proxy.cassette import Cassette
from llm_proxy.outcome import outcome_of
from raw_http import ask, post
from sdk_clients import openai_client
from stub_upstream import Connection, Script, upstream

pytestmark = pytest.mark.live

MODEL = "live-model"
QUESTION: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Tell me a story about a 🌊 and a lighthouse."}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 96,
}
UP_WITHIN = 60.0
"""Seconds that the model may take to load."""
MEDIAN_ERROR = 3.0
"""ms by which the median read may be further off its recorded time than that of a bare server
at the same moment, which on an idle machine is hardly off at all."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running model server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("model") / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [os.environ["LLM_PROXY_LIVE_SERVER"], "-m", os.environ["LLM_PROXY_LIVE_MODEL"],
             "--host", "127.0.0.1", "--port", str(port), "--alias", MODEL,
             "-c", "1024", "-np", "1", "-t", "1", "--offline"],
            stdout=out, stderr=out, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + UP_WITHIN
        while not healthy(url):
            assert server.poll() is None, log.read_text("utf-8", "replace")[-2000:]
            assert time.monotonic() < deadline, "the model is not up"
            time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(30)


def healthy(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5) as answer:  # noqa: S310 # our own URL
        return bool(answer.status == 200)
    return False


async def heard_by_python(url: str) -> Any:
    async with openai_client(url) as client:
        stream = await client.chat.completions.create(**QUESTION)
        return [chunk.to_dict() async for chunk in stream]


async def heard_by_node(url: str) -> Any:
    if missing := sdk_clients.node_missing():
        pytest.skip(missing)
    heard = await sdk_clients.node(url, QUESTION)
    return {name: heard[name] for name in ("sha256", "result")}


async def heard_by_curl(url: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        "curl", "--silent", "--show-error", "--no-buffer", "--fail", "--data-binary", "@-",
        "--header", "Content-Type: application/json", f"{url}/v1/chat/completions",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    body, _ = await process.communicate(json.dumps(QUESTION).encode())
    return {"sha256": hashlib.sha256(body).hexdigest(), "code": process.returncode}


CLIENTS = {"python": heard_by_python, "node": heard_by_node, "curl": heard_by_curl}


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_hears_the_replay_as_it_heard_the_model(
    client: str, model: str, tmp_path: Path
) -> None:
    hear = CLIENTS[client]
    async with proxy("record", tmp_path, model) as recording:
        live = await hear(recording.url)
    [cassette] = cassettes(tmp_path)
    async with proxy("replay", tmp_path) as replaying:
        again = await hear(replaying.url)
        async with upstream(bare(cassette)) as simple:
            errors, others = await asyncio.gather(
                *(offset_errors(url, cassette) for url in (replaying.url, simple.url))
            )

    assert outcome_of(cassette).complete
    assert again == live
    if client != "python":  # the SDK of Python shows objects, no bytes
        assert live["sha256"] == cassette.end.sha256
    median = statistics.median(errors)
    print(  # noqa: T201 # the figures are what this test is for
        f"\n{client}: {cassette.end.size} bytes in {len(cassette.reads)} reads over "
        f"{cassette.end.at_ms:.0f} ms, sha256 {cassette.end.sha256[:12]} equal; offsets of the "
        f"replay: median error {median:.2f} ms, largest {max(errors):.2f} ms"
    )
    beside = statistics.median(others)
    assert median <= MEDIAN_ERROR, f"a bare server beside it: {beside:.2f} ms"


async def offset_errors(url: str, cassette: Cassette) -> list[float]:
    """By how many ms each read of a replay is off; its bytes and its cuts are as recorded."""
    request = cassette.request
    heard = await ask(url, post(request.path, request.body, "Content-Type: application/json"))
    assert hashlib.sha256(heard.body).hexdigest() == cassette.end.sha256
    assert heard.chunks == [read.data for read in cassette.reads]
    return [abs(at - read.at_ms) for at, read in zip(heard.times, cassette.reads, strict=True)]


def bare(cassette: Cassette) -> Script:
    """A server that does nothing else than to send the reads at their times."""

    async def script(connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        asked = loop.time()
        await connection.begin()
        for read in cassette.reads:
            await asyncio.sleep(asked + read.at_ms / 1000 - loop.time())
            await connection.chunk(read.data)
        await connection.finish()

    return script
