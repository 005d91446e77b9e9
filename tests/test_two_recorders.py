"""Two recording proxies in one folder, at the same time: neither destroys what the other keeps."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from in_process_proxy import cassettes, proxy
from llm_proxy.outcome import outcome_of
from raw_http import ask
from stored_cassettes import bodies, chat, event, put, says
from stub_upstream import Connection, chunked, upstream
from waiting import until

DONE = b"data: [DONE]\n\n"


def _says(text: str) -> list[bytes]:
    return [event(text), DONE]


async def test_the_takes_of_both_are_kept_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, chat(), says("old"), says("old again"))
    async with (
        upstream(chunked(_says("one"))) as first,
        upstream(chunked(_says("two")), chunked(_says("three"))) as second,
    ):
        async with proxy("record", tmp_path, first.url) as one:
            async with proxy("record", tmp_path, second.url) as two:
                await ask(one.url, chat())
                await until(lambda: bool(one.journal.recorded))
                await ask(two.url, chat())
                await ask(two.url, chat())

    kept = sorted(cassette.body for cassette in cassettes(tmp_path))
    assert kept == sorted(b"".join(_says(text)) for text in ("one", "two", "three"))
    assert all(outcome_of(cassette).complete for cassette in cassettes(tmp_path))
    said = [
        record.message
        for record in caplog.records
        if "put there by another process" in record.message
    ]
    assert len(said) == 1


async def test_a_take_whose_request_came_before_the_other_run_began_is_kept(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("old"))
    begun = asyncio.Event()

    async def slow(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(event("one"))
        await begun.wait()
        await connection.chunk(DONE)
        await connection.finish()

    async with upstream(slow) as first, upstream(chunked(_says("two"))) as second:
        async with proxy("record", tmp_path, first.url) as one:
            asking = asyncio.ensure_future(ask(one.url, chat()))
            await until(lambda: any((tmp_path / "spool").glob("*")))
            async with proxy("record", tmp_path, second.url) as two:
                begun.set()
                await asking
                await until(lambda: bool(one.journal.recorded))
                await ask(two.url, chat())
    assert {cassette.body for cassette in cassettes(tmp_path)} == {
        b"".join(_says(item)) for item in ("one", "two")
    }


async def test_an_old_take_of_a_clock_that_was_ahead_is_replaced_all_the_same(
    tmp_path: Path,
) -> None:
    [path] = put(tmp_path, chat(), says("old"))
    path.write_text(path.read_text().replace('"recorded":"2026', '"recorded":"2031'))
    async with upstream(chunked(_says("new"))) as live:
        async with proxy("record", tmp_path, live.url) as it:
            await ask(it.url, chat())
    [kept] = cassettes(tmp_path)
    assert kept.body == b"".join(_says("new"))


async def test_a_parked_take_that_was_deleted_by_hand_holds_up_nothing(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("old"))
    async with upstream(chunked([event("half")]), chunked(_says("new"))) as live:
        async with proxy("record", tmp_path, live.url) as it:
            await ask(it.url, chat())
            await until(lambda: bool(it.journal.recorded))
            Path(it.journal.recorded[0].file).unlink()
            await ask(it.url, chat())
        assert it.journal.failures == []
    [kept] = cassettes(tmp_path)
    assert kept.body == b"".join(_says("new"))


async def test_a_take_that_could_not_be_put_down_leaves_the_old_ones_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, chat(), says("old 1"), says("old 2"), says("old 3"))
    replace, failed = os.replace, list[object]()

    def full(source: str, target: str) -> None:
        if not failed and "cassettes" in str(target):
            failed.append(target)
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    async with upstream(chunked(_says("lost")), chunked(_says("new"))) as live:
        async with proxy("record", tmp_path, live.url) as it:
            await ask(it.url, chat())
            await until(lambda: bool(it.journal.failures))
            assert len(cassettes(tmp_path)) == 3
            await ask(it.url, chat())
    [kept] = cassettes(tmp_path)
    assert kept.body == b"".join(_says("new"))


async def test_one_after_the_other_replaces_as_ever(tmp_path: Path) -> None:
    [old] = put(tmp_path, chat(), says("old"))
    for text in ("one", "two"):
        async with upstream(chunked(_says(text))) as live:
            async with proxy("record", tmp_path, live.url) as it:
                await ask(it.url, chat())
    [kept] = cassettes(tmp_path)
    assert kept.body == bodies([says("two")])[0]
    assert kept.file == str(old)
