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


async def test_a_head_with_a_control_character_is_a_502_and_no_cassette(tmp_path: Path) -> None:
    controls = {
        f"{position} with {control.hex()}": control for position in FORGED for control in CONTROLS
    }

    async def send_requested_head(connection: Connection) -> None:
        name = json.loads(connection.body)["messages"][0]["content"]
        if name in controls:
            head = FORGED[name.partition(" with ")[0]] % controls[name]
            await connection.send(head + b"\r\n" + DONE_EVENT)
        else:
            await chunked([chat_event(name), DONE_EVENT])(connection)

    async with upstream(send_requested_head) as provider:
        async with proxy("record", tmp_path, provider.url) as recording:
            responses, next_responses = {}, {}
            for name in controls:
                responses[name] = await send_request(recording.url, raw_chat_request(name))
                next_responses[name] = await send_request(
                    recording.url, raw_chat_request(f"after {name}")
                )

    received = {
        name: (response.status, response.ending, json.loads(response.body)["error"]["type"])
        for name, response in responses.items()
    }
    assert received == dict.fromkeys(controls, (502, "clean", "upstream_failed"))
    assert {
        name for name, response in responses.items() if controls[name] in response.body
    } == set()
    assert {
        name
        for name, response in responses.items()
        if controls[name] in repr(response.headers).encode("latin-1")
    } == set()
    sound = {name: chat_event(f"after {name}") + DONE_EVENT for name in controls}
    assert {name: response.body for name, response in next_responses.items()} == sound
    recorded = [cassette.response_body for cassette in load_cassettes(tmp_path)]
    assert sorted(recorded) == sorted(sound.values())
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
