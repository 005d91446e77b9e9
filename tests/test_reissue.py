"""A request is sent again where nobody can have heard it, and nowhere else: POST costs money."""

from __future__ import annotations

from pathlib import Path

import pytest

from in_process_proxy import cassettes, proxy
from raw_http import ask, post
from stored_cassettes import DONE, chat, event
from stub_upstream import Connection, Script, chunked, upstream, whole

MODELS = post("/v1/models", b"", method="GET")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99\r\n\r\n"
BEGUN = [b"H", b"HTTP/1.1 200 OK\r\n", HEAD[:-1], HEAD, HEAD + event("half")]


def ending(how: str, after: bytes = b"") -> Script:
    """An upstream that writes no more than this."""

    async def script(connection: Connection) -> None:
        await connection.send(after)
        if how == "fin":
            connection.fin()
        else:
            await connection.rst()

    return script


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize(
    "begun", BEGUN, ids=["a byte", "status line", "all but a byte", "head", "half the body"]
)
async def test_a_post_is_not_asked_again_once_a_byte_of_its_answer_came(
    tmp_path: Path, begun: bytes, how: str
) -> None:
    answers = whole(b"{}"), ending(how, begun), chunked([event("again"), DONE])
    async with upstream(*answers) as live, proxy("record", tmp_path, live.url) as recording:
        await ask(recording.url, MODELS)
        raw = await ask(recording.url, chat())

    assert (len(live.requests), live.connections) == (2, 1)  # over the connection that was kept
    if begun.startswith(HEAD):
        assert (raw.status, raw.body, raw.how) == (200, begun[len(HEAD) :], how)
    else:
        assert (raw.status, raw.how) == (502, "clean")


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_post_that_a_kept_connection_dropped_is_asked_once_more_and_is_one_take(
    tmp_path: Path, how: str
) -> None:
    answers = whole(b"{}"), ending(how), chunked([event("again"), DONE]), ending(how)
    async with upstream(*answers) as live, proxy("record", tmp_path, live.url) as recording:
        await ask(recording.url, MODELS)
        raw = await ask(recording.url, chat())

    assert (raw.status, raw.body, raw.how) == (200, event("again") + DONE, "clean")
    (_, first), (_, again) = live.requests[1:]
    assert first == again == chat().partition(b"\r\n\r\n")[2]
    assert live.connections == 2
    assert [cassette.body for cassette in cassettes(tmp_path) if cassette.meta.model] == [
        event("again") + DONE
    ]
