"""Bytes that an upstream sends beyond the response to a request are never a response."""

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

from case_tables import each_row
from in_process_proxy import load_cassettes, proxy, settings
from llm_proxy.shell.running import serving
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.shell.upstream.connection import UpstreamProtocol
from llm_proxy.shell.upstream.pump import ResponsePump
from raw_http import RawResponse, build_http_request, send_request
from stub_upstream import Connection, fixed_length, upstream
from thoroughness import quick_or_thorough
from waiting import wait_until

SurplusTiming = Literal["before", "with", "after", "idle"]

FORGED_BODY: Final = b"forged"
FORGED_RESPONSE: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
SURPLUS: Final = {
    "a response": FORGED_RESPONSE,
    "two responses": FORGED_RESPONSE * 2,
    "a response in chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nforged\r\n0\r\n\r\n"
    ),
    "a head": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n",
    "half a head": FORGED_RESPONSE[:20],
    "a head without a body": b"HTTP/1.1 204 No Content\r\n\r\n",
    "an informational head": b"HTTP/1.1 103 Early Hints\r\n\r\n",
    "a bare body": FORGED_BODY,
    "a chunk": b"6\r\nforged\r\n0\r\n\r\n",
    "a blank line": b"\r\n",
    "a response with bare line feeds": FORGED_RESPONSE.replace(b"\r\n", b"\n"),
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
SURPLUS_BY_ANSWER: Final = {
    answer: quick_or_thorough(names, tuple(SURPLUS))
    for answer, names in {
        **dict.fromkeys(ANSWERS, ("a response", "a blank line")),
        **dict.fromkeys(("length", "chunked"), tuple(SURPLUS)),
    }.items()
}


@dataclass
class SurplusProvider:
    """An upstream that answers each request with its path, and sends surplus bytes."""

    answer: str
    surplus: bytes
    timing: SurplusTiming
    url: str = ""
    connections: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            if self.timing == "before":
                writer.write(self.surplus)
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1]
                template = ANSWERS[self.answer]
                answer = template if self.answer in BODILESS else template % (len(path), path)
                if self.timing == "with":
                    writer.write(answer + self.surplus)
                    continue
                writer.write(answer)
                await writer.drain()
                if self.timing == "after":
                    await asyncio.sleep(0)  # the proxy reads response and surplus separately
                    writer.write(self.surplus)
        writer.close()


@asynccontextmanager
async def run_surplus_provider(
    answer: str, surplus: bytes, timing: SurplusTiming
) -> AsyncIterator[SurplusProvider]:
    provider = SurplusProvider(answer, surplus, timing)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield provider
    finally:
        server.close()
        for writer in provider.connections:
            writer.close()


async def send_three_requests(
    recording: RunningProxy, provider: SurplusProvider
) -> list[RawResponse]:
    """Send three requests in sequence; return their responses."""
    answers = []
    for number in range(3):
        method = "HEAD" if provider.answer == "HEAD" else "GET"
        answers.append(
            await send_request(
                recording.url, build_http_request(f"/v1/{number}", b"", method=method)
            )
        )
        if provider.timing == "idle":
            idle = provider.connections[-1]
            idle.write(provider.surplus)
            if number == 0:  # detected while idle; later ones with the next request
                await wait_until(idle.transport.is_closing)
    return answers


@pytest.mark.parametrize("timing", ["with", "after", "idle"])
@each_row(
    "answer, name",
    [(answer, name) for answer, names in SURPLUS_BY_ANSWER.items() for name in names],
)
async def test_every_request_gets_its_own_answer_and_every_answer_is_recorded(
    tmp_path: Path, answer: str, name: str, timing: SurplusTiming
) -> None:
    folder = tmp_path / answer / name
    async with (
        run_surplus_provider(answer, SURPLUS[name], timing) as provider,
        proxy("record", folder, provider.url) as recording,
    ):
        answers = await send_three_requests(recording, provider)
    expected = [b"" if answer in BODILESS else b"/v1/%d" % number for number in range(3)]
    recorded = sorted(cassette.response_body for cassette in load_cassettes(folder))
    assert ([item.body for item in answers], recorded) == (expected, expected)
    assert recording.journal.recording_failures == []


@each_row("surplus", SURPLUS.values(), ids=SURPLUS)
async def test_an_answer_that_comes_before_its_request_is_a_502(
    tmp_path: Path, surplus: bytes
) -> None:
    async with (
        run_surplus_provider("length", surplus, "before") as provider,
        proxy("record", tmp_path, provider.url) as recording,
    ):
        answers = await send_three_requests(recording, provider)
    assert [answer.status for answer in answers] == [502] * 3
    assert all(b"sent data before it received the request" in answer.body for answer in answers)
    assert len(provider.connections) == 6  # each request is retried once
    assert load_cassettes(tmp_path) == []


async def test_dropped_bytes_are_logged_but_an_idle_timeout_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    timeout = b"HTTP/1.1 408 Request Time-out\r\nConnection: close\r\n\r\n"
    for surplus, expected_count in ((FORGED_RESPONSE, 1), (timeout, 0)):
        caplog.clear()
        async with (
            run_surplus_provider("length", surplus, "idle") as provider,
            proxy("record", tmp_path, provider.url) as recording,
        ):
            await send_request(recording.url, build_http_request("/v1/0", b"", method="GET"))
            provider.connections[0].write(surplus)
            await wait_until(provider.connections[0].transport.is_closing)
        log_messages = [message for message in caplog.messages if "sent unexpected data" in message]
        assert len(log_messages) == expected_count


@pytest.mark.parametrize("detection", ["while the run goes on", "as the run ends"])
async def test_answers_that_may_be_swapped_are_reported(tmp_path: Path, detection: str) -> None:
    """A late response counts as the response to the next request; no client can tell.

    It is detected at the end, when there is one response more than there were requests.
    """

    async def send_late_response(connection: Connection) -> None:
        path = connection.head.split(b" ", 2)[1]
        if connection.number == 2:
            await connection.send(ANSWERS["length"] % (len(FORGED_BODY), FORGED_BODY))
            await asyncio.sleep(0.02)  # so that the client receives that and disconnects
        await connection.send(ANSWERS["length"] % (len(path), path))

    async with upstream(send_late_response) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            assert recording.active_mode.upstream is not None
            surplus_responses = recording.active_mode.upstream.surplus_warnings
            await send_request(recording.url, build_http_request("/v1/1", b"", method="GET"))
            raw = await send_request(recording.url, build_http_request("/v1/2", b"", method="GET"))
            if detection == "while the run goes on":
                await wait_until(lambda: bool(surplus_responses))
        assert raw.body == FORGED_BODY
    [surplus_response] = surplus_responses
    assert (
        "the cassettes of this run may contain wrong responses, so record them again"
        in surplus_response
    )


async def test_a_kept_connection_without_surplus_is_reused(tmp_path: Path) -> None:
    for answer in ("length", "chunked", "trailers", "204", "304", "HEAD"):
        async with (
            run_surplus_provider(answer, b"", "with") as provider,
            proxy("record", tmp_path, provider.url) as recording,
        ):
            await send_three_requests(recording, provider)
        assert len(provider.connections) == 1, answer


# --- heads with an invalid status -----------------------------------------------------------------


@each_row(
    "head, reason",
    [
        (
            "101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x",
            "status 101 without an upgrade request",
        ),
        ("000 OK", "status 0"),
        ("099 OK", "status 99"),
    ],
    ids=["101", "0", "99"],
)
async def test_an_invalid_status_is_a_502(tmp_path: Path, head: str, reason: str) -> None:
    async def script(connection: Connection) -> None:
        await connection.send(f"HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n".encode())

    async with upstream(script) as live, proxy("record", tmp_path, live.url) as recording:
        raw = await send_request(recording.url, build_http_request("/v1/models", b"", method="GET"))
    assert raw.status == 502
    assert reason.encode() in raw.body
    assert load_cassettes(tmp_path) == []


# --- responses without a recording ----------------------------------------------------------------


async def test_an_answer_that_outruns_its_recording_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llm_proxy.shell.upstream.live._LOOP_PASSES_UNTIL_SENT", 50)
    async with (
        upstream(fixed_length(b"{}")) as live,
        proxy("record", tmp_path, live.url) as recording,
    ):
        raw = await send_request(recording.url, build_http_request("/v1/models", b"", method="GET"))
    assert raw.body == b"{}"
    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == [b"{}"]


CLIENT_PROGRAM: Final = """
import os, urllib.request
urllib.request.urlopen(os.environ["LLM_PROXY_URL"] + "/v1/models")
"""


async def test_an_answer_without_a_recording_is_reported_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        ResponsePump, "set_recording", lambda pump, _: pump._recording_decided_event.set()
    )
    command = (sys.executable, "-c", CLIENT_PROGRAM)
    async with upstream(fixed_length(b"{}")) as live:
        run_settings = settings(tmp_path, upstreams={"default": live.url})
        code, _ = await serving._serve_until_stopped("record", run_settings, command, "record")
    assert code == 1
    assert "not recorded: a response was sent to a client but not recorded" in caplog.text
    assert "1 recording lost" in caplog.text


@each_row(
    "is_tls, has_served, received, expected",
    [
        (False, False, FORGED_RESPONSE, FORGED_RESPONSE[:16]),
        (False, True, FORGED_RESPONSE, FORGED_RESPONSE[:16]),
        (False, True, b"", None),
        (False, True, None, b""),
        (True, False, b"\x17\x03\x03", None),
        (True, True, b"\x15\x03\x03", b""),
        (True, True, b"", None),
    ],
    ids=["new", "kept", "quiet", "closed", "new TLS", "kept TLS", "quiet TLS"],
)
async def test_peeking_at_a_socket_leaves_its_bytes_there(
    is_tls: bool, has_served: bool, received: bytes | None, expected: bytes | None
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if received is None:
            theirs.shutdown(socket.SHUT_WR)
        else:
            theirs.send(received)
        transport_info = {"socket": ours, "ssl_object": object() if is_tls else None}
        receiver = UpstreamProtocol(asyncio.get_running_loop(), lambda _: None)
        receiver.transport = Mock(get_extra_info=transport_info.get, is_closing=lambda: False)
        receiver.has_served = has_served

        assert receiver.peek_socket() == expected
        if received:
            assert ours.recv(100) == received
