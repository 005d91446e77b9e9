"""Runs the demo: record from a provider, stop it, replay.

Provider, proxies and client run in this process, on loopback, on free ports.  The proxies are
the very ones that `llm-proxy record` and `llm-proxy replay` run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import orjson

from llm_proxy.cassette import Cassette
from llm_proxy.errors import LlmProxyError
from llm_proxy.exchange import Read
from llm_proxy.pacing import RecordedPace
from llm_proxy.shell.demo.provider import MODEL, PATH, QUESTION, DemoProvider, run_provider
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.running.proxy import running
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.server.journal import Journal

_LIMIT: Final = 30.0
"""Seconds that one answer may take."""


@dataclass(frozen=True, slots=True)
class DemoObserver:
    """Who is told how the demo goes, while it goes."""

    on_step: Callable[[str, str], None]
    """A step begins: its name, and what happens."""
    on_received: Callable[[Read], None]
    """The client received something."""


@dataclass(frozen=True, slots=True)
class ReceivedResponse:
    """One answer as the client received it."""

    status: int
    reads: tuple[Read, ...]
    """HTTP chunks, each with its time in ms since the request was sent."""

    @property
    def body(self) -> bytes:
        """All of it."""
        return b"".join(read.data for read in self.reads)


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What was streamed, recorded and replayed."""

    sent: bytes
    """What the provider streamed."""
    live: ReceivedResponse
    """What the client got while it was recorded."""
    replayed: ReceivedResponse
    """What the client got from the recording."""
    cassette: Cassette
    file: Path
    """Where the cassette lies below its library."""
    content: bytes
    """The cassette as it is on disk."""


async def play_demo(cassettes: Path, spool: Path, audience: DemoObserver) -> DemoResult:
    """Record into `cassettes`, stop the provider, and replay.

    Raises `LlmProxyError` where that cannot be done.
    """
    settings = _settings(cassettes, spool)
    async with AsyncExitStack() as live:
        source = await live.enter_async_context(run_provider())
        audience.on_step(
            "provider",
            f"{_host_and_port(source)} speaks OpenAI Chat Completions, {source.events} events",
        )
        audience.on_step("record", "llm-proxy record stands before it, and a client asks:")
        received_response, journal = await _record(settings, source, audience)
    audience.on_step("stop", f"the provider is gone: {await _connection_error(source)}")
    audience.on_step(
        "replay", "llm-proxy replay has the cassette alone, and the client asks again:"
    )
    async with running("replay", settings) as proxy:
        replayed = await receive(proxy.url, audience)
    path = _recorded_file(journal)
    return DemoResult(
        sent=source.body,
        live=received_response,
        replayed=replayed,
        cassette=Library(cassettes).load_cassette(path),
        file=path.relative_to(cassettes),
        content=await asyncio.to_thread(path.read_bytes),
    )


async def _record(
    settings: Settings, source: DemoProvider, audience: DemoObserver
) -> tuple[ReceivedResponse, Journal]:
    """What the client heard through `record`; on the way out the cassette is on disk."""
    upstreams = {"default": f"http://{_host_and_port(source)}"}
    async with running("record", replace(settings, upstreams=upstreams)) as proxy:
        received_response = await receive(proxy.url, audience)
    return received_response, proxy.journal


async def receive(url: str, audience: DemoObserver) -> ReceivedResponse:
    """Ask the demo's question, and give the answer chunk by chunk, as it comes off the socket.

    Raises `LlmProxyError` for an answer that is none.
    """
    host, _, port = url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(_LIMIT):
            writer.write(_request_bytes(f"{host}:{port}"))
            await writer.drain()
            return await _receive_chunks(reader, audience)
    except (OSError, EOFError, ValueError) as error:
        raise LlmProxyError(f"the demo's client got no whole answer: {error!r}") from error
    finally:
        writer.close()


async def _receive_chunks(reader: asyncio.StreamReader, audience: DemoObserver) -> ReceivedResponse:
    loop = asyncio.get_running_loop()
    number = loop.time()
    head = await reader.readuntil(b"\r\n\r\n")
    if b"\r\ntransfer-encoding: chunked\r\n" not in head.lower():
        raise ValueError(f"it is no stream: {head[:40]!r}")
    reads: list[Read] = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        data = (await reader.readexactly(size + 2))[:-2]
        reads.append(Read((loop.time() - number) * 1000, data))
        audience.on_received(reads[-1])
    if not reads:
        raise ValueError("no body")
    return ReceivedResponse(int(head.split(b" ", 2)[1]), tuple(reads))


def _request_bytes(host: str) -> bytes:
    question = {
        "model": MODEL,
        "messages": [{"role": "user", "content": QUESTION}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body = orjson.dumps(question)
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Accept: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _connection_error(source: DemoProvider) -> str:
    """What connecting to the stopped provider says.  Raises `LlmProxyError` if it answers."""
    where = f"connecting to {_host_and_port(source)} says"
    try:
        _, writer = await asyncio.open_connection(source.host, source.port)
    except OSError as error:
        return f'{where} "{os.strerror(error.errno or 0)}"'
    writer.close()
    raise LlmProxyError(
        f"{_host_and_port(source)} still answers: another program took the port; again"
    )


def _recorded_file(journal: Journal) -> Path:
    """The cassette that was recorded.  Raises `LlmProxyError` where there is none."""
    if journal.failures or len(journal.recorded) != 1:
        raise LlmProxyError("; ".join(journal.failures) or "the demo recorded nothing")
    return Path(journal.recorded[0].file)


def _host_and_port(source: DemoProvider) -> str:
    return f"{source.host}:{source.port}"


def _settings(cassettes: Path, spool: Path) -> Settings:
    """Settings with everything below the demo's folders, on any free port."""
    return Settings(
        cassettes=cassettes,
        host="127.0.0.1",
        port=0,
        port_file=None,
        upstreams={},
        upstream_proxy=None,
        idle_timeout=_LIMIT,
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
