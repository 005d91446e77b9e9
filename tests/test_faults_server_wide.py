"""Faults that outlast a request, on a server that runs: a closed listener, and quotas."""

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

from in_process_proxy import proxy
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.routing import FAULT_HEADER
from raw_http import Line, ask, line, post
from stored_cassettes import chat, put, says
from waiting import until

PAGE = "/_proxy/faults"


def faults(*rules: str) -> dict[str, Any]:
    """Settings for a server with these faults, as fast as it goes."""
    return {"faults": parse_rules(rules), "pace": InstantPace()}


async def set_to(it: Line, *rules: str) -> Any:
    """Have these rules hold, on a connection that is open."""
    body = json.dumps({"faults": rules}).encode()
    await it.send(post(PAGE, body, "Host: HOST", method="PUT"))
    return json.loads((await it.answer()).body)


def listens(url: str) -> bool:
    """Whether a client can connect."""
    parts = urlsplit(url)
    try:
        with closing(socket.create_connection((parts.hostname, parts.port), 5)):
            return True
    except ConnectionRefusedError:
        return False


async def test_nobody_listens_until_the_rule_is_taken_back_and_then_on_the_same_port(
    tmp_path: Path,
) -> None:
    async with proxy("simulate", tmp_path, pace=InstantPace()) as it, line(it.url) as control:
        assert (await ask(it.url, chat())).status == 200
        await set_to(control, "refuse,window=1h")
        await until(lambda: not listens(it.url))
        await set_to(control)
        await until(lambda: listens(it.url))
        assert (await ask(it.url, chat())).status == 200


async def test_a_request_on_an_open_connection_meets_a_reset(tmp_path: Path) -> None:
    async with (
        proxy("simulate", tmp_path, pace=InstantPace()) as it,
        line(it.url) as control,
        line(it.url) as kept,
    ):
        await kept.send(chat("hi", "Host: HOST"))
        assert (await kept.answer()).how == "clean"
        await set_to(control, "refuse,window=1h")
        await kept.send(chat("hi", "Host: HOST"))
        assert (await kept.answer()).how == "rst"
        (entry,) = [entry for entry in it.journal.entries if entry.faults]
        assert (entry.faults[0].fault, entry.faults[0].effect) == ("refuse", "disconnected")


async def test_nobody_listens_from_the_start_where_the_window_begins_with_it(
    tmp_path: Path,
) -> None:
    async with proxy("simulate", tmp_path, **faults("refuse,window=1h")) as it:
        assert not listens(it.url)
        with pytest.raises(ConnectionRefusedError):
            await ask(it.url, chat())


async def test_a_window_opens_and_ends_by_itself_and_the_log_tells(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "llm_proxy")
    rules = ("refuse,window=150ms..250ms", "refuse,window=200ms..300ms")
    async with proxy("simulate", tmp_path, **faults(*rules)) as it:
        assert listens(it.url)
        await until(lambda: "the listener is open again" in caplog.messages)
        assert listens(it.url)
    said = [message for message in caplog.messages if "listener" in message]
    assert len(said) == 2
    assert said[0].endswith("s: fault refuse,window=150ms..250ms")


async def test_a_server_that_is_closed_can_be_stopped(tmp_path: Path) -> None:
    async with proxy("simulate", tmp_path, **faults("refuse,window=1h")) as it:
        await it.drain(asyncio.Event())
        assert not listens(it.url)


@pytest.mark.parametrize("rule", ["refuse,window=1s", "quota,requests=1"])
async def test_a_request_brings_no_rule_that_outlasts_it(tmp_path: Path, rule: str) -> None:
    async with proxy("simulate", tmp_path, fault_header=True) as it:
        raw = await ask(it.url, chat("hi", f"{FAULT_HEADER}: {rule}"))
    assert raw.status == 400
    said = json.loads(raw.body)["error"]["message"]
    name = rule.partition(",")[0]
    assert said == (
        f"fault '{rule}': {name} is no matter of one request: give it with --fault, or PUT it to "
        "/_proxy/faults"
    )


async def test_a_quota_counts_what_went_out(tmp_path: Path) -> None:
    rule = "quota,requests=3,tokens=100000,window=1h"
    async with proxy("simulate", tmp_path, **faults(rule)) as it:
        raws = [await ask(it.url, chat()) for _ in range(4)]
        left = [int(raw.header("x-ratelimit-remaining-tokens") or 0) for raw in raws]
        async with line(it.url) as control:
            await control.send(post(PAGE, b"", "Host: HOST", method="GET"))
            page = json.loads((await control.answer()).body)
    assert [raw.status for raw in raws] == [200, 200, 200, 429]
    assert [raw.header("x-ratelimit-remaining-requests") for raw in raws] == ["2", "1", "0", "0"]
    assert left[0] == 99_999  # "hi" is a token
    assert left == sorted(left, reverse=True)
    assert len(set(left)) == 4
    assert page["given"] == [{"rule": rule, "seen": 4, "struck": 1}]


async def test_a_large_answer_is_counted_aside(tmp_path: Path) -> None:
    put(tmp_path / "cassettes", chat(), says(*["word " * 20] * 300))
    statuses: list[int] = []
    async with proxy("replay", tmp_path, **faults("quota,tokens=1000,window=1h")) as it:
        async with asyncio.timeout(20):
            while 429 not in statuses:
                statuses.append((await ask(it.url, chat())).status)
    assert statuses[0] == 200
