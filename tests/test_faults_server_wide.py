"""Faults that outlast a request, on a running server: a closed listener, and quotas."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from case_tables import each_row
from in_process_proxy import proxy
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.routing import FAULT_HEADER
from raw_http import RawConnection, build_http_request, open_line, send_request
from stored_cassettes import raw_chat_request, text_response, write_cassettes
from waiting import wait_until

FAULTS_PATH = "/_proxy/faults"


def faults(*rules: str) -> dict[str, Any]:
    """Settings for a server with these faults and no pacing."""
    return {"faults": parse_rules(rules), "pace": InstantPace()}


async def put_rules(connection: RawConnection, *rules: str) -> Any:
    """Set these rules over an open connection; returns the response document."""
    body = json.dumps({"faults": rules}).encode()
    await connection.send(build_http_request(FAULTS_PATH, body, "Host: HOST", method="PUT"))
    return json.loads((await connection.read_response()).body)


def is_listening(url: str) -> bool:
    """Whether a client can connect."""
    parts = urlsplit(url)
    try:
        with closing(socket.create_connection((parts.hostname, parts.port), 5)):
            return True
    except ConnectionRefusedError:
        return False


async def test_the_listener_is_closed_until_the_rule_is_removed_and_reopens_on_the_same_port(
    tmp_path: Path,
) -> None:
    async with (
        proxy("simulate", tmp_path, pace=InstantPace()) as server,
        open_line(server.url) as control,
    ):
        closures = server.journal.listener_closures
        assert (await send_request(server.url, raw_chat_request())).status == 200
        assert not closures
        await put_rules(control, "refuse,window=1h")
        await wait_until(lambda: not is_listening(server.url))
        await wait_until(lambda: [reopened_at_ms for _, reopened_at_ms in closures] == [None])
        await put_rules(control)
        await wait_until(lambda: is_listening(server.url))
        assert (await send_request(server.url, raw_chat_request())).status == 200
        [(closed_at_ms, reopened_at_ms)] = closures
        before, after = (entry.at_ms for entry in server.journal.entries)
        assert before < closed_at_ms < (reopened_at_ms or 0.0) < after


async def test_a_request_on_an_open_connection_is_reset(tmp_path: Path) -> None:
    async with (
        proxy("simulate", tmp_path, pace=InstantPace()) as server,
        open_line(server.url) as control,
        open_line(server.url) as open_connection,
    ):
        await open_connection.send(raw_chat_request("hi", "Host: HOST"))
        assert (await open_connection.read_response()).ending == "clean"
        await put_rules(control, "refuse,window=1h")
        await open_connection.send(raw_chat_request("hi", "Host: HOST"))
        assert (await open_connection.read_response()).ending == "rst"
        (entry,) = [entry for entry in server.journal.entries if entry.faults]
        assert (entry.faults[0].fault, entry.faults[0].effect) == ("refuse", "disconnected")


async def test_the_listener_is_closed_from_the_start_if_the_window_begins_there(
    tmp_path: Path,
) -> None:
    async with proxy("simulate", tmp_path, **faults("refuse,window=1h")) as server:
        assert not is_listening(server.url)
        with pytest.raises(ConnectionRefusedError):
            await send_request(server.url, raw_chat_request())


async def test_a_window_starts_and_ends_by_itself_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "llm_proxy")
    rules = ("refuse,window=150ms..250ms", "refuse,window=200ms..300ms")
    async with proxy("simulate", tmp_path, **faults(*rules)) as server:
        assert is_listening(server.url)
        await wait_until(lambda: "listener reopened" in caplog.messages)
        assert is_listening(server.url)
    listener_messages = [message for message in caplog.messages if "listener" in message]
    assert len(listener_messages) == 2
    assert listener_messages[0].endswith("s by fault refuse,window=150ms..250ms")


async def test_a_server_with_a_closed_listener_can_be_stopped(tmp_path: Path) -> None:
    async with proxy("simulate", tmp_path, **faults("refuse,window=1h")) as server:
        await server.drain(asyncio.Event())
        assert not is_listening(server.url)


@each_row("rule", ["refuse,window=1s", "quota,requests=1"])
async def test_the_fault_header_refuses_rules_that_outlast_the_request(
    tmp_path: Path, rule: str
) -> None:
    async with proxy("simulate", tmp_path, fault_header=True) as server:
        response = await send_request(server.url, raw_chat_request("hi", f"{FAULT_HEADER}: {rule}"))
    assert response.status == 400
    message = json.loads(response.body)["error"]["message"]
    name = rule.partition(",")[0]
    assert message == (
        f"fault '{rule}': {name} cannot be set for a single request; use --fault or PUT "
        "/_proxy/faults"
    )


async def test_a_quota_counts_sent_tokens(tmp_path: Path) -> None:
    rule = "quota,requests=3,tokens=100000,window=1h"
    async with proxy("simulate", tmp_path, **faults(rule)) as server:
        responses = [await send_request(server.url, raw_chat_request()) for _ in range(4)]
        remaining = [
            int(response.header("x-ratelimit-remaining-tokens") or 0) for response in responses
        ]
        async with open_line(server.url) as control:
            await control.send(build_http_request(FAULTS_PATH, b"", "Host: HOST", method="GET"))
            document = json.loads((await control.read_response()).body)
    assert [response.status for response in responses] == [200, 200, 200, 429]
    assert [response.header("x-ratelimit-remaining-requests") for response in responses] == [
        "2",
        "1",
        "0",
        "0",
    ]
    assert remaining[0] == 99_999  # "hi" is a token
    assert remaining == sorted(remaining, reverse=True)
    assert len(set(remaining)) == 4
    assert document["configured"] == [{"rule": rule, "matched": 4, "injected": 1}]


async def test_tokens_of_a_large_response_are_counted(tmp_path: Path) -> None:
    write_cassettes(
        tmp_path / "cassettes", raw_chat_request(), text_response(*["word " * 20] * 300)
    )
    statuses: list[int] = []
    async with proxy("replay", tmp_path, **faults("quota,tokens=1000,window=1h")) as server:
        async with asyncio.timeout(20):
            while 429 not in statuses:
                statuses.append((await send_request(server.url, raw_chat_request())).status)
    assert statuses[0] == 200
