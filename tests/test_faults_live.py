"""Faults on live responses: what the client receives, and that the cassette is unaffected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from case_tables import each_row
from in_process_proxy import load_cassettes, proxy
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.shell.running.settings import ModeName
from raw_http import RawResponse, open_line, send_request
from stored_cassettes import (
    DONE_EVENT,
    chat_event,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from stub_upstream import Connection, Upstream, chunked, upstream
from waiting import wait_until

EVENTS: Final = [chat_event("The"), chat_event(" quick"), chat_event(" föx"), DONE_EVENT]
BODY: Final = b"".join(EVENTS)


class HeldUpstream:
    """An upstream handler that sends one event, and the rest once `release` is set."""

    def __init__(self) -> None:
        self.first_event_sent = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self, connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(EVENTS[0])
        self.first_event_sent.set()
        await self.release.wait()
        for event_bytes in EVENTS[1:]:
            await connection.chunk(event_bytes)
        await connection.finish()


@asynccontextmanager
async def faulted_proxy(
    folder: Path, provider: Upstream, *rules: str, mode: ModeName = "record", **options: Any
) -> AsyncIterator[RunningProxy]:
    """A proxy to `provider` under these rules."""
    settings = {"pace": InstantPace(), "silence": 20.0} | options
    async with proxy(mode, folder, provider.url, faults=parse_rules(rules), **settings) as server:
        yield server


def is_complete_recording(cassette: Cassette) -> bool:
    """Whether the cassette holds the whole body and a clean end."""
    end = cassette.response_end
    return (end.ending, end.sha256) == (Ending.CLEAN, sha256(BODY).hexdigest())


def injected_faults(server: RunningProxy) -> list[tuple[str, str]]:
    """The rule of each injected fault, and why it was skipped (or "")."""
    return [
        (record.rule, record.skipped) for entry in server.journal.entries for record in entry.faults
    ]


@each_row(
    ("rule", "client_ending"),
    [("reset,after=1", "rst"), ("close,after=1", "fin"), ("truncate,after=1", "clean")],
)
async def test_the_client_is_cut_off_at_once_and_the_upstream_is_read_to_its_end(
    tmp_path: Path, rule: str, client_ending: str
) -> None:
    held_upstream, folder = HeldUpstream(), tmp_path / rule
    async with (
        upstream(held_upstream) as provider,
        faulted_proxy(folder, provider, rule) as server,
    ):
        response = await send_request(server.url, raw_chat_request())
        assert not held_upstream.release.is_set()
        held_upstream.release.set()
        await wait_until(lambda: not server.active_stream_count())

    assert (response.ending, response.body) == (client_ending, EVENTS[0])
    [cassette] = load_cassettes(folder)
    assert is_complete_recording(cassette)


async def test_a_client_that_leaves_amid_an_endless_stall_costs_the_recording_nothing(
    tmp_path: Path,
) -> None:
    held_upstream = HeldUpstream()
    async with (
        upstream(held_upstream) as provider,
        faulted_proxy(tmp_path, provider, "stall,after=1") as server,
    ):
        async with open_line(server.url) as client:
            await client.send(raw_chat_request("hi", "Host: HOST"))
            await held_upstream.first_event_sent.wait()
            await client.reader.readuntil(b"The")
        await wait_until(lambda: server.journal.entries[-1].ending == "client_gone")
        held_upstream.release.set()
        await wait_until(lambda: not server.active_stream_count())

    [cassette] = load_cassettes(tmp_path)
    assert is_complete_recording(cassette)
    assert injected_faults(server) == [("stall,after=1", "")]


async def test_a_client_that_leaves_amid_a_pause_closes_the_upstream_as_usual(
    tmp_path: Path,
) -> None:
    held_upstream = HeldUpstream()
    rule = "stall,after=1,for=20s"
    async with (
        upstream(held_upstream) as provider,
        faulted_proxy(tmp_path, provider, rule) as server,
    ):
        async with open_line(server.url) as client:
            await client.send(raw_chat_request("hi", "Host: HOST"))
            await client.reader.readuntil(b"The")
        await wait_until(lambda: not server.active_stream_count())

    [cassette] = load_cassettes(tmp_path)
    assert (cassette.response_end.ending, cassette.response_body) == (Ending.CLIENT_GONE, EVENTS[0])


async def test_a_stopping_proxy_waits_for_streams_that_only_the_recording_reads(
    tmp_path: Path,
) -> None:
    held_upstream = HeldUpstream()
    async with (
        upstream(held_upstream) as provider,
        faulted_proxy(tmp_path, provider, "reset,after=1") as server,
    ):
        await send_request(server.url, raw_chat_request())
        drain = asyncio.create_task(server.drain(asyncio.Event()))
        await asyncio.sleep(0)
        held_upstream.release.set()
        await drain

    [cassette] = load_cassettes(tmp_path)
    assert is_complete_recording(cassette)


async def test_a_proxy_stopped_at_once_records_what_it_has_as_killed(
    tmp_path: Path,
) -> None:
    stop_now = asyncio.Event()
    stop_now.set()
    async with (
        upstream(HeldUpstream()) as provider,
        faulted_proxy(tmp_path, provider, "reset,after=1") as server,
    ):
        await send_request(server.url, raw_chat_request())
        await server.drain(stop_now)

    [cassette] = load_cassettes(tmp_path)
    assert (cassette.response_end.ending, cassette.response_body) == (Ending.KILLED, EVENTS[0])


async def test_a_stall_that_is_under_way_ends_when_the_proxy_is_stopped(tmp_path: Path) -> None:
    held_upstream = HeldUpstream()
    held_upstream.release.set()
    stop_now = asyncio.Event()
    async with (
        upstream(held_upstream) as provider,
        faulted_proxy(tmp_path, provider, "stall,after=1") as server,
    ):
        client = asyncio.create_task(send_request(server.url, raw_chat_request()))
        await wait_until(
            lambda: (
                server.active_mode.upstream is not None
                and held_upstream.first_event_sent.is_set()
                and not server.active_mode.upstream.active_response_count
            )
        )
        stop_now.set()
        await server.drain(stop_now)
        response = await client

    assert (response.ending, response.body) == ("fin", EVENTS[0])
    assert server.journal.entries[-1].ending == "cut"
    [cassette] = load_cassettes(tmp_path)
    assert is_complete_recording(cassette)


def _takes(folder: Path) -> list[tuple[str, bytes]]:
    return [
        (Path(cassette.file).stem[-1], cassette.response_body)
        for cassette in load_cassettes(folder)
    ]


async def _numbered_response(connection: Connection) -> None:
    [body] = response_bodies([text_response(f"live {connection.number}")])
    await chunked([body])(connection)


async def test_a_request_that_was_refused_uses_up_no_take(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("on disk"))
    rules = ("status,code=503,every=2",)
    async with upstream(_numbered_response) as provider:
        async with faulted_proxy(tmp_path, provider, *rules, mode="auto") as server:
            response = [await send_request(server.url, raw_chat_request()) for _ in range(6)]

    on_disk, first, second = (
        response_bodies([text_response(text)])[0] for text in ("on disk", "live 1", "live 2")
    )
    assert [raw.status for raw in response] == [200, 503] * 3
    assert [raw.body for raw in response if raw.status == 200] == [on_disk, first, second]
    assert _takes(tmp_path) == [("1", on_disk), ("2", first), ("3", second)]


async def test_an_answer_that_was_cut_off_is_the_next_take_all_the_same(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("on disk"))
    async with upstream(_numbered_response) as provider:
        async with faulted_proxy(tmp_path, provider, "reset,after=1,nth=2", mode="auto") as server:
            response = [await send_request(server.url, raw_chat_request()) for _ in range(3)]
            await wait_until(lambda: not server.active_stream_count())

    assert [raw.ending for raw in response] == ["clean", "rst", "clean"]
    expected = [
        *response_bodies([text_response("on disk")]),
        *response_bodies([text_response("live 1"), text_response("live 2")]),
    ]
    assert _takes(tmp_path) == [(str(number), body) for number, body in enumerate(expected, 1)]


async def test_rules_work_one_after_the_other_as_an_answer_arrives(tmp_path: Path) -> None:
    rules = ("drop,after=1", "slice,size=9,delay=0ms", "reset,after=2")
    async with upstream(chunked([BODY[:30], BODY[30:]])) as provider:
        async with faulted_proxy(tmp_path, provider, *rules) as server:
            response = await send_request(server.url, raw_chat_request())
            await wait_until(lambda: not server.active_stream_count())

    assert (response.ending, response.body) == ("rst", EVENTS[0] + EVENTS[2])
    assert max(map(len, response.chunks)) <= 9
    [entry] = server.journal.entries
    assert [(record.fault, record.event, record.byte) for record in entry.faults] == [
        ("drop", 1, len(EVENTS[0])),
        ("slice", 0, 0),
        ("reset", 2, len(EVENTS[0] + EVENTS[2])),
    ]
    [cassette] = load_cassettes(tmp_path)
    assert is_complete_recording(cassette)


async def test_a_time_location_is_reached_while_the_upstream_is_silent(tmp_path: Path) -> None:
    held_upstream = HeldUpstream()
    async with (
        upstream(held_upstream) as provider,
        faulted_proxy(tmp_path, provider, "reset,ms=150") as server,
    ):
        started = asyncio.get_running_loop().time()
        response = await send_request(server.url, raw_chat_request())
        elapsed_s = asyncio.get_running_loop().time() - started
        held_upstream.release.set()
        await wait_until(lambda: not server.active_stream_count())

    assert (response.ending, response.body) == ("rst", EVENTS[0])
    assert elapsed_s >= 0.15
    assert injected_faults(server) == [("reset,ms=150", "")]
    [cassette] = load_cassettes(tmp_path)
    assert is_complete_recording(cassette)


async def test_a_time_location_is_reached_before_the_head(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def respond_late(connection: Connection) -> None:
        await release.wait()
        await chunked(EVENTS)(connection)

    async with (
        upstream(respond_late) as provider,
        faulted_proxy(tmp_path, provider, "close,ms=50") as server,
    ):
        response = await send_request(server.url, raw_chat_request())
        release.set()
        await wait_until(lambda: not server.active_stream_count())

    assert (response.status, response.ending, response.body) == (0, "fin", b"")
    [entry] = server.journal.entries
    assert [(record.at_ms, record.event) for record in entry.faults] == [(50, None)]
    [cassette] = load_cassettes(tmp_path)
    assert is_complete_recording(cassette)


async def test_a_pause_delays_the_rest_but_not_the_recording(
    tmp_path: Path,
) -> None:
    async with upstream(chunked(EVENTS)) as provider:
        async with faulted_proxy(tmp_path, provider, "stall,after=1,for=200ms") as server:
            response = await send_request(server.url, raw_chat_request())
    assert (response.ending, response.body) == ("clean", BODY)
    assert response.times_ms[-1] >= 190
    [cassette] = load_cassettes(tmp_path)
    assert is_complete_recording(cassette)
    assert cassette.response_end.at_ms < response.times_ms[-1]


async def test_an_earlier_upstream_failure_is_passed_on_and_the_rule_is_skipped(
    tmp_path: Path,
) -> None:
    async def cut(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(EVENTS[0])
        connection.fin()

    async with (
        upstream(cut) as provider,
        faulted_proxy(tmp_path, provider, "reset,after=3") as server,
    ):
        response = await send_request(server.url, raw_chat_request())
        await wait_until(lambda: not server.active_stream_count())

    assert (response.ending, response.body) == ("fin", EVENTS[0])
    assert injected_faults(server) == [
        ("reset,after=3", "the response was cut off before the fault's location")
    ]
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.ending is Ending.FIN


async def test_a_rule_is_skipped_if_the_upstream_fails(
    tmp_path: Path,
) -> None:
    async def close_without_response(connection: Connection) -> None:
        connection.fin()

    async with (
        upstream(close_without_response) as provider,
        faulted_proxy(tmp_path, provider, "reset,after=1") as server,
    ):
        response: RawResponse = await send_request(server.url, raw_chat_request())

    assert response.status == 502
    assert injected_faults(server) == [
        ("reset,after=1", "the response ended before the fault's location")
    ]
    assert load_cassettes(tmp_path) == []


async def test_a_miss_under_a_rule_is_a_miss(tmp_path: Path) -> None:
    async with proxy("replay", tmp_path, faults=parse_rules(["reset,after=1"])) as server:
        response = await send_request(server.url, raw_chat_request())

    assert response.status == 424
    assert injected_faults(server) == [("reset,after=1", "there was no response")]
