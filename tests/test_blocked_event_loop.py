"""A blocked event loop never counts as a stall of the upstream or of the client."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import AdvanceClock
from in_process_proxy import load_cassettes, proxy
from llm_proxy.exchange import Ending
from llm_proxy.shell.server import response_writer
from llm_proxy.shell.upstream import pump
from raw_http import send_request
from stored_cassettes import raw_chat_request
from stub_upstream import Connection, upstream
from waiting import wait_until

IDLE_TIMEOUT_S = 5.0
"""The upstream idle timeout in seconds; clients wait for 20 s by default."""


async def _run_loop(iterations: int = 10) -> None:
    for _ in range(iterations):
        await asyncio.sleep(0)


class StallingUpstream:
    """An upstream that sends one chunk, and more only when told to."""

    def __init__(self, *headers: str) -> None:
        self.headers = headers
        self.connection: Connection | None = None

    async def __call__(self, connection: Connection) -> None:
        self.connection = connection
        await connection.begin(*self.headers)
        await connection.chunk(b"one")
        with suppress(ConnectionError):
            await connection.reader.read(1)

    def send_rest(self, how: str) -> None:
        """Send the rest synchronously, by a write, a FIN or a reset."""
        assert self.connection is not None
        writer = self.connection.writer
        match how:
            case "clean":
                writer.write(b"3\r\ntwo\r\n0\r\n\r\n")
            case "fin":
                writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
            case _:
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()


@pytest.fixture
def received_chunks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The chunks that the pump has read."""
    chunks: list[bytes] = []
    original_handle_data = pump.ResponsePump._queue_and_record

    def handle_data_spy(self: pump.ResponsePump, data: bytes) -> None:
        chunks.append(data)
        original_handle_data(self, data)

    monkeypatch.setattr(pump.ResponsePump, "_queue_and_record", handle_data_spy)
    return chunks


@pytest.mark.parametrize("short_pauses", [0, 7], ids=["for very long", "at the limit"])
@pytest.mark.parametrize("how", ["clean", "fin", "rst"])
async def test_data_that_arrives_while_the_loop_is_blocked_is_no_stall(
    tmp_path: Path,
    received_chunks: list[bytes],
    advance_clock: AdvanceClock,
    how: str,
    short_pauses: int,
) -> None:
    stalling_upstream = StallingUpstream()
    async with upstream(stalling_upstream) as live:
        async with proxy("record", tmp_path, live.url, idle_timeout=IDLE_TIMEOUT_S) as recording:
            pending_response = asyncio.ensure_future(
                send_request(recording.url, raw_chat_request(), timeout_s=1000)
            )
            await wait_until(lambda: bool(received_chunks))
            for _ in range(short_pauses):
                advance_clock(IDLE_TIMEOUT_S / 8)
                await _run_loop()
            stalling_upstream.send_rest(how)
            advance_clock(IDLE_TIMEOUT_S / 8 + 0.1 if short_pauses else 3 * IDLE_TIMEOUT_S)
            raw = await pending_response
    [cassette] = load_cassettes(tmp_path)
    assert raw.ending == cassette.response_end.ending.value == how
    assert raw.body == cassette.response_body == (b"onetwo" if how == "clean" else b"one")


@pytest.mark.parametrize(
    ("headers", "how", "ending"),
    [
        ((), "clean", Ending.CLEAN),
        ((), "fin", Ending.FIN),
        ((), "rst", Ending.RST),
        (("Connection: close",), "fin", Ending.CLEAN),
    ],
    ids=["sends on", "closes", "resets", "ends by closing"],
)
async def test_data_that_arrives_at_the_idle_limit_is_no_stall(
    tmp_path: Path,
    advance_clock: AdvanceClock,
    monkeypatch: pytest.MonkeyPatch,
    headers: tuple[str, ...],
    how: str,
    ending: Ending,
) -> None:
    stalling_upstream, original_check_idle = (
        StallingUpstream(*headers),
        pump.ResponsePump._check_idle_timeout,
    )
    limit_count = 0

    def check_idle_spy(self: pump.ResponsePump) -> None:
        nonlocal limit_count
        original_check_idle(self)
        limit_count += self._extra_check_count == 1
        if self._extra_check_count == limit_count == 1:
            stalling_upstream.send_rest(how)

    monkeypatch.setattr(pump.ResponsePump, "_check_idle_timeout", check_idle_spy)
    async with upstream(stalling_upstream) as live:
        async with proxy("record", tmp_path, live.url, idle_timeout=IDLE_TIMEOUT_S) as recording:
            pending_response = asyncio.ensure_future(
                send_request(recording.url, raw_chat_request(), timeout_s=1000)
            )
            while not limit_count:
                advance_clock(IDLE_TIMEOUT_S / 8)
                await asyncio.sleep(0.001)
            await pending_response
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.ending is ending


async def test_time_in_which_the_loop_is_blocked_is_no_idle_time(
    tmp_path: Path, received_chunks: list[bytes], advance_clock: AdvanceClock
) -> None:
    stalling_upstream = StallingUpstream()
    async with upstream(stalling_upstream) as live:
        async with proxy("record", tmp_path, live.url, idle_timeout=IDLE_TIMEOUT_S) as recording:
            pending_response = asyncio.ensure_future(
                send_request(recording.url, raw_chat_request(), timeout_s=1000)
            )
            await wait_until(lambda: bool(received_chunks))
            for _ in range(5):
                advance_clock(3 * IDLE_TIMEOUT_S)
                await _run_loop()
            stalling_upstream.send_rest("clean")
            raw = await pending_response
    assert (raw.ending, raw.body) == ("clean", b"onetwo")


async def test_an_upstream_that_is_silent_while_the_loop_runs_has_stalled(
    tmp_path: Path, received_chunks: list[bytes], advance_clock: AdvanceClock
) -> None:
    advance_count = 0
    async with upstream(StallingUpstream()) as live:
        async with proxy("record", tmp_path, live.url, idle_timeout=IDLE_TIMEOUT_S) as recording:
            pending_response = asyncio.ensure_future(
                send_request(recording.url, raw_chat_request(), timeout_s=1000)
            )
            await wait_until(lambda: bool(received_chunks))
            while not pending_response.done() and advance_count < 100:
                advance_clock(IDLE_TIMEOUT_S / 8)
                advance_count += 1
                await asyncio.sleep(0.001)
            raw = await pending_response
    [cassette] = load_cassettes(tmp_path)
    assert advance_count < 100
    assert raw.ending == "rst"
    assert (cassette.response_end.ending, cassette.response_body) == (Ending.STALLED, b"one")


class UnreadTransport(asyncio.WriteTransport):
    """The transport of a client that reads nothing until `buffered_bytes` is 0."""

    buffered_bytes = 100

    def get_write_buffer_size(self) -> int:
        """Return `buffered_bytes`."""
        return self.buffered_bytes

    def is_closing(self) -> bool:
        """Return False: it is never closing."""
        return False


@pytest.fixture
def unread_transport() -> Iterator[UnreadTransport]:
    """The transport of a client that reads nothing."""
    with socket.socket() as sock:
        yield UnreadTransport({"socket": sock})


async def test_a_client_is_not_given_up_because_the_loop_was_blocked(
    advance_clock: AdvanceClock, unread_transport: UnreadTransport
) -> None:
    drain_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    reads_on = asyncio.ensure_future(
        response_writer._wait_while_client_reads(unread_transport, drain_done)
    )
    for _ in range(response_writer._CHECKS_PER_DRAIN_TIMEOUT - 1):
        await _run_loop()
        advance_clock(10 * response_writer._DRAIN_TIMEOUT_S)
    await _run_loop()
    assert not reads_on.done()
    drain_done.set_result(None)
    assert await reads_on


async def test_a_client_that_reads_nothing_while_the_loop_runs_is_given_up(
    advance_clock: AdvanceClock, unread_transport: UnreadTransport
) -> None:
    drain_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    reads_on = asyncio.ensure_future(
        response_writer._wait_while_client_reads(unread_transport, drain_done)
    )
    for _ in range(response_writer._CHECKS_PER_DRAIN_TIMEOUT):
        await _run_loop()
        advance_clock(response_writer._DRAIN_TIMEOUT_S / response_writer._CHECKS_PER_DRAIN_TIMEOUT)
    await _run_loop()
    assert reads_on.done()
    assert not await reads_on


async def test_the_wait_before_a_reset_does_not_count_blocked_time(
    advance_clock: AdvanceClock, unread_transport: UnreadTransport
) -> None:
    delivery = asyncio.ensure_future(
        response_writer._wait_for_delivery(
            unread_transport, unread_transport.get_extra_info("socket")
        )
    )
    for _ in range(10):
        await _run_loop()
        advance_clock(10 * response_writer._DELIVERY_TIMEOUT_S)
    await _run_loop()
    assert not delivery.done()
    unread_transport.buffered_bytes = 0
    await delivery
