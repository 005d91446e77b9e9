"""An upstream's head with a control character could forge another: it goes no further."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from in_process_proxy import cassettes, proxy
from raw_http import ask
from stored_cassettes import DONE, chat, event
from stub_upstream import Connection, chunked, upstream

REST = b"Content-Type: text/event-stream\r\nContent-Length: 14\r\n"
CONTROLS = [b"\x00", b"\x01", b"\x08", b"\x0b", b"\x0c", b"\x1b", b"\x1f", b"\x7f"]
FORGED = {
    "reason": b"HTTP/1.1 200 O%bK\r\n" + REST,
    "value": b"HTTP/1.1 200 OK\r\nX-A: 1%b2\r\n" + REST,
    "value that is stored": b"HTTP/1.1 200 OK\r\nRetry-After: 1%b2\r\n" + REST,
    "name": b"HTTP/1.1 200 OK\r\nX%bA: 1\r\n" + REST,
    "error": b"HTTP/1.1 429 Slow%bdown\r\n" + REST,
}


@pytest.mark.parametrize("control", CONTROLS, ids=lambda it: it.hex())
@pytest.mark.parametrize("place", FORGED)
async def test_a_head_with_a_control_character_is_a_502_and_no_cassette(
    tmp_path: Path, place: str, control: bytes
) -> None:
    async def forging(connection: Connection) -> None:
        await connection.send(FORGED[place] % control + b"\r\n" + DONE)

    async with upstream(forging, chunked([event("sound"), DONE])) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            raw = await ask(recording.url, chat())
            after = await ask(recording.url, chat())

    assert (raw.status, raw.how) == (502, "clean")
    assert json.loads(raw.body)["error"]["type"] == "upstream_failed"
    assert control not in raw.body
    assert control not in repr(raw.headers).encode("latin-1")
    assert (after.status, after.body) == (200, event("sound") + DONE)
    assert [cassette.body for cassette in cassettes(tmp_path)] == [event("sound") + DONE]
    assert not list((tmp_path / "spool").glob("*"))


@pytest.mark.parametrize("place", ["value", "value that is stored"])
async def test_a_tab_in_a_value_is_no_control_character(tmp_path: Path, place: str) -> None:
    async def tabbed(connection: Connection) -> None:
        await connection.send(FORGED[place] % b"\t" + b"\r\n" + DONE)

    async with upstream(tabbed) as live, proxy("record", tmp_path, live.url) as recording:
        raw = await ask(recording.url, chat())

    assert (raw.status, raw.body) == (200, DONE)
    assert "1\t2" in [value for _, value in raw.headers]
    assert len(cassettes(tmp_path)) == 1
