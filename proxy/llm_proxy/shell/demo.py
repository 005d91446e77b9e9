"""The demo: records from its own provider, stops it, and replays, all on loopback.

Provider, proxies and client run in this process, on free ports.  The proxies are the same as
those of `llm-proxy record` and `llm-proxy replay`.

The provider streams the response of a cassette, `demo.jsonl`, with its times and reads.  Reads do
not end where events end, and some end inside a character, as on a real network.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from llm_proxy.cassette import Cassette
from llm_proxy.errors import LlmProxyError
from llm_proxy.exchange import Read
from llm_proxy.pacing import RecordedPace
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.running.proxy import run_proxy
from llm_proxy.shell.running.settings import Settings

_RESPONSE_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
_TIMEOUT_S: Final = 30.0
"""Maximum seconds for one response."""
_SCRIPT_FILE: Final = Path(__file__).with_suffix(".jsonl")


@dataclass(frozen=True, slots=True)
class ReceivedResponse:
    """One response as the client received it."""

    status: int
    reads: tuple[Read, ...]
    """HTTP chunks, each with its time in ms since the request was sent."""

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(read.received_bytes for read in self.reads)


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The response as it was sent, recorded and replayed."""

    provider_response_body: bytes
    """The body that the provider streamed."""
    live_response: ReceivedResponse
    """The response that the client got through `record`."""
    replayed_response: ReceivedResponse
    """The response that the client got from `replay`."""
    cassette: Cassette
    cassette_relative_path: Path
    """The cassette's path relative to its library."""
    cassette_file_content: bytes


async def run_demo(
    cassettes: Path,
    spool: Path,
    *,
    on_step: Callable[[str, str], None],
    on_chunk_received: Callable[[Read], None],
) -> DemoResult:
    """Record into `cassettes`, stop the provider, and replay.

    `on_step` is called with the name and a description of each step that begins,
    `on_chunk_received` with each chunk that the client received.  Raises `LlmProxyError` if a
    step fails.
    """
    settings = Settings(
        cassettes=cassettes,
        host="127.0.0.1",
        port=0,
        upstreams={},
        idle_timeout=_TIMEOUT_S,
        finish_on_disconnect=False,
        max_body=1024 * 1024,
        pace=RecordedPace(),
        after_last="repeat",
        on_miss="fail",
        allow_partial=False,
        strict=True,
        allow_hosts=frozenset(),
        allow_origins=frozenset(),
        spool=spool,
        log_format="text",
    )
    script = load_script()
    question = script.request.body
    async with run_provider(script.reads) as address:
        event_count = len(script.framed_messages)
        on_step("provider", f"{address} speaks OpenAI Chat Completions, {event_count} events")
        on_step("record", "llm-proxy record stands before it, and a client asks:")
        upstreams = {"default": f"http://{address}"}
        async with run_proxy("record", replace(settings, upstreams=upstreams)) as proxy:
            live_response = await send_question(proxy.url, question, on_chunk_received)
        journal = proxy.journal  # complete, and the cassette on disk, once the proxy has stopped
    on_step("stop", f"the provider is gone: {await _verify_stopped(address)}")
    on_step("replay", "llm-proxy replay has the cassette alone, and the client asks again:")
    async with run_proxy("replay", settings) as proxy:
        replayed = await send_question(proxy.url, question, on_chunk_received)
    if journal.recording_failures or len(journal.recorded_files) != 1:
        raise LlmProxyError("; ".join(journal.recording_failures) or "the demo recorded nothing")
    path = Path(journal.recorded_files[0])
    return DemoResult(
        provider_response_body=script.response_body,
        live_response=live_response,
        replayed_response=replayed,
        cassette=Library(cassettes).load_cassette(path),
        cassette_relative_path=path.relative_to(cassettes),
        cassette_file_content=await asyncio.to_thread(path.read_bytes),
    )


def load_script() -> Cassette:
    """The cassette with the client's request and the provider's response."""
    return Library(_SCRIPT_FILE.parent).load_cassette(_SCRIPT_FILE)


async def send_question(
    url: str, body: bytes, on_chunk_received: Callable[[Read], None]
) -> ReceivedResponse:
    """Send a chat request with this body and read the response, chunk by chunk as it arrives.

    Raises `LlmProxyError` for an invalid or incomplete response.
    """
    address = url.removeprefix("http://")
    request_head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json"
        f"\r\nAccept: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    reads: list[Read] = []
    reader, writer = await asyncio.open_connection(*address.split(":"))
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            writer.write(request_head.encode() + body)
            started_at_s = loop.time()
            head = await reader.readuntil(b"\r\n\r\n")
            is_stream = b"\r\ntransfer-encoding: chunked\r\n" in head.lower()
            while is_stream and (chunk_bytes := int(await reader.readuntil(b"\r\n"), 16)):
                data = (await reader.readexactly(chunk_bytes + 2))[:-2]
                reads.append(Read((loop.time() - started_at_s) * 1000, data))
                on_chunk_received(reads[-1])
            status = int(head.split(b" ", 2)[1])
    except (OSError, EOFError, ValueError, IndexError) as error:
        raise LlmProxyError(f"the demo's client got no whole answer: {error!r}") from error
    finally:
        writer.close()
    if not reads:
        raise LlmProxyError(f"the demo's client got no whole answer, but {head[:40]!r}")
    return ReceivedResponse(status, tuple(reads))


async def _verify_stopped(address: str) -> str:
    """The error of connecting to the stopped provider.  Raises `LlmProxyError` if it answers."""
    try:
        _, writer = await asyncio.open_connection(*address.split(":"))
    except OSError as error:
        return f'connecting to {address} says "{os.strerror(error.errno or 0)}"'
    writer.close()
    raise LlmProxyError(f"{address} still answers: another program took the port; again")


@asynccontextmanager
async def run_provider(reads: Sequence[Read]) -> AsyncIterator[str]:
    """A provider that streams these reads, on a free port: its address; on exit it is stopped."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        try:
            # The client may go, or the demo be stopped, while this streams.
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
                await reader.readexactly(int(length[1]) if length else 0)
                started_at_s = loop.time()
                writer.write(_RESPONSE_HEAD)
                for read in reads:
                    await asyncio.sleep(started_at_s + read.at_ms / 1000 - loop.time())
                    writer.write(b"%x\r\n%b\r\n" % (len(read.received_bytes), read.received_bytes))
                    await writer.drain()
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
