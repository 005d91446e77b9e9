"""`demo`: records a stream, stops its provider, replays the recording, and compares the two.

Provider, proxies and client run in this process, on free ports of 127.0.0.1.  The provider streams
the response of a cassette, `demo.jsonl`, with its times and reads.  Reads do not end where events
end, and some end inside a character, as on a real network.
"""

from __future__ import annotations

import asyncio
import hashlib
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
import click
import orjson
from aiohttp import web

from llm_proxy import display, framing, timeline
from llm_proxy.cassette import Cassette, StoredRequest
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.cli.interruption import run_until_signal
from llm_proxy.cli.output import StyledText, is_stdout_ascii_only, print_lines, terminal_columns
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.exchange import Read
from llm_proxy.framing.sse import parse_event
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.running.proxy import run_proxy
from llm_proxy.shell.running.settings import Settings

_MAX_COLUMNS: Final = 100
"""Width of the output on a wide terminal."""
_INDENT: Final = 11
"""Width of the labels."""
_LINE_START: Final = " " * _INDENT + "| "

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


@click.command
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    help="Record into this folder, and keep the cassette.",
)
def demo(keep: Path | None) -> None:
    r"""Record a stream, stop its provider, replay the recording, and compare the two.

    The demo needs no key and no network: it starts a small provider of its own on 127.0.0.1. It
    deletes all its files at the end. The exit code is 0 if the replay has the recorded bytes in
    the recorded reads, and 1 if anything differs.

    \b
    Examples:
      llm-proxy demo
      llm-proxy demo --keep cassettes     then: llm-proxy show, llm-proxy replay
    """
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--keep: {keep} cannot be made: {error.strerror}") from None
    print_lines(["llm-proxy demo: record a stream, stop its provider, replay, compare"])

    async def play() -> DemoResult:
        with tempfile.TemporaryDirectory(prefix="llm-proxy-demo-") as folder:
            return await run_demo(keep or Path(folder, "cassettes"), Path(folder, "spool"))

    result = run_until_signal(play())
    differences = [("DIFFERENT", text) for text in find_differences(result)]
    equal = ("equal", "the replay has the recorded bytes in the recorded reads")
    _print_rows(*comparison_rows(result))
    _print_rows(*differences or [equal])
    show_command = f"llm-proxy show {display.shell_quoted_path(result.cassette_path)}"
    deleted = "deleted; llm-proxy demo --keep DIR keeps it"
    _print_rows(("cassette", deleted if keep is None else show_command))
    _print_rows(
        ("next", "llm-proxy record -- python app.py  record what your provider answers"),
        ("", "llm-proxy ls                       list what was recorded"),
        ("", "llm-proxy replay -- python app.py  replay it: no key, no network"),
    )
    raise click.exceptions.Exit(1 if differences else 0)


async def run_demo(cassettes: Path, spool: Path) -> DemoResult:
    """Record into `cassettes`, stop the provider, and replay; print each step.

    Raises `LlmProxyError` if a step fails.
    """
    settings = Settings(cassettes=cassettes, spool=spool, port=0)
    script = load_script()
    async with run_provider(script.reads) as address:
        _print_rows(("provider", f"a small server on {address} that streams OpenAI chat events"))
        _print_rows(("record", "a client sends its request through llm-proxy record:"))
        upstreams = {"default": f"http://{address}"}
        async with run_proxy("record", replace(settings, upstreams=upstreams)) as proxy:
            live_reads = await send_request(proxy.url, script.request)
        journal = proxy.journal  # complete, and the cassette on disk, once the proxy has stopped
    await verify_stopped(address)
    _print_rows(("stop", f"the provider is stopped: {address} refuses connections"))
    _print_rows(("replay", "the client sends it again; llm-proxy replay has the cassette alone:"))
    async with run_proxy("replay", settings) as proxy:
        replayed_reads = await send_request(proxy.url, script.request)
    if journal.recording_failures or len(journal.recorded_files) != 1:
        raise LlmProxyError("; ".join(journal.recording_failures) or "the demo recorded nothing")
    path = Path(journal.recorded_files[0])
    cassette = Library(cassettes).load_cassette(path)
    live_body = b"".join(_pieces(live_reads))
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
        _, writer = await asyncio.open_connection(*address.split(":"))
        writer.close()
        raise LlmProxyError(f"{address} still answers: another program took the port; try again")


async def send_request(url: str, request: StoredRequest) -> Reads:
    """Send this request to `url`; print the text of the response as it arrives.

    Raises `LlmProxyError` for an incomplete response, and for one that is no stream.
    """
    loop = asyncio.get_running_loop()
    codec = framing.new_codec("sse")
    reads: list[Read] = []
    chunk = b""
    click.echo(_LINE_START, nl=False)
    started_at_s = loop.time()
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
            session.post(
                url + request.path, data=request.body, headers=request.headers
            ) as response,
        ):
            async for data, is_chunk_complete in response.content.iter_chunks():
                chunk += data
                if is_chunk_complete:
                    reads.append(Read((loop.time() - started_at_s) * 1000, chunk))
                    for message in codec.feed(chunk):
                        _print_text(message)
                    chunk = b""
    except (aiohttp.ClientError, TimeoutError) as error:
        raise LlmProxyError(f"the demo's client got no whole response: {error!r}") from error
    if not reads or response.status != HTTPStatus.OK:
        raise LlmProxyError(f"the demo's client got no stream, but status {response.status}")
    click.echo()
    return tuple(reads)


def _print_text(message: bytes) -> None:
    """Print the text of one event; characters that stdout cannot encode become `?`."""
    event = parse_event(message).data or b""
    for choice in orjson.loads(event)["choices"] if event.startswith(b"{") else ():
        text = choice["delta"].get("content", "").replace("\n", f"\n{_LINE_START}")
        encoding = sys.stdout.encoding or "ascii"
        click.echo(text.encode(encoding, "replace").decode(encoding), nl=False)


def _print_rows(*rows: tuple[str, str]) -> None:
    """Print an empty line, then rows of a label, often empty, and a text."""
    print_lines(["", *((StyledText(f"{name:<{_INDENT}}", "bold"), text) for name, text in rows)])


def comparison_rows(result: DemoResult) -> list[tuple[str, str]]:
    """The timelines of the recording and the replay, then the figures of both."""
    both = {"recorded": result.cassette.reads, "replayed": result.replayed_reads}
    columns = min(terminal_columns(), _MAX_COLUMNS) - _INDENT
    ascii_only = is_stdout_ascii_only()
    end_ms = max(reads[-1].at_ms for reads in both.values())
    end = f"{end_ms / 1000:.1f} s"
    errors_ms = [abs(one.at_ms - other.at_ms) for one, other in zip(*both.values(), strict=False)]
    largest_ms, median_ms = max(errors_ms), statistics.median(errors_ms)
    return [
        ("timeline", f"0{end:>{columns - 1}}"),
        *(
            (name, timeline.render_sparkline(reads, end_ms, columns, ascii_only=ascii_only))
            for name, reads in both.items()
        ),
        ("", ""),
        *((name, _figures(reads)) for name, reads in both.items()),
        ("", f"largest timing error of a read {largest_ms:.1f} ms, median {median_ms:.1f} ms"),
    ]


def _figures(reads: Reads) -> str:
    body = b"".join(_pieces(reads))
    times = f"{reads[0].at_ms:.1f} to {reads[-1].at_ms:.1f} ms"
    checksum = hashlib.sha256(body).hexdigest()[:12]
    return f"{len(reads)} reads from {times}, {len(body):,} bytes, sha256 {checksum}"


def _pieces(reads: Reads) -> list[bytes]:
    return [read.received_bytes for read in reads]


def find_differences(result: DemoResult) -> list[str]:
    """The checks that failed, as sentences; empty if the replay is exact."""
    outcome = cassette_outcome(result.cassette)
    sent_body, stored_body = result.provider_body, result.cassette.response_body
    recorded, replayed = _pieces(result.cassette.reads), _pieces(result.replayed_reads)
    checks = {
        f"the cassette is {outcome}": outcome.is_complete,
        "the client received other bytes than the provider sent": result.live_body == sent_body,
        "the cassette has other bytes than the provider sent": stored_body == sent_body,
        "the replay has other bytes than the cassette": b"".join(replayed) == stored_body,
        "the replay has other reads than the cassette": replayed == recorded,
    }
    return [difference for difference, is_equal in checks.items() if not is_equal]
