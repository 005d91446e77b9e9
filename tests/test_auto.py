"""`auto`: the nth request plays take n if it was there at the start, and becomes it otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from in_process_proxy import cassettes, proxy
from llm_proxy.pacing import InstantPace
from llm_proxy.take_numbers import OnMiss
from raw_http import ask
from stored_cassettes import DONE, bodies, chat, event, put, says
from stub_upstream import Connection, chunked, upstream

INSTANT = InstantPace()


async def _numbered(connection: Connection) -> None:
    """Each request of the upstream gets an answer of its own."""
    [body] = bodies([says(f"live {connection.number}")])
    await chunked([body])(connection)


def _live(*numbers: int) -> list[bytes]:
    return bodies([says(f"live {number}") for number in numbers])


async def test_what_is_on_disk_is_played_and_what_is_not_becomes_the_next_take(
    tmp_path: Path,
) -> None:
    put(tmp_path, chat(), says("on disk"))
    async with upstream(_numbered) as live:
        async with proxy("auto", tmp_path, live.url, pace=INSTANT) as it:
            got = [(await ask(it.url, chat())).body for _ in range(3)]
    assert got == [*bodies([says("on disk")]), *_live(1, 2)]
    assert [cassette.body for cassette in cassettes(tmp_path)] == got
    assert [Path(cassette.file).stem[-1] for cassette in cassettes(tmp_path)] == ["1", "2", "3"]


async def test_the_second_run_needs_no_upstream(tmp_path: Path) -> None:
    requests = [chat("a"), chat("b"), chat("a")]
    async with upstream(_numbered) as live:
        async with proxy("auto", tmp_path, live.url) as it:
            first = [(await ask(it.url, request)).body for request in requests]
        asked = len(live.requests)
    async with proxy("auto", tmp_path, live.url, pace=INSTANT) as it:
        second = [(await ask(it.url, request)).body for request in requests]
    assert asked == 3
    assert first == second == _live(1, 2, 3)


async def test_what_this_run_recorded_is_not_played_in_this_run(tmp_path: Path) -> None:
    async with upstream(_numbered) as live:
        async with proxy("auto", tmp_path, live.url) as it:
            got = [(await ask(it.url, chat())).body for _ in range(2)]
    assert got == _live(1, 2)


async def test_a_named_session_goes_on_behind_the_takes_that_it_borrows(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("borrowed"))
    scoped = chat(path="/@mine/v1/chat/completions")
    async with upstream(_numbered) as live:
        async with proxy("auto", tmp_path, live.url, pace=INSTANT) as it:
            first = [(await ask(it.url, scoped)).body for _ in range(2)]
    async with proxy("replay", tmp_path, pace=INSTANT) as it:
        second = [(await ask(it.url, scoped)).body for _ in range(2)]
    assert first == second == [*bodies([says("borrowed")]), *_live(1)]
    assert [path.name for path in (tmp_path / "cassettes").glob("@mine/*/*/*-2.jsonl")]


async def test_a_partial_take_is_not_played_and_never_overwritten(tmp_path: Path) -> None:
    async def cut(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(event("half"))
        connection.fin()

    async with upstream(cut, _numbered) as live:
        for _ in range(2):
            async with proxy("auto", tmp_path, live.url) as it:
                await ask(it.url, chat())
    async with proxy("auto", tmp_path, pace=INSTANT) as it:
        third = await ask(it.url, chat())
    assert third.body == _live(2)[0]
    assert [cassette.body for cassette in cassettes(tmp_path)] == [event("half"), *_live(2)]


@pytest.mark.parametrize(
    ("on_miss", "status", "asked", "kept"),
    [("record", 200, 1, 2), ("passthrough", 200, 1, 1), ("fail", 424, 0, 1)],
)
async def test_on_miss_decides_what_happens_to_what_is_not_on_disk(
    tmp_path: Path, on_miss: OnMiss, status: int, asked: int, kept: int
) -> None:
    put(tmp_path, chat(), says("on disk"))
    async with upstream(_numbered) as live:
        async with proxy("auto", tmp_path, live.url, pace=INSTANT, on_miss=on_miss) as it:
            hit = await ask(it.url, chat())
            missed = await ask(it.url, chat("missing"))
            misses = len(it.journal.misses)
    assert hit.body == bodies([says("on disk")])[0]
    assert missed.status == status
    assert len(live.requests) == asked
    assert len(cassettes(tmp_path)) == kept
    assert misses == (status == 424)


async def test_nothing_is_live_where_all_is_on_disk(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("one"), says("two"))
    async with upstream(chunked([DONE])) as live:
        async with proxy("auto", tmp_path, live.url, pace=INSTANT) as it:
            for _ in range(2):
                await ask(it.url, chat())
    assert live.connections == 0
