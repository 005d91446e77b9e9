"""However long our own event loop stands still, nobody else is blamed for it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from in_process_proxy import cassettes, proxy
from llm_proxy.exchange import Ending
from llm_proxy.shell.server import response_writer
from llm_proxy.shell.upstream import pump
from raw_http import ask
from stored_cassettes import chat
from stub_upstream import Connection, upstream
from waiting import until

IDLE = 5.0
"""Seconds; the clients of these tests wait for twenty."""

Jump = Callable[[float], None]


@pytest.fixture
async def jump(monkeypatch: pytest.MonkeyPatch) -> Jump:
    """Let the clock of the event loop go on by so many seconds, in which the loop has no turn."""
    loop = asyncio.get_running_loop()
    time, ahead = loop.time, 0.0

    def forward(seconds: float) -> None:
        nonlocal ahead
        ahead += seconds

    monkeypatch.setattr(loop, "time", lambda: time() + ahead)
    return forward


async def _turns(number: int = 10) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


class Silent:
    """An upstream that sends one chunk, and then nothing of itself."""

    def __init__(self, *headers: str) -> None:
        self.headers = headers
        self.connection: Connection | None = None

    async def __call__(self, connection: Connection) -> None:
        self.connection = connection
        await connection.begin(*self.headers)
        await connection.chunk(b"one")
        with suppress(ConnectionError):
            await connection.reader.read(1)

    def go_on(self, how: str) -> None:
        """Send the rest to the kernel, at once."""
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
def arrived(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What the pump has read."""
    pieces: list[bytes] = []
    arrive = pump.ResponsePump._handle_data

    def seen(self: pump.ResponsePump, data: bytes) -> None:
        pieces.append(data)
        arrive(self, data)

    monkeypatch.setattr(pump.ResponsePump, "_handle_data", seen)
    return pieces


@pytest.mark.parametrize("before", [0, 7], ids=["for very long", "at the limit"])
@pytest.mark.parametrize("how", ["clean", "fin", "rst"])
async def test_an_upstream_that_went_on_while_we_stood_still_has_not_stalled(
    tmp_path: Path, arrived: list[bytes], jump: Jump, how: str, before: int
) -> None:
    silent = Silent()
    async with upstream(silent) as live:
        async with proxy("record", tmp_path, live.url, idle_timeout=IDLE) as it:
            asking = asyncio.ensure_future(ask(it.url, chat(), within=1000))
            await until(lambda: bool(arrived))
            for _ in range(before):
                jump(IDLE / 8)
                await _turns()
            silent.go_on(how)
            jump(IDLE / 8 + 0.1 if before else 3 * IDLE)
            raw = await asking
    [cassette] = cassettes(tmp_path)
    assert raw.how == cassette.end.ending.value == how
    assert raw.body == cassette.body == (b"onetwo" if how == "clean" else b"one")


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
async def test_an_upstream_that_goes_on_right_at_the_limit_has_not_stalled(
    tmp_path: Path,
    jump: Jump,
    monkeypatch: pytest.MonkeyPatch,
    headers: tuple[str, ...],
    how: str,
    ending: Ending,
) -> None:
    silent, look = Silent(*headers), pump.ResponsePump._check_idle
    limits = 0

    def seen(self: pump.ResponsePump) -> None:
        nonlocal limits
        look(self)
        limits += self._surplus_counter == 1
        if self._surplus_counter == limits == 1:
            silent.go_on(how)

    monkeypatch.setattr(pump.ResponsePump, "_check_idle", seen)
    async with upstream(silent) as live:
        async with proxy("record", tmp_path, live.url, idle_timeout=IDLE) as it:
            asking = asyncio.ensure_future(ask(it.url, chat(), within=1000))
            while not limits:
                jump(IDLE / 8)
                await asyncio.sleep(0.001)
            await asking
    [cassette] = cassettes(tmp_path)
    assert cassette.end.ending is ending


async def test_time_in_which_we_stood_still_is_no_silence(
    tmp_path: Path, arrived: list[bytes], jump: Jump
) -> None:
    silent = Silent()
    async with upstream(silent) as live:
        async with proxy("record", tmp_path, live.url, idle_timeout=IDLE) as it:
            asking = asyncio.ensure_future(ask(it.url, chat(), within=1000))
            await until(lambda: bool(arrived))
            for _ in range(5):
                jump(3 * IDLE)
                await _turns()
            silent.go_on("clean")
            raw = await asking
    assert (raw.how, raw.body) == ("clean", b"onetwo")


async def test_an_upstream_that_is_silent_while_we_look_has_stalled(
    tmp_path: Path, arrived: list[bytes], jump: Jump
) -> None:
    jumps = 0
    async with upstream(Silent()) as live:
        async with proxy("record", tmp_path, live.url, idle_timeout=IDLE) as it:
            asking = asyncio.ensure_future(ask(it.url, chat(), within=1000))
            await until(lambda: bool(arrived))
            while not asking.done() and jumps < 100:
                jump(IDLE / 8)
                jumps += 1
                await asyncio.sleep(0.001)
            raw = await asking
    [cassette] = cassettes(tmp_path)
    assert jumps < 100
    assert raw.how == "rst"
    assert (cassette.end.ending, cassette.body) == (Ending.STALLED, b"one")


class Stuck(asyncio.WriteTransport):
    """A transport of a client that takes nothing until it is told to."""

    left = 100

    def get_write_buffer_size(self) -> int:
        """What waits for the client."""
        return self.left

    def is_closing(self) -> bool:
        """It never is."""
        return False


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    """A client that takes nothing."""
    with socket.socket() as sock:
        yield Stuck({"socket": sock})


async def test_a_client_is_not_called_deaf_for_what_we_stood_still(
    jump: Jump, stuck: Stuck
) -> None:
    draining: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    taking = asyncio.ensure_future(response_writer._client_reads_on(stuck, draining))
    for _ in range(response_writer._LOOKS - 1):
        await _turns()
        jump(10 * response_writer._DEAF)
    await _turns()
    assert not taking.done()
    draining.set_result(None)
    assert await taking


async def test_a_client_that_takes_nothing_while_we_look_is_deaf(jump: Jump, stuck: Stuck) -> None:
    draining: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    taking = asyncio.ensure_future(response_writer._client_reads_on(stuck, draining))
    for _ in range(response_writer._LOOKS):
        await _turns()
        jump(response_writer._DEAF / response_writer._LOOKS)
    await _turns()
    assert taking.done()
    assert not await taking


async def test_a_reset_waits_for_a_client_for_as_long_as_we_can_look(
    jump: Jump, stuck: Stuck
) -> None:
    delivered = asyncio.ensure_future(
        response_writer._wait_until_delivered(stuck, stuck.get_extra_info("socket"))
    )
    for _ in range(10):
        await _turns()
        jump(10 * response_writer._PATIENCE)
    await _turns()
    assert not delivered.done()
    stuck.left = 0
    await delivered
