"""Bytes that an upstream sends and no request waits for are nobody's answer."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from unittest.mock import Mock

import pytest

from in_process_proxy import cassettes, proxy, settings
from llm_proxy.shell.running import serving
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.shell.upstream.connection import UpstreamProtocol
from llm_proxy.shell.upstream.pump import ResponsePump
from raw_http import Raw, ask, post
from stub_upstream import Connection, upstream, whole
from waiting import until

Moment = Literal["before", "with", "after", "idle"]

FORGED: Final = b"forged"
RESPONSE: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
SURPLUS: Final = {
    "a response": RESPONSE,
    "two responses": RESPONSE * 2,
    "a response in chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nforged\r\n0\r\n\r\n"
    ),
    "a head": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n",
    "half a head": RESPONSE[:20],
    "a head without a body": b"HTTP/1.1 204 No Content\r\n\r\n",
    "an informational head": b"HTTP/1.1 103 Early Hints\r\n\r\n",
    "a bare body": FORGED,
    "a chunk": b"6\r\nforged\r\n0\r\n\r\n",
    "a blank line": b"\r\n",
    "a response with bare line feeds": RESPONSE.replace(b"\r\n", b"\n"),
}
ANSWERS: Final = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n",
    "trailers": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\nA: b\r\n\r\n"
    ),
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: %d\n\n%b",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
    "HEAD": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
}
BODILESS: Final = ("204", "304", "HEAD")


@dataclass
class Speaker:
    """An upstream that answers each request with its path, and sends more than that."""

    answer: str
    surplus: bytes
    moment: Moment
    url: str = ""
    connections: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            if self.moment == "before":
                writer.write(self.surplus)
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1]
                form = ANSWERS[self.answer]
                answer = form if self.answer in BODILESS else form % (len(path), path)
                if self.moment == "with":
                    writer.write(answer + self.surplus)
                    continue
                writer.write(answer)
                await writer.drain()
                if self.moment == "after":
                    await asyncio.sleep(0)  # what is read is read in two pieces
                    writer.write(self.surplus)
        writer.close()


@asynccontextmanager
async def speaking(answer: str, surplus: bytes, moment: Moment) -> AsyncIterator[Speaker]:
    speaker = Speaker(answer, surplus, moment)
    server = await asyncio.start_server(speaker.serve, "127.0.0.1", 0)
    speaker.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield speaker
    finally:
        server.close()
        for writer in speaker.connections:
            writer.close()


async def asked_thrice(recording: RunningProxy, speaker: Speaker) -> list[Raw]:
    """The answers to three requests, one after the other."""
    answers = []
    for number in range(3):
        method = "HEAD" if speaker.answer == "HEAD" else "GET"
        answers.append(await ask(recording.url, post(f"/v1/{number}", b"", method=method)))
        if speaker.moment == "idle":
            idle = speaker.connections[-1]
            idle.write(speaker.surplus)
            if number == 0:  # then it is seen while nothing is asked, else with the next request
                await until(idle.transport.is_closing)
    return answers


@pytest.mark.parametrize("moment", ["with", "after", "idle"])
@pytest.mark.parametrize("answer", ANSWERS)
async def test_every_request_gets_its_own_answer_and_every_answer_is_recorded(
    tmp_path: Path, answer: str, moment: Moment
) -> None:
    wrong = []
    for name, surplus in SURPLUS.items():
        folder = tmp_path / name.replace(" ", "-")
        async with (
            speaking(answer, surplus, moment) as speaker,
            proxy("record", folder, speaker.url) as it,
        ):
            answers = await asked_thrice(it, speaker)
        expected = [b"" if answer in BODILESS else b"/v1/%d" % number for number in range(3)]
        kept = sorted(cassette.body for cassette in cassettes(folder))
        if [item.body for item in answers] != expected or kept != expected:
            wrong.append((name, [item.body for item in answers], kept))
        assert it.journal.failures == []
    assert wrong == []


@pytest.mark.parametrize("surplus", SURPLUS.values(), ids=SURPLUS)
async def test_an_upstream_that_answers_before_it_is_asked_is_no_upstream(
    tmp_path: Path, surplus: bytes
) -> None:
    async with (
        speaking("length", surplus, "before") as speaker,
        proxy("record", tmp_path, speaker.url) as recording,
    ):
        answers = await asked_thrice(recording, speaker)
    assert [answer.status for answer in answers] == [502] * 3
    assert all(b"sent an answer before it was asked" in answer.body for answer in answers)
    assert len(speaker.connections) == 6  # each is asked for once more
    assert cassettes(tmp_path) == []


async def test_what_is_dropped_is_said_but_not_that_an_idle_connection_timed_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    timeout = b"HTTP/1.1 408 Request Time-out\r\nConnection: close\r\n\r\n"
    for surplus, lines in ((RESPONSE, 1), (timeout, 0)):
        caplog.clear()
        async with (
            speaking("length", surplus, "idle") as speaker,
            proxy("record", tmp_path, speaker.url) as recording,
        ):
            await ask(recording.url, post("/v1/0", b"", method="GET"))
            speaker.connections[0].write(surplus)
            await until(speaker.connections[0].transport.is_closing)
        said = [
            message
            for message in caplog.messages
            if "sent bytes that no request waits for" in message
        ]
        assert len(said) == lines


@pytest.mark.parametrize("last", ["while the run goes on", "as the run ends"])
async def test_answers_that_may_be_each_others_are_loud(tmp_path: Path, last: str) -> None:
    """A late response is the answer to the next request: no client can know better.

    It shows in the end, when there is one answer more than there were requests.
    """

    async def late(connection: Connection) -> None:
        path = connection.head.split(b" ", 2)[1]
        if connection.number == 2:
            await connection.send(ANSWERS["length"] % (len(FORGED), FORGED))
            await asyncio.sleep(0.02)  # so that the client has that, and is gone
        await connection.send(ANSWERS["length"] % (len(path), path))

    async with upstream(late) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            assert recording.upstream is not None
            doubts = recording.upstream.surplus_responses
            await ask(recording.url, post("/v1/1", b"", method="GET"))
            raw = await ask(recording.url, post("/v1/2", b"", method="GET"))
            if last == "while the run goes on":
                await until(lambda: bool(doubts))
        assert raw.body == FORGED
    [doubt] = doubts
    assert "which answers which is not certain; record them again" in doubt


async def test_a_kept_connection_serves_again_where_nothing_more_came(tmp_path: Path) -> None:
    for answer in ("length", "chunked", "trailers", "204", "304", "HEAD"):
        async with (
            speaking(answer, b"", "with") as speaker,
            proxy("record", tmp_path, speaker.url) as recording,
        ):
            await asked_thrice(recording, speaker)
        assert len(speaker.connections) == 1, answer


# --- heads that are no answer ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (
            "101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x",
            "101 to a request that asked for no other protocol",
        ),
        ("000 OK", "the status 0"),
        ("099 OK", "the status 99"),
    ],
    ids=["101", "0", "99"],
)
async def test_a_status_that_answers_nothing_is_a_502(tmp_path: Path, head: str, why: str) -> None:
    async def script(connection: Connection) -> None:
        await connection.send(f"HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n".encode())

    async with upstream(script) as live, proxy("record", tmp_path, live.url) as recording:
        raw = await ask(recording.url, post("/v1/models", b"", method="GET"))
    assert raw.status == 502
    assert why.encode() in raw.body
    assert cassettes(tmp_path) == []


# --- whatever the cause ---------------------------------------------------------------------------


async def test_an_answer_that_outruns_its_recording_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llm_proxy.shell.upstream.live._UNTIL_SENT", 50)
    async with upstream(whole(b"{}")) as live, proxy("record", tmp_path, live.url) as recording:
        raw = await ask(recording.url, post("/v1/models", b"", method="GET"))
    assert raw.body == b"{}"
    assert [cassette.body for cassette in cassettes(tmp_path)] == [b"{}"]


ASKS: Final = """
import os, urllib.request
urllib.request.urlopen(os.environ["LLM_PROXY_URL"] + "/v1/models")
"""


async def test_an_answer_that_went_into_no_recording_is_loud_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        ResponsePump, "set_recording", lambda pump, _: pump._recording_decided.set()
    )
    command = (sys.executable, "-c", ASKS)
    async with upstream(whole(b"{}")) as live:
        run = settings(tmp_path, upstreams={"default": live.url})
        code, _ = await serving._serve_until_stopped("record", run, command, "record")
    assert code == 1
    assert (
        "not recorded: an upstream's answer went to a client and into no recording" in caplog.text
    )
    assert "lost: 1 recording" in caplog.text


@pytest.mark.parametrize(
    ("is_tls", "has_served", "came", "waiting"),
    [
        (False, False, RESPONSE, RESPONSE[:16]),
        (False, True, RESPONSE, RESPONSE[:16]),
        (False, True, b"", None),
        (False, True, None, b""),
        (True, False, b"\x17\x03\x03", None),
        (True, True, b"\x15\x03\x03", b""),
        (True, True, b"", None),
    ],
    ids=["new", "kept", "quiet", "closed", "new TLS", "kept TLS", "quiet TLS"],
)
async def test_what_waits_in_a_socket_is_seen_and_stays_there(
    is_tls: bool, has_served: bool, came: bytes | None, waiting: bytes | None
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if came is None:
            theirs.shutdown(socket.SHUT_WR)
        else:
            theirs.send(came)
        about = {"socket": ours, "ssl_object": object() if is_tls else None}
        receiver = UpstreamProtocol(asyncio.get_running_loop(), lambda _: None)
        receiver.transport = Mock(get_extra_info=about.get, is_closing=lambda: False)
        receiver.has_served = has_served

        assert receiver.peek_waiting() == waiting
        if came:
            assert ours.recv(100) == came
