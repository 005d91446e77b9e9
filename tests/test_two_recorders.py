"""Two proxies that record into one folder at once keep each other's takes."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from case_tables import each_row
from in_process_proxy import load_cassettes, proxy
from llm_proxy.cassette_views import cassette_outcome
from raw_http import send_request
from stored_cassettes import (
    chat_event,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from stub_upstream import Connection, chunked, upstream
from waiting import wait_until

DONE = b"data: [DONE]\n\n"


def _response_chunks(text: str) -> list[bytes]:
    return [chat_event(text), DONE]


async def test_the_takes_of_both_are_kept_and_one_warning_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("old"), text_response("old again"))
    async with (
        upstream(chunked(_response_chunks("one"))) as first_upstream,
        upstream(
            chunked(_response_chunks("two")), chunked(_response_chunks("three"))
        ) as second_upstream,
    ):
        async with proxy("record", tmp_path, first_upstream.url) as first_proxy:
            async with proxy("record", tmp_path, second_upstream.url) as second_proxy:
                await send_request(first_proxy.url, raw_chat_request())
                await wait_until(lambda: bool(first_proxy.journal.recorded_files))
                await send_request(second_proxy.url, raw_chat_request())
                await send_request(second_proxy.url, raw_chat_request())

    kept = sorted(cassette.response_body for cassette in load_cassettes(tmp_path))
    assert kept == sorted(b"".join(_response_chunks(text)) for text in ("one", "two", "three"))
    assert all(cassette_outcome(cassette).is_complete for cassette in load_cassettes(tmp_path))
    log_messages = [
        record.message for record in caplog.records if "another process added" in record.message
    ]
    assert len(log_messages) == 1


async def test_a_take_whose_request_came_before_the_other_run_began_is_kept(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("old"))
    has_second_started = asyncio.Event()

    async def slow(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(chat_event("one"))
        await has_second_started.wait()
        await connection.chunk(DONE)
        await connection.finish()

    async with (
        upstream(slow) as first_upstream,
        upstream(chunked(_response_chunks("two"))) as second_upstream,
    ):
        async with proxy("record", tmp_path, first_upstream.url) as first_proxy:
            pending_response = asyncio.ensure_future(
                send_request(first_proxy.url, raw_chat_request())
            )
            await wait_until(lambda: any((tmp_path / "spool").glob("*")))
            async with proxy("record", tmp_path, second_upstream.url) as second_proxy:
                has_second_started.set()
                await pending_response
                await wait_until(lambda: bool(first_proxy.journal.recorded_files))
                await send_request(second_proxy.url, raw_chat_request())
    assert {cassette.response_body for cassette in load_cassettes(tmp_path)} == {
        b"".join(_response_chunks(item)) for item in ("one", "two")
    }


async def test_an_old_take_of_a_clock_that_was_ahead_is_replaced_all_the_same(
    tmp_path: Path,
) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("old"))
    path.write_text(path.read_text().replace('"recorded":"2026', '"recorded":"2031'))
    async with upstream(chunked(_response_chunks("new"))) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            await send_request(recording.url, raw_chat_request())
    [kept] = load_cassettes(tmp_path)
    assert kept.response_body == b"".join(_response_chunks("new"))


@each_row("halves", [["deleted"], ["half", "deleted"]], ids=["the only one", "the last one"])
async def test_a_parked_take_that_was_deleted_by_hand_holds_up_nothing(
    tmp_path: Path, halves: list[str]
) -> None:
    folder = tmp_path / str(len(halves))
    write_cassettes(folder, raw_chat_request(), text_response("old"))
    scripts = [chunked([chat_event(text)]) for text in halves]
    async with upstream(*scripts, chunked(_response_chunks("new"))) as live:
        async with proxy("record", folder, live.url) as recording:
            sent: list[str] = []
            for text in halves:
                await send_request(recording.url, raw_chat_request())
                sent.append(text)
                await wait_until(lambda: len(recording.journal.recorded_files) == len(sent))
            Path(recording.journal.recorded_files[-1]).unlink()
            await send_request(recording.url, raw_chat_request())
        assert recording.journal.recording_failures == []
    assert [cassette.response_body for cassette in load_cassettes(folder)] == [
        *map(chat_event, halves[:-1]),
        b"".join(_response_chunks("new")),
    ]


async def test_a_take_that_could_not_be_stored_leaves_the_old_ones_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cassettes(
        tmp_path,
        raw_chat_request(),
        text_response("old 1"),
        text_response("old 2"),
        text_response("old 3"),
    )
    original_replace, failed = os.replace, list[object]()

    def fail_once(source: str, target: str) -> None:
        if not failed and "cassettes" in str(target):
            failed.append(target)
            raise OSError(errno.ENOSPC, "No space left on device")
        original_replace(source, target)

    monkeypatch.setattr(os, "replace", fail_once)
    async with upstream(
        chunked(_response_chunks("lost")), chunked(_response_chunks("new"))
    ) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            await send_request(recording.url, raw_chat_request())
            await wait_until(lambda: bool(recording.journal.recording_failures))
            assert len(load_cassettes(tmp_path)) == 3
            await send_request(recording.url, raw_chat_request())
    [kept] = load_cassettes(tmp_path)
    assert kept.response_body == b"".join(_response_chunks("new"))


async def test_a_later_run_replaces_the_take(tmp_path: Path) -> None:
    [old] = write_cassettes(tmp_path, raw_chat_request(), text_response("old"))
    for text in ("one", "two"):
        async with upstream(chunked(_response_chunks(text))) as live:
            async with proxy("record", tmp_path, live.url) as recording:
                await send_request(recording.url, raw_chat_request())
    [kept] = load_cassettes(tmp_path)
    assert kept.response_body == response_bodies([text_response("two")])[0]
    assert kept.file == str(old)
