"""Runs the demo: record from a provider, stop it, replay.

Provider, proxies and client run in this process, on loopback, on free ports.  The proxies are
the same as those of `llm-proxy record` and `llm-proxy replay`.
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
from llm_proxy.shell.running.proxy import run_proxy
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.server.journal import Journal

_TIMEOUT_S: Final = 30.0
"""Maximum seconds for one response."""


@dataclass(frozen=True, slots=True)
class DemoObserver:
    """Callbacks for the progress of the demo."""

    on_step: Callable[[str, str], None]
    """Called when a step begins, with its name and a description."""
    on_chunk_received: Callable[[Read], None]
    """Called for each chunk that the client received."""


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
    """The bytes of the cassette's file."""


async def run_demo(cassettes: Path, spool: Path, observer: DemoObserver) -> DemoResult:
    """Record into `cassettes`, stop the provider, and replay.

    Raises `LlmProxyError` if a step fails.
    """
    settings = _settings(cassettes, spool)
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(run_provider())
        observer.on_step(
            "provider",
            f"{_host_and_port(provider)} speaks OpenAI Chat Completions, "
            f"{provider.event_count} events",
        )
        observer.on_step("record", "llm-proxy record stands before it, and a client asks:")
        live_response, journal = await _record_response(settings, provider, observer)
    observer.on_step("stop", f"the provider is gone: {await _verify_provider_stopped(provider)}")
    observer.on_step(
        "replay", "llm-proxy replay has the cassette alone, and the client asks again:"
    )
    async with run_proxy("replay", settings) as proxy:
        replayed = await send_question(proxy.url, observer)
    path = _recorded_path(journal)
    return DemoResult(
        provider_response_body=provider.response_body,
        live_response=live_response,
        replayed_response=replayed,
        cassette=Library(cassettes).load_cassette(path),
        cassette_relative_path=path.relative_to(cassettes),
        cassette_file_content=await asyncio.to_thread(path.read_bytes),
    )


async def _record_response(
    settings: Settings, provider: DemoProvider, observer: DemoObserver
) -> tuple[ReceivedResponse, Journal]:
    """Send the question through a `record` proxy; on return the cassette is on disk."""
    upstreams = {"default": f"http://{_host_and_port(provider)}"}
    async with run_proxy("record", replace(settings, upstreams=upstreams)) as proxy:
        live_response = await send_question(proxy.url, observer)
    return live_response, proxy.journal


async def send_question(url: str, observer: DemoObserver) -> ReceivedResponse:
    """Send the demo's question and read the response, chunk by chunk as it arrives.

    Raises `LlmProxyError` for an invalid or incomplete response.
    """
    host, _, port = url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            writer.write(_request_bytes(f"{host}:{port}"))
            await writer.drain()
            return await _receive_response(reader, observer)
    except (OSError, EOFError, ValueError) as error:
        raise LlmProxyError(f"the demo's client got no whole answer: {error!r}") from error
    finally:
        writer.close()


async def _receive_response(
    reader: asyncio.StreamReader, observer: DemoObserver
) -> ReceivedResponse:
    loop = asyncio.get_running_loop()
    started_at_s = loop.time()
    head = await reader.readuntil(b"\r\n\r\n")
    if b"\r\ntransfer-encoding: chunked\r\n" not in head.lower():
        raise ValueError(f"it is no stream: {head[:40]!r}")
    reads: list[Read] = []
    while chunk_bytes := int(await reader.readuntil(b"\r\n"), 16):
        data = (await reader.readexactly(chunk_bytes + 2))[:-2]
        reads.append(Read((loop.time() - started_at_s) * 1000, data))
        observer.on_chunk_received(reads[-1])
    if not reads:
        raise ValueError("no body")
    return ReceivedResponse(int(head.split(b" ", 2)[1]), tuple(reads))


def _request_bytes(host: str) -> bytes:
    document = {
        "model": MODEL,
        "messages": [{"role": "user", "content": QUESTION}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body = orjson.dumps(document)
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Accept: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _verify_provider_stopped(provider: DemoProvider) -> str:
    """The error of connecting to the stopped provider.  Raises `LlmProxyError` if it answers."""
    prefix = f"connecting to {_host_and_port(provider)} says"
    try:
        _, writer = await asyncio.open_connection(provider.host, provider.port)
    except OSError as error:
        return f'{prefix} "{os.strerror(error.errno or 0)}"'
    writer.close()
    raise LlmProxyError(
        f"{_host_and_port(provider)} still answers: another program took the port; again"
    )


def _recorded_path(journal: Journal) -> Path:
    """The path of the recorded cassette.  Raises `LlmProxyError` if there is none."""
    if journal.recording_failures or len(journal.recorded_files) != 1:
        raise LlmProxyError("; ".join(journal.recording_failures) or "the demo recorded nothing")
    return Path(journal.recorded_files[0])


def _host_and_port(provider: DemoProvider) -> str:
    return f"{provider.host}:{provider.port}"


def _settings(cassettes: Path, spool: Path) -> Settings:
    """Settings with the demo's folders and a free port."""
    return Settings(
        cassettes=cassettes,
        host="127.0.0.1",
        port=0,
        port_file=None,
        upstreams={},
        upstream_proxy=None,
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
