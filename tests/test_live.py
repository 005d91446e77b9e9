"""Tests with a real model: three clients receive the same from the replay as from the model.

The model runs on a real server and streams at its own pace.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sdk_clients
from in_process_proxy import load_cassettes, proxy
from live_model import running_model
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_outcome
from raw_http import build_http_request, send_request
from sdk_clients import openai_client
from stub_upstream import Connection, Script, upstream

pytestmark = pytest.mark.live

MODEL = "live-model"
REQUEST: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Tell me a story about a 🌊 and a lighthouse."}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 96,
}
MAX_MEDIAN_ERROR_MS = 3.0
"""The maximum median deviation of a read from its recorded time, in ms.

On an idle machine, a bare server at the same moment hardly deviates."""


@pytest.fixture(scope="module")
def model_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running model server."""
    log = tmp_path_factory.mktemp("model") / "log"
    with running_model(log, "--alias", MODEL) as url:
        yield url


async def run_python_client(url: str) -> Any:
    async with openai_client(url) as client:
        stream = await client.chat.completions.create(**REQUEST)
        return [chunk.to_dict() async for chunk in stream]


async def run_node_client(url: str) -> Any:
    if missing := sdk_clients.node_missing_reason():
        pytest.skip(missing)
    report = await sdk_clients.run_node_sdk(url, REQUEST)
    return {name: report[name] for name in ("sha256", "result")}


async def run_curl(url: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        "curl", "--silent", "--show-error", "--no-buffer", "--fail", "--data-binary", "@-",
        "--header", "Content-Type: application/json", f"{url}/v1/chat/completions",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    body, _ = await process.communicate(json.dumps(REQUEST).encode())
    return {"sha256": hashlib.sha256(body).hexdigest(), "code": process.returncode}


CLIENTS = {"python": run_python_client, "node": run_node_client, "curl": run_curl}


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_receives_the_same_from_the_replay_as_from_the_model(
    client: str, model_url: str, tmp_path: Path
) -> None:
    run_client = CLIENTS[client]
    async with proxy("record", tmp_path, model_url) as record_proxy:
        live = await run_client(record_proxy.url)
    [cassette] = load_cassettes(tmp_path)
    async with proxy("replay", tmp_path) as replay_proxy:
        again = await run_client(replay_proxy.url)
        async with upstream(send_reads(cassette)) as bare_server:
            errors, bare_errors = await asyncio.gather(
                *(offset_errors(url, cassette) for url in (replay_proxy.url, bare_server.url))
            )

    assert cassette_outcome(cassette).is_complete
    assert again == live
    if client != "python":  # the Python SDK exposes objects, not bytes
        assert live["sha256"] == cassette.response_end.sha256
    median = statistics.median(errors)
    print(  # noqa: T201 # the figures are what this test is for
        f"\n{client}: {cassette.response_end.size_bytes} bytes in {len(cassette.reads)} reads over "
        f"{cassette.response_end.at_ms:.0f} ms, sha256 {cassette.response_end.sha256[:12]} "
        "equal; offsets of the "
        f"replay: median error {median:.2f} ms, largest {max(errors):.2f} ms"
    )
    bare_median = statistics.median(bare_errors)
    assert median <= MAX_MEDIAN_ERROR_MS, f"a bare server beside it: {bare_median:.2f} ms"


async def offset_errors(url: str, cassette: Cassette) -> list[float]:
    """The deviation of each read of a replay in ms; asserts that its bytes and reads are equal."""
    request = cassette.request
    response = await send_request(
        url, build_http_request(request.path, request.body, "Content-Type: application/json")
    )
    assert hashlib.sha256(response.body).hexdigest() == cassette.response_end.sha256
    assert response.chunks == [read.received_bytes for read in cassette.reads]
    return [
        abs(at - read.at_ms) for at, read in zip(response.times_ms, cassette.reads, strict=True)
    ]


def send_reads(cassette: Cassette) -> Script:
    """A server script that only sends the reads at their times."""

    async def script(connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        await connection.begin()
        for read in cassette.reads:
            await asyncio.sleep(started_at + read.at_ms / 1000 - loop.time())
            await connection.chunk(read.received_bytes)
        await connection.finish()

    return script
