"""Faults on live answers: what the client meets, and the truth that the cassette keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from in_process_proxy import cassettes, proxy
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.shell.running.settings import SimulationOptions
from llm_proxy.shell.running.sources import ModeName
from raw_http import Raw, ask, line
from stored_cassettes import DONE, bodies, chat, event, put, says
from stub_upstream import Connection, Upstream, chunked, upstream
from waiting import until

EVENTS: Final = [event("The"), event(" quick"), event(" föx"), DONE]
BODY: Final = b"".join(EVENTS)


class Held:
    """A provider that sends what follows its first event when it is told to."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(EVENTS[0])
        self.begun.set()
        await self.go_on.wait()
        for it in EVENTS[1:]:
            await connection.chunk(it)
        await connection.finish()


@asynccontextmanager
async def faulted(
    folder: Path, provider: Upstream, *rules: str, mode: ModeName = "record", **about: Any
) -> AsyncIterator[RunningProxy]:
    """A live proxy under these rules."""
    how = {"pace": InstantPace(), "simulating": SimulationOptions(silence=20)} | about
    async with proxy(mode, folder, provider.url, faults=parse_rules(rules), **how) as it:
        yield it


def is_true(cassette: Cassette) -> bool:
    """Whether it has all that the provider said, and how it ended."""
    end = cassette.end
    return (end.ending, end.sha256) == (Ending.CLEAN, sha256(BODY).hexdigest())


def faults(it: RunningProxy) -> list[tuple[str, str]]:
    """What was injected into each answer, and why not."""
    return [(its.rule, its.skipped) for entry in it.journal.entries for its in entry.faults]


@pytest.mark.parametrize("rule", ["reset,after=1", "close,after=1", "truncate,after=1"])
async def test_the_client_is_cut_off_at_once_and_the_provider_is_heard_to_its_end(
    tmp_path: Path, rule: str
) -> None:
    held = Held()
    async with upstream(held) as provider, faulted(tmp_path, provider, rule) as it:
        got = await ask(it.url, chat())
        assert not held.go_on.is_set()
        held.go_on.set()
        await until(lambda: not it.active_streams())

    ends = {"reset,after=1": "rst", "close,after=1": "fin", "truncate,after=1": "clean"}
    assert (got.how, got.body) == (ends[rule], EVENTS[0])
    [cassette] = cassettes(tmp_path)
    assert is_true(cassette)


async def test_a_client_that_leaves_amid_an_endless_stall_costs_the_recording_nothing(
    tmp_path: Path,
) -> None:
    held = Held()
    async with upstream(held) as provider, faulted(tmp_path, provider, "stall,after=1") as it:
        async with line(it.url) as client:
            await client.send(chat("hi", "Host: HOST"))
            await held.begun.wait()
            await client.reader.readuntil(b"The")
        await until(lambda: it.journal.entries[-1].ending == "client_gone")
        held.go_on.set()
        await until(lambda: not it.active_streams())

    [cassette] = cassettes(tmp_path)
    assert is_true(cassette)
    assert faults(it) == [("stall,after=1", "")]


async def test_a_client_that_leaves_amid_a_pause_lets_the_provider_go_as_ever(
    tmp_path: Path,
) -> None:
    held = Held()
    rule = "stall,after=1,for=20s"
    async with upstream(held) as provider, faulted(tmp_path, provider, rule) as it:
        async with line(it.url) as client:
            await client.send(chat("hi", "Host: HOST"))
            await client.reader.readuntil(b"The")
        await until(lambda: not it.active_streams())

    [cassette] = cassettes(tmp_path)
    assert (cassette.end.ending, cassette.body) == (Ending.CLIENT_GONE, EVENTS[0])


async def test_a_proxy_that_stops_waits_for_what_only_the_recording_hears(tmp_path: Path) -> None:
    held = Held()
    async with upstream(held) as provider, faulted(tmp_path, provider, "reset,after=1") as it:
        await ask(it.url, chat())
        drain = asyncio.create_task(it.drain(asyncio.Event()))
        await asyncio.sleep(0)
        held.go_on.set()
        await drain

    [cassette] = cassettes(tmp_path)
    assert is_true(cassette)


async def test_a_proxy_in_a_hurry_keeps_what_it_has_and_says_that_it_was_stopped(
    tmp_path: Path,
) -> None:
    hurry = asyncio.Event()
    hurry.set()
    async with upstream(Held()) as provider, faulted(tmp_path, provider, "reset,after=1") as it:
        await ask(it.url, chat())
        await it.drain(hurry)

    [cassette] = cassettes(tmp_path)
    assert (cassette.end.ending, cassette.body) == (Ending.KILLED, EVENTS[0])


async def test_a_stall_that_is_under_way_ends_when_the_proxy_is_stopped(tmp_path: Path) -> None:
    held = Held()
    held.go_on.set()
    hurry = asyncio.Event()
    async with upstream(held) as provider, faulted(tmp_path, provider, "stall,after=1") as it:
        client = asyncio.create_task(ask(it.url, chat()))
        await until(
            lambda: it.upstream is not None and held.begun.is_set() and not it.upstream.active_count
        )
        hurry.set()
        await it.drain(hurry)
        got = await client

    assert (got.how, got.body) == ("fin", EVENTS[0])
    assert it.journal.entries[-1].ending == "cut"
    [cassette] = cassettes(tmp_path)
    assert is_true(cassette)


def _numbers(folder: Path) -> list[tuple[str, bytes]]:
    return [(Path(cassette.file).stem[-1], cassette.body) for cassette in cassettes(folder)]


async def _numbered(connection: Connection) -> None:
    [body] = bodies([says(f"live {connection.number}")])
    await chunked([body])(connection)


async def test_a_request_that_was_refused_uses_up_no_take(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("on disk"))
    rules = ("status,code=503,every=2",)
    async with upstream(_numbered) as provider:
        async with faulted(tmp_path, provider, *rules, mode="auto") as it:
            got = [await ask(it.url, chat()) for _ in range(6)]

    on_disk, first, second = (bodies([says(text)])[0] for text in ("on disk", "live 1", "live 2"))
    assert [raw.status for raw in got] == [200, 503] * 3
    assert [raw.body for raw in got if raw.status == 200] == [on_disk, first, second]
    assert _numbers(tmp_path) == [("1", on_disk), ("2", first), ("3", second)]


async def test_an_answer_that_was_cut_off_is_the_next_take_all_the_same(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("on disk"))
    async with upstream(_numbered) as provider:
        async with faulted(tmp_path, provider, "reset,after=1,nth=2", mode="auto") as it:
            got = [await ask(it.url, chat()) for _ in range(3)]
            await until(lambda: not it.active_streams())

    assert [raw.how for raw in got] == ["clean", "rst", "clean"]
    wanted = [*bodies([says("on disk")]), *bodies([says("live 1"), says("live 2")])]
    assert _numbers(tmp_path) == [(str(n), body) for n, body in enumerate(wanted, 1)]


async def test_rules_work_one_after_the_other_as_an_answer_arrives(tmp_path: Path) -> None:
    rules = ("drop,after=1", "slice,size=9,delay=0ms", "reset,after=2")
    async with upstream(chunked([BODY[:30], BODY[30:]])) as provider:
        async with faulted(tmp_path, provider, *rules) as it:
            got = await ask(it.url, chat())
            await until(lambda: not it.active_streams())

    assert (got.how, got.body) == ("rst", EVENTS[0] + EVENTS[2])
    assert max(map(len, got.chunks)) <= 9
    [entry] = it.journal.entries
    assert [(its.fault, its.event, its.byte) for its in entry.faults] == [
        ("drop", 1, len(EVENTS[0])),
        ("slice", 0, 0),
        ("reset", 2, len(EVENTS[0] + EVENTS[2])),
    ]
    [cassette] = cassettes(tmp_path)
    assert is_true(cassette)


async def test_a_moment_comes_also_where_the_provider_is_silent(tmp_path: Path) -> None:
    held = Held()
    async with upstream(held) as provider, faulted(tmp_path, provider, "reset,ms=150") as it:
        began = asyncio.get_running_loop().time()
        got = await ask(it.url, chat())
        took = asyncio.get_running_loop().time() - began
        held.go_on.set()
        await until(lambda: not it.active_streams())

    assert (got.how, got.body) == ("rst", EVENTS[0])
    assert took >= 0.15
    assert faults(it) == [("reset,ms=150", "")]
    [cassette] = cassettes(tmp_path)
    assert is_true(cassette)


async def test_a_moment_comes_also_before_the_head(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def late(connection: Connection) -> None:
        await go_on.wait()
        await chunked(EVENTS)(connection)

    async with upstream(late) as provider, faulted(tmp_path, provider, "close,ms=50") as it:
        got = await ask(it.url, chat())
        go_on.set()
        await until(lambda: not it.active_streams())

    assert (got.status, got.how, got.body) == (0, "fin", b"")
    [entry] = it.journal.entries
    assert [(its.at_ms, its.event) for its in entry.faults] == [(50, None)]
    [cassette] = cassettes(tmp_path)
    assert is_true(cassette)


async def test_a_pause_delays_what_comes_behind_it_and_holds_up_no_recording(
    tmp_path: Path,
) -> None:
    async with upstream(chunked(EVENTS)) as provider:
        async with faulted(tmp_path, provider, "stall,after=1,for=200ms") as it:
            got = await ask(it.url, chat())
    assert (got.how, got.body) == ("clean", BODY)
    assert got.times[-1] >= 190
    [cassette] = cassettes(tmp_path)
    assert is_true(cassette)
    assert cassette.end.at_ms < got.times[-1]


async def test_where_the_provider_fails_first_that_is_passed_on_and_the_rule_says_so(
    tmp_path: Path,
) -> None:
    async def cut(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(EVENTS[0])
        connection.fin()

    async with upstream(cut) as provider, faulted(tmp_path, provider, "reset,after=3") as it:
        got = await ask(it.url, chat())
        await until(lambda: not it.active_streams())

    assert (got.how, got.body) == ("fin", EVENTS[0])
    assert faults(it) == [("reset,after=3", "the answer broke off before it")]
    [cassette] = cassettes(tmp_path)
    assert cassette.end.ending is Ending.FIN


async def test_where_there_is_no_provider_the_rule_says_that_there_was_no_answer(
    tmp_path: Path,
) -> None:
    async def none(connection: Connection) -> None:
        connection.fin()

    async with upstream(none) as provider, faulted(tmp_path, provider, "reset,after=1") as it:
        got: Raw = await ask(it.url, chat())

    assert got.status == 502
    assert faults(it) == [("reset,after=1", "the answer was over before it")]
    assert cassettes(tmp_path) == []


async def test_a_miss_under_a_rule_is_a_miss(tmp_path: Path) -> None:
    async with proxy("replay", tmp_path, faults=parse_rules(["reset,after=1"])) as it:
        got = await ask(it.url, chat())

    assert got.status == 424
    assert faults(it) == [("reset,after=1", "there was no answer")]
