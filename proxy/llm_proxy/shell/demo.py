"""The demo: records from a provider of its own, stops that, and replays, all on 127.0.0.1.

Provider, proxies and client run in this process, on free ports.  The provider streams the response
of a cassette, `demo.jsonl`, with its times and reads.  Reads do not end where events end, and some
end inside a character, as on a real network.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web

from llm_proxy import framing
from llm_proxy.cassette import Cassette, StoredRequest
from llm_proxy.errors import LlmProxyError
from llm_proxy.exchange import Read
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.running.proxy import run_proxy
from llm_proxy.shell.running.settings import Settings

_TIMEOUT_S: Final = 30.0

Reads = tuple[Read, ...]
"""The HTTP chunks of a response, each with its time in ms since the request was sent."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The response as the provider sent it, as it was recorded and as it was replayed."""

    provider_body: bytes
    live_body: bytes
    """The body that the client received through `record`."""
    replayed_reads: Reads
    cassette: Cassette
    cassette_path: Path


async def run_demo(
    cassettes: Path,
    spool: Path,
    *,
    show_step: Callable[[str, str], None],
    show_message: Callable[[bytes], None],
) -> DemoResult:
    """Record into `cassettes`, stop the provider, and replay.

    `show_step` is called with the name and a description of each step that begins, `show_message`
    with each SSE event that the client receives.  Raises `LlmProxyError` if a step fails.
    """
    settings = Settings(cassettes=cassettes, spool=spool, port=0)
    script = load_script()
    async with run_provider(script.reads) as address:
        show_step("provider", f"a small server on {address} that streams OpenAI chat events")
        show_step("record", "a client sends a request through llm-proxy record:")
        upstreams = {"default": f"http://{address}"}
        async with run_proxy("record", replace(settings, upstreams=upstreams)) as proxy:
            live_reads = await send_request(proxy.url, script.request, show_message)
    journal = proxy.journal  # complete, and the cassette on disk, once the proxy has stopped
    if journal.recording_failures or len(journal.recorded_files) != 1:
        raise LlmProxyError("; ".join(journal.recording_failures) or "the demo recorded nothing")
    await verify_stopped(address)
    show_step("stop", f"the provider has stopped; {address} refuses connections")
    show_step("replay", "the client resends the request through llm-proxy replay:")
    async with run_proxy("replay", settings) as proxy:
        replayed_reads = await send_request(proxy.url, script.request, show_message)
    path = Path(journal.recorded_files[0])
    cassette = Library(cassettes).load_cassette(path)
    live_body = b"".join(read.received_bytes for read in live_reads)
    return DemoResult(script.response_body, live_body, replayed_reads, cassette, path)


def load_script() -> Cassette:
    """The cassette with the client's request and the provider's response."""
    path = Path(__file__).with_suffix(".jsonl")
    return Library(path.parent).load_cassette(path)


@asynccontextmanager
async def run_provider(reads: Reads) -> AsyncIterator[str]:
    """A provider that streams these reads, on a free port: its address; on exit it is stopped."""
    loop = asyncio.get_running_loop()

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        started_at_s = loop.time()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with suppress(ConnectionError):  # a stopped demo disconnects its client
            for read in reads:
                await asyncio.sleep(started_at_s + read.at_ms / 1000 - loop.time())
                await response.write(read.received_bytes)
        return response

    server = web.Server(respond)
    listener = await loop.create_server(server, "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        listener.close()
        await server.shutdown(timeout=1)


async def verify_stopped(address: str) -> None:
    """Raise `LlmProxyError` if anything still accepts connections at this address."""
    with suppress(ConnectionRefusedError):
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(*address.split(":"))
        writer.close()
        raise LlmProxyError(f"another program now uses {address}; run llm-proxy demo again")


async def send_request(
    url: str, request: StoredRequest, show_message: Callable[[bytes], None]
) -> Reads:
    """Send this request to `url`; show the events of the response as they arrive.

    Raises `LlmProxyError` for an incomplete response, and for one that is no stream.
    """
    loop = asyncio.get_running_loop()
    codec = framing.new_codec("sse")
    reads: list[Read] = []
    chunk = b""
    started_at_s = loop.time()
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)) as session,
            session.post(
                url + request.path, data=request.body, headers=request.headers
            ) as response,
        ):
            async for data, is_chunk_complete in response.content.iter_chunks():
                chunk += data
                if is_chunk_complete and chunk:  # the last one may come once more, empty
                    reads.append(Read((loop.time() - started_at_s) * 1000, chunk))
                    for message in codec.feed(chunk):
                        show_message(message)
                    chunk = b""
    except (aiohttp.ClientError, TimeoutError) as error:
        raise LlmProxyError(f"the client received no complete response: {error!r}") from error
    if not reads or response.status != HTTPStatus.OK:
        raise LlmProxyError(f"the client received status {response.status} and no stream")
    return tuple(reads)
