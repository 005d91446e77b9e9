"""What a recording promises beyond its bytes: counts, order, patience, and little memory."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from in_process_proxy import cassettes, proxy
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending, Outcome, Read
from llm_proxy.outcome import outcome_of
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import backlog, spooled_recording, spooling
from llm_proxy.shell.recording.cassette_filer import CassetteFiler
from llm_proxy.shell.recording.recorder import RecorderEvents, SpoolRecorder
from llm_proxy.take_numbers import LogicalRequest, RequestCounter
from raw_http import ask, post
from spool_files import PIECES, body, left, opening
from stored_cassettes import DONE, STREAM, call, chat, event
from stub_upstream import Connection, Script, chunked, upstream
from waiting import until

SECRET: Final = "sk-0123456789abcdef"
ECHO: Final = event(SECRET)
APART: Final = 0.015
"""Seconds between pieces, so that each is a read of its own."""
LARGE: Final = 200_000
"""Bytes of a request that the spooling thread writes down."""


# --- how many secrets were replaced -------------------------------------------------------------


def _echo(headers: list[str], pieces: list[bytes]) -> Script:
    """An upstream that says what it was told in confidence."""

    async def script(connection: Connection) -> None:
        await connection.begin(*headers)
        for piece in pieces:
            await asyncio.sleep(APART)
            await connection.chunk(piece)
        await connection.finish()

    return script


@pytest.mark.parametrize(
    ("headers", "pieces", "count"),
    [
        pytest.param([], [event("hi"), DONE], 0, id="none"),
        pytest.param([f"ETag: {SECRET}"], [DONE], 1, id="in the head"),
        pytest.param(
            [f"X-RateLimit-Key: {SECRET},{SECRET}", f"ETag: {SECRET}"], [DONE], 3,
            id="three times in the head",
        ),
        pytest.param([], [ECHO, event("hi"), ECHO + ECHO, DONE], 3, id="in the body"),
        pytest.param([], [ECHO[:50], ECHO[50:], DONE], 1, id="where a read ends"),
        pytest.param([], [event("hi") + SECRET[:-1].encode()], 0, id="all but one"),
        pytest.param([], [event("hi"), SECRET.encode()], 1, id="as the last bytes"),
        pytest.param([f"ETag: {SECRET}"], [ECHO, ECHO, DONE], 3, id="in head and body"),
    ],
)  # fmt: skip
async def test_the_last_line_says_how_many_secrets_were_replaced(
    tmp_path: Path, headers: list[str], pieces: list[bytes], count: int
) -> None:
    async with upstream(_echo(headers, pieces)) as live:
        async with proxy("record", tmp_path, live.url) as it:
            raw = await ask(it.url, chat("hi", f"Authorization: Bearer {SECRET}"))
    assert raw.body == b"".join(pieces)  # the client gets what was sent
    [cassette] = cassettes(tmp_path)
    assert cassette.end.redacted == count
    content = Path(cassette.file).read_text()
    assert content.count("[redacted]") == count
    assert SECRET not in content


# --- a slow disk is not a silent upstream -------------------------------------------------------


async def test_a_disk_that_hangs_beyond_the_idle_limit_makes_no_ending_stalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = 0.4
    monkeypatch.setattr(spooled_recording, "SMALL", -1)  # all of it goes to the thread
    monkeypatch.setattr(backlog, "LARGEST", 1)
    monkeypatch.setattr(backlog, "PATIENCE", 60.0)
    append, works = spooling.SpoolFile.append, threading.Event()

    def hang(file: spooling.SpoolFile, data: bytes) -> None:
        assert works.wait(60)
        append(file, data)

    async def script(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(event("held up"))
        await asyncio.sleep(idle * 2)
        works.set()
        await asyncio.sleep(idle / 2)  # the limit begins anew
        await connection.chunk(DONE)
        await connection.finish()

    monkeypatch.setattr(spooling.SpoolFile, "append", hang)
    async with upstream(script) as live:
        async with proxy("record", tmp_path, live.url, idle_timeout=idle) as it:
            raw = await ask(it.url, chat())
            works.set()
    assert (raw.body, raw.how) == (event("held up") + DONE, "clean")
    assert it.journal.failures == []
    [cassette] = cassettes(tmp_path)
    assert (cassette.end.ending, cassette.body) == (Ending.CLEAN, raw.body)


# --- one at a time in a library -----------------------------------------------------------------


class Door:
    """Where cassettes get their names: who goes in waits a while for another to go in too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.crowded = threading.Event()
        self._ahead = threading.Barrier(2)
        self._inside = 0
        self._replace = os.replace
        monkeypatch.setattr(f"{CassetteFiler.__module__}.outcome_of", self._before)
        monkeypatch.setattr(os, "replace", self._within)

    def _before(self, cassette: Cassette) -> Outcome:
        """What is done last before a cassette's number is looked for."""
        self._ahead.wait(20)
        return outcome_of(cassette)

    def _within(self, source: Path, target: Path) -> None:
        self._inside += 1
        if self._inside > 1:
            self.crowded.set()
        self.crowded.wait(0.3)
        self._replace(source, target)
        self._inside -= 1


def test_two_that_file_in_one_library_do_so_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(monkeypatch)

    def file(number: int) -> None:
        path = left(tmp_path, opening(tmp_path) + body(event(str(number))), f"1-{number}")
        CassetteFiler(Library(tmp_path / "cassettes"), renew=False).file_spool(path)

    (tmp_path / "spool").mkdir()
    threads = [threading.Thread(target=file, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not door.crowded.is_set()
    assert sorted(cassette.body for cassette in cassettes(tmp_path)) == [event("1"), event("2")]


@pytest.mark.parametrize(
    ("content_type", "is_small"),
    [("text/event-stream", True), ("application/vnd.amazon.eventstream", False)],
)
async def test_many_frames_at_once_are_looked_into_where_they_hold_up_nobody(
    tmp_path: Path, content_type: str, is_small: bool
) -> None:
    """Each of them is looked into for secrets."""
    nobody = RecorderEvents(on_filed=lambda *_: None, on_failed=lambda *_: None)
    recorder = SpoolRecorder(
        Library(tmp_path / "cassettes"), tmp_path / "spool", nobody, renew=True
    )
    recording = recorder.start(call(chat("x")))
    recording.record_head(1.0, replace(STREAM, headers=(("content-type", content_type),)))
    recording.record_read(Read(2.0, b"x" * 20_000))
    assert recording.take_pending().is_small is is_small
    recording.record_read(Read(3.0, b"x" * 10_000))
    assert recording.take_pending().is_small
    await recorder.close()


# --- memory -------------------------------------------------------------------------------------


async def test_a_request_is_not_kept_in_memory_for_the_life_of_its_stream(tmp_path: Path) -> None:
    size = 4_000_000
    told: list[str] = []
    events = RecorderEvents(
        on_filed=lambda what, _: told.append(what), on_failed=lambda _, why: told.append(why)
    )
    spools = tmp_path / "spool"
    recorder = SpoolRecorder(Library(tmp_path / "cassettes"), spools, events, renew=True)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        recording = recorder.start(call(chat("x" * size)))
        held = tracemalloc.get_traced_memory()[0] - before
        recording.record_head(1.0, STREAM)
        recording.record_read(Read(2.0, PIECES[0]))
        await until(lambda: any(path.read_bytes().count(b"\n") == 5 for path in spools.glob("*")))
        await until(lambda: not recording.in_thread)
        gc.collect()
        left_over = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        recording.finish(3.0, Ending.CLEAN)
        await recorder.close()
    assert left_over < size / 4 < size < held
    assert told == ["POST /v1/chat/completions"]


# --- a session begun again ----------------------------------------------------------------------


class Counting:
    """The numbers that requests get: the first one of a thread hangs, and so does a reset."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.numbers: list[int] = []
        self.hangs, self.go_on = threading.Event(), threading.Event()
        self.resets, self._overtaken = threading.Event(), threading.Event()
        following, reset = RequestCounter.next_ordinal, RequestCounter.reset_session

        def slow_next(
            ordinals: RequestCounter, session: str, key: str, wish: LogicalRequest | None
        ) -> int:
            if threading.current_thread() is not threading.main_thread():
                self.hangs.set()
                assert self.go_on.wait(60)
            self.numbers.append(following(ordinals, session, key, wish))
            if self.resets.is_set():
                self._overtaken.set()
            return self.numbers[-1]

        def slow_reset(ordinals: RequestCounter, session: str) -> None:
            self.resets.set()
            self._overtaken.wait(0.5)
            reset(ordinals, session)

        monkeypatch.setattr(RequestCounter, "next_ordinal", slow_next)
        monkeypatch.setattr(RequestCounter, "reset_session", slow_reset)


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "as soon as it is under way"])
async def test_a_reset_while_a_large_request_is_written_makes_what_follows_take_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, at_once: bool
) -> None:
    counting = Counting(monkeypatch)
    large, small = chat("x" * LARGE), chat("hi")
    async with upstream(chunked([event("hi"), DONE])) as live:
        async with proxy("record", tmp_path, live.url) as it:
            try:
                await ask(it.url, small)
                await until(lambda: len(it.journal.recorded) == 1)
                await ask(it.url, large)
                await until(counting.hangs.is_set)
                done = await ask(it.url, post("/_proxy/sessions/default/reset", b""))
                if at_once:
                    await ask(it.url, small)
            finally:
                counting.go_on.set()
            await until(counting.resets.is_set)
            if not at_once:
                await ask(it.url, small)
            await ask(it.url, large)
    assert done.status < 300
    assert counting.numbers == [1, 1, 1, 1]
    assert len(cassettes(tmp_path)) == 4
