"""An upstream head with a control character could forge a header, so it is not passed on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from in_process_proxy import load_cassettes, proxy
from raw_http import send_request
from stored_cassettes import DONE_EVENT, chat_event, raw_chat_request
from stub_upstream import Connection, chunked, upstream

HEAD_END = b"Content-Type: text/event-stream\r\nContent-Length: 14\r\n"
CONTROLS = [b"\x00", b"\x01", b"\x08", b"\x0b", b"\x0c", b"\x1b", b"\x1f", b"\x7f"]
FORGED = {
    "reason": b"HTTP/1.1 200 O%bK\r\n" + HEAD_END,
    "value": b"HTTP/1.1 200 OK\r\nX-A: 1%b2\r\n" + HEAD_END,
    "value that is stored": b"HTTP/1.1 200 OK\r\nRetry-After: 1%b2\r\n" + HEAD_END,
    "name": b"HTTP/1.1 200 OK\r\nX%bA: 1\r\n" + HEAD_END,
    "error": b"HTTP/1.1 429 Slow%bdown\r\n" + HEAD_END,
}


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.hex())
@pytest.mark.parametrize("position", FORGED)
async def test_a_head_with_a_control_character_is_a_502_and_no_cassette(
    tmp_path: Path, position: str, control: bytes
) -> None:
    async def send_forged_head(connection: Connection) -> None:
        await connection.send(FORGED[position] % control + b"\r\n" + DONE_EVENT)

    async with upstream(send_forged_head, chunked([chat_event("sound"), DONE_EVENT])) as provider:
        async with proxy("record", tmp_path, provider.url) as recording:
            response = await send_request(recording.url, raw_chat_request())
            next_response = await send_request(recording.url, raw_chat_request())

    assert (response.status, response.ending) == (502, "clean")
    assert json.loads(response.body)["error"]["type"] == "upstream_failed"
    assert control not in response.body
    assert control not in repr(response.headers).encode("latin-1")
    assert (next_response.status, next_response.body) == (200, chat_event("sound") + DONE_EVENT)
    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == [
        chat_event("sound") + DONE_EVENT
    ]
    assert not list((tmp_path / "spool").glob("*"))


@pytest.mark.parametrize("position", ["value", "value that is stored"])
async def test_a_tab_in_a_value_is_no_control_character(tmp_path: Path, position: str) -> None:
    async def send_tab(connection: Connection) -> None:
        await connection.send(FORGED[position] % b"\t" + b"\r\n" + DONE_EVENT)

    async with upstream(send_tab) as provider, proxy("record", tmp_path, provider.url) as recording:
        response = await send_request(recording.url, raw_chat_request())

    assert (response.status, response.body) == (200, DONE_EVENT)
    assert "1\t2" in [value for _, value in response.headers]
    assert len(load_cassettes(tmp_path)) == 1
