"""A request is sent again only if no upstream can have received it: a POST costs money."""

from __future__ import annotations

from pathlib import Path

import pytest

from case_tables import each_row
from in_process_proxy import load_cassettes, proxy
from raw_http import build_http_request, send_request
from stored_cassettes import DONE_EVENT, chat_event, raw_chat_request
from stub_upstream import Connection, Script, chunked, fixed_length, upstream

MODELS_REQUEST = build_http_request("/v1/models", b"", method="GET")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99\r\n\r\n"
PARTIAL_RESPONSES = [b"H", b"HTTP/1.1 200 OK\r\n", HEAD[:-1], HEAD, HEAD + chat_event("half")]


def end_connection(ending: str, data: bytes = b"") -> Script:
    """Return an upstream script that sends these bytes and closes the connection."""

    async def script(connection: Connection) -> None:
        await connection.send(data)
        if ending == "fin":
            connection.fin()
        else:
            await connection.rst()

    return script


@each_row("ending", ["fin", "rst"])
@each_row(
    "partial_response",
    PARTIAL_RESPONSES,
    ids=["a byte", "status line", "all but a byte", "head", "half the body"],
)
async def test_a_post_is_not_reissued_after_the_first_response_byte(
    tmp_path: Path, partial_response: bytes, ending: str
) -> None:
    scripts = (
        fixed_length(b"{}"),
        end_connection(ending, partial_response),
        chunked([chat_event("again"), DONE_EVENT]),
    )
    async with upstream(*scripts) as provider, proxy("record", tmp_path, provider.url) as recording:
        await send_request(recording.url, MODELS_REQUEST)
        raw = await send_request(recording.url, raw_chat_request())

    assert (len(provider.requests), provider.connections) == (
        2,
        1,
    )  # over the kept-alive connection
    if partial_response.startswith(HEAD):
        assert (raw.status, raw.body, raw.ending) == (200, partial_response[len(HEAD) :], ending)
    else:
        assert (raw.status, raw.ending) == (502, "clean")


@pytest.mark.parametrize("ending", ["fin", "rst"])
async def test_a_post_that_a_kept_connection_dropped_is_reissued_once_and_is_one_take(
    tmp_path: Path, ending: str
) -> None:
    scripts = (
        fixed_length(b"{}"),
        end_connection(ending),
        chunked([chat_event("again"), DONE_EVENT]),
        end_connection(ending),
    )
    async with upstream(*scripts) as provider, proxy("record", tmp_path, provider.url) as recording:
        await send_request(recording.url, MODELS_REQUEST)
        raw = await send_request(recording.url, raw_chat_request())

    assert (raw.status, raw.body, raw.ending) == (200, chat_event("again") + DONE_EVENT, "clean")
    (_, first), (_, reissued) = provider.requests[1:]
    assert first == reissued == raw_chat_request().partition(b"\r\n\r\n")[2]
    assert provider.connections == 2
    assert [
        cassette.response_body for cassette in load_cassettes(tmp_path) if cassette.meta.model
    ] == [chat_event("again") + DONE_EVENT]
