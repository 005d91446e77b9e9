"""`auto`: request n replays take n if it was on disk at the start, and records it otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from in_process_proxy import load_cassettes, proxy
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.recording import recorder
from llm_proxy.take_numbers import OnMiss
from raw_http import build_http_request, open_line, send_request
from stored_cassettes import (
    DONE_EVENT,
    chat_event,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from stub_upstream import Connection, chunked, fixed_length, upstream
from waiting import wait_until

INSTANT = InstantPace()


async def _numbered_response(connection: Connection) -> None:
    """Answer each connection to the upstream with a response of its own."""
    [body] = response_bodies([text_response(f"live {connection.number}")])
    await chunked([body])(connection)


async def _truncated_response(connection: Connection) -> None:
    await connection.begin()
    await connection.chunk(chat_event("half"))
    connection.fin()


def _live_bodies(*numbers: int) -> list[bytes]:
    return response_bodies([text_response(f"live {number}") for number in numbers])


async def test_what_is_on_disk_is_played_and_what_is_not_becomes_the_next_take(
    tmp_path: Path,
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("on disk"))
    async with upstream(_numbered_response) as provider:
        async with proxy("auto", tmp_path, provider.url, pace=INSTANT) as server:
            received = [(await send_request(server.url, raw_chat_request())).body for _ in range(3)]
    assert received == [*response_bodies([text_response("on disk")]), *_live_bodies(1, 2)]
    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == received
    assert [Path(cassette.file).stem[-1] for cassette in load_cassettes(tmp_path)] == [
        "1",
        "2",
        "3",
    ]


async def test_the_second_run_needs_no_upstream(tmp_path: Path) -> None:
    requests = [raw_chat_request("a"), raw_chat_request("b"), raw_chat_request("a")]
    async with upstream(_numbered_response) as provider:
        async with proxy("auto", tmp_path, provider.url) as server:
            first = [(await send_request(server.url, request)).body for request in requests]
        request_count = len(provider.requests)
    async with proxy("auto", tmp_path, provider.url, pace=INSTANT) as server:
        second = [(await send_request(server.url, request)).body for request in requests]
    assert request_count == 3
    assert first == second == _live_bodies(1, 2, 3)


async def test_what_this_run_recorded_is_not_played_in_this_run(tmp_path: Path) -> None:
    async with upstream(_numbered_response) as provider:
        async with proxy("auto", tmp_path, provider.url) as server:
            received = [(await send_request(server.url, raw_chat_request())).body for _ in range(2)]
    assert received == _live_bodies(1, 2)


async def test_a_named_session_goes_on_behind_the_takes_that_it_borrows(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("borrowed"))
    scoped = raw_chat_request(path="/@mine/v1/chat/completions")
    async with upstream(_numbered_response) as provider:
        async with proxy("auto", tmp_path, provider.url, pace=INSTANT) as server:
            first = [(await send_request(server.url, scoped)).body for _ in range(2)]
    async with proxy("replay", tmp_path, pace=INSTANT) as server:
        second = [(await send_request(server.url, scoped)).body for _ in range(2)]
    assert first == second == [*response_bodies([text_response("borrowed")]), *_live_bodies(1)]
    assert [path.name for path in (tmp_path / "cassettes").glob("@mine/*/*/*-2.jsonl")]


async def test_a_partial_take_is_not_played_and_never_overwritten(tmp_path: Path) -> None:
    async with upstream(_truncated_response, _numbered_response) as provider:
        for _ in range(2):
            async with proxy("auto", tmp_path, provider.url) as server:
                await send_request(server.url, raw_chat_request())
    async with proxy("auto", tmp_path, pace=INSTANT) as server:
        third = await send_request(server.url, raw_chat_request())
    assert third.body == _live_bodies(2)[0]
    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == [
        chat_event("half"),
        *_live_bodies(2),
    ]


@pytest.mark.parametrize(
    ("on_miss", "status", "request_count", "cassette_count"),
    [("record", 200, 1, 2), ("passthrough", 200, 1, 1), ("fail", 424, 0, 1)],
)
async def test_on_miss_decides_what_happens_to_what_is_not_on_disk(
    tmp_path: Path, on_miss: OnMiss, status: int, request_count: int, cassette_count: int
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("on disk"))
    async with upstream(_numbered_response) as provider:
        async with proxy("auto", tmp_path, provider.url, pace=INSTANT, on_miss=on_miss) as server:
            hit = await send_request(server.url, raw_chat_request())
            missed = await send_request(server.url, raw_chat_request("missing"))
            misses = len(server.journal.misses)
    assert hit.body == response_bodies([text_response("on disk")])[0]
    assert missed.status == status
    assert len(provider.requests) == request_count
    assert len(load_cassettes(tmp_path)) == cassette_count
    assert misses == (status == 424)


async def test_nothing_is_live_where_all_is_on_disk(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"), text_response("two"))
    async with upstream(chunked([DONE_EVENT])) as provider:
        async with proxy("auto", tmp_path, provider.url, pace=INSTANT) as server:
            for _ in range(2):
                await send_request(server.url, raw_chat_request())
    assert provider.connections == 0


async def test_again_replay_plays_what_this_run_has_recorded(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("on disk"))
    reset = build_http_request("/_proxy/sessions/default/reset", b"")
    async with upstream(_numbered_response) as provider:
        async with proxy("auto", tmp_path, provider.url, pace=INSTANT, again="replay") as server:
            before = [(await send_request(server.url, raw_chat_request())).body for _ in range(4)]
            await send_request(server.url, reset)
            after = [(await send_request(server.url, raw_chat_request())).body for _ in range(3)]
            counts = server.journal.counts
    on_disk = response_bodies([text_response("on disk")])
    assert before == [*on_disk, *_live_bodies(1, 1, 1)]
    assert after == [*on_disk, *_live_bodies(1, 1)]
    assert (len(provider.requests), counts.recorded, counts.replayed) == (1, 1, 6)
    assert len(load_cassettes(tmp_path)) == 2


async def test_again_replay_keeps_sessions_and_keys_apart(tmp_path: Path) -> None:
    requests = [
        raw_chat_request(),
        raw_chat_request("other"),
        raw_chat_request(path="/@mine/v1/chat/completions"),
    ]
    async with upstream(_numbered_response) as provider:
        async with proxy("auto", tmp_path, provider.url, pace=INSTANT, again="replay") as server:
            received = [(await send_request(server.url, each)).body for each in requests * 2]
    assert received == _live_bodies(1, 2, 3, 1, 2, 3)


async def test_again_replay_plays_no_recording_that_is_incomplete_or_an_error(
    tmp_path: Path,
) -> None:
    scripts = (
        _truncated_response,
        fixed_length(b'{"error": {"message": "busy"}}', status="503 Service Unavailable"),
        chunked([b'data: {"error": {"message": "busy"}}\n\n']),
        _numbered_response,
    )
    async with upstream(*scripts) as provider:
        async with proxy("auto", tmp_path, provider.url, pace=INSTANT, again="replay") as server:
            received = [(await send_request(server.url, raw_chat_request())).body for _ in range(6)]
    assert received[3:] == _live_bodies(4, 4, 4)
    assert len(provider.requests) == 4


@pytest.mark.parametrize(
    ("ending_wait_s", "response_number"), [(20.0, 1), (0.0, 2)], ids=["waits", "goes live"]
)
async def test_again_replay_waits_a_moment_for_the_end_of_a_recording(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending_wait_s: float,
    response_number: int,
) -> None:
    monkeypatch.setattr(recorder, "_ENDING_WAIT_S", ending_wait_s)
    may_end = asyncio.Event()

    async def ends_late(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(chat_event(f"live {connection.number}"))
        await connection.chunk(DONE_EVENT)
        await may_end.wait()
        await connection.finish()

    async with upstream(ends_late) as provider:
        async with (
            proxy("auto", tmp_path, provider.url, pace=INSTANT, again="replay") as server,
            open_line(server.url) as first_client,
        ):
            await first_client.send(raw_chat_request("hi", "Host: HOST"))
            await first_client.reader.readuntil(DONE_EVENT)
            second = asyncio.create_task(send_request(server.url, raw_chat_request()))
            await wait_until(lambda: server.journal.counts.requests == 2)
            await wait_until(lambda: len(provider.requests) == response_number)
            may_end.set()
            response = await second
    assert response.body == _live_bodies(response_number)[0]
    assert len(provider.requests) == response_number
