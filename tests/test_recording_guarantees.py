"""Recording: redaction counts, ordering, timeouts on slow disks, and memory use."""

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

from in_process_proxy import load_cassettes, proxy
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending, Outcome, Read
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import recorder as recorder_module
from llm_proxy.shell.recording import spooling
from llm_proxy.shell.recording.cassette_filer import CassetteFiler
from llm_proxy.shell.recording.recorder import RecorderEvents, SpoolRecorder
from llm_proxy.take_numbers import LogicalRequest, RequestCounter
from raw_http import build_http_request, send_request
from spool_files import EVENTS, encode_body, encode_opening, write_spool
from stored_cassettes import DONE_EVENT, SSE_HEAD, chat_event, raw_chat_request, route_raw_request
from stub_upstream import Connection, Script, chunked, upstream
from waiting import wait_until

SECRET: Final = "sk-0123456789abcdef"
ECHO: Final = chat_event(SECRET)
GAP_S: Final = 0.015
"""Seconds between pieces, so that each arrives in its own read."""
LARGE_REQUEST_CHARS: Final = 200_000
"""Bytes of a request that is large enough to be written by the spooling thread."""


# --- redaction counts ---------------------------------------------------------------------------


def _send(headers: list[str], pieces: list[bytes]) -> Script:
    """Return an upstream script that sends these headers and pieces, with any secrets."""

    async def script(connection: Connection) -> None:
        await connection.begin(*headers)
        for piece in pieces:
            await asyncio.sleep(GAP_S)
            await connection.chunk(piece)
        await connection.finish()

    return script


@pytest.mark.parametrize(
    ("headers", "pieces", "count"),
    [
        pytest.param([], [chat_event("hi"), DONE_EVENT], 0, id="none"),
        pytest.param([f"ETag: {SECRET}"], [DONE_EVENT], 1, id="in the head"),
        pytest.param(
            [f"X-RateLimit-Key: {SECRET},{SECRET}", f"ETag: {SECRET}"], [DONE_EVENT], 3,
            id="three times in the head",
        ),
        pytest.param([], [ECHO, chat_event("hi"), ECHO + ECHO, DONE_EVENT], 3, id="in the body"),
        pytest.param([], [ECHO[:50], ECHO[50:], DONE_EVENT], 1, id="where a read ends"),
        pytest.param([], [chat_event("hi") + SECRET[:-1].encode()], 0, id="all but one"),
        pytest.param([], [chat_event("hi"), SECRET.encode()], 1, id="as the last bytes"),
        pytest.param([f"ETag: {SECRET}"], [ECHO, ECHO, DONE_EVENT], 3, id="in head and body"),
    ],
)  # fmt: skip
async def test_the_last_line_says_how_many_secrets_were_replaced(
    tmp_path: Path, headers: list[str], pieces: list[bytes], count: int
) -> None:
    async with upstream(_send(headers, pieces)) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            raw = await send_request(
                server.url, raw_chat_request("hi", f"Authorization: Bearer {SECRET}")
            )
    assert raw.body == b"".join(pieces)  # the client receives the original bytes
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.redacted_count == count
    content = Path(cassette.file).read_text()
    assert content.count("[redacted-client]") == count
    assert SECRET not in content


# --- a slow disk is not a silent upstream -------------------------------------------------------


async def test_a_disk_that_hangs_beyond_the_idle_limit_makes_no_ending_stalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = 0.4
    monkeypatch.setattr(recorder_module, "MAX_SMALL_BYTES", -1)  # every write goes to the thread
    monkeypatch.setattr(recorder_module, "MAX_BACKLOG_BYTES", 1)
    monkeypatch.setattr(recorder_module, "MAX_WAIT_S", 60.0)
    append, release = spooling.SpoolFile.append, threading.Event()

    def hang(file: spooling.SpoolFile, data: bytes) -> None:
        assert release.wait(60)
        append(file, data)

    async def script(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(chat_event("held up"))
        await asyncio.sleep(idle * 2)
        release.set()
        await asyncio.sleep(idle / 2)  # the idle limit restarts
        await connection.chunk(DONE_EVENT)
        await connection.finish()

    monkeypatch.setattr(spooling.SpoolFile, "append", hang)
    async with upstream(script) as provider:
        async with proxy("record", tmp_path, provider.url, idle_timeout=idle) as server:
            raw = await send_request(server.url, raw_chat_request())
            release.set()
    assert (raw.body, raw.ending) == (chat_event("held up") + DONE_EVENT, "clean")
    assert server.journal.recording_failures == []
    [cassette] = load_cassettes(tmp_path)
    assert (cassette.response_end.ending, cassette.response_body) == (Ending.CLEAN, raw.body)


# --- concurrent filing in one library -----------------------------------------------------------


class OverlapDetector:
    """Detects overlapping calls of `os.replace` during filing; each call waits a little."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.overlapped = threading.Event()
        self._barrier = threading.Barrier(2)
        self._inside_count = 0
        self._replace = os.replace
        monkeypatch.setattr(
            f"{CassetteFiler.__module__}.cassette_outcome", self._wait_before_filing
        )
        monkeypatch.setattr(os, "replace", self._counted_replace)

    def _wait_before_filing(self, cassette: Cassette) -> Outcome:
        """Wait for both threads at the last step before the cassette's number is chosen."""
        self._barrier.wait(20)
        return cassette_outcome(cassette)

    def _counted_replace(self, source: Path, target: Path) -> None:
        self._inside_count += 1
        if self._inside_count > 1:
            self.overlapped.set()
        self.overlapped.wait(0.3)
        self._replace(source, target)
        self._inside_count -= 1


def test_concurrent_filing_in_one_library_is_serialised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = OverlapDetector(monkeypatch)

    def file_recording(number: int) -> None:
        path = write_spool(
            tmp_path, encode_opening(tmp_path) + encode_body(chat_event(str(number))), f"1-{number}"
        )
        CassetteFiler(Library(tmp_path / "cassettes"), replaces_older=False).file_spool(path)

    (tmp_path / "spool").mkdir()
    threads = [threading.Thread(target=file_recording, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not detector.overlapped.is_set()
    assert sorted(cassette.response_body for cassette in load_cassettes(tmp_path)) == [
        chat_event("1"),
        chat_event("2"),
    ]


@pytest.mark.parametrize(
    ("content_type", "is_small"),
    [("text/event-stream", True), ("application/vnd.amazon.eventstream", False)],
)
async def test_many_frames_at_once_are_redacted_outside_the_event_loop(
    tmp_path: Path, content_type: str, is_small: bool
) -> None:
    """Each frame is searched for secrets."""
    ignored_events = RecorderEvents(on_filed=lambda *_: None, on_failed=lambda *_: None)
    recorder = SpoolRecorder(
        Library(tmp_path / "cassettes"), tmp_path / "spool", ignored_events, replaces_older=True
    )
    recording = recorder.start_recording(route_raw_request(raw_chat_request("x")))
    recording.record_head(1.0, replace(SSE_HEAD, headers=(("content-type", content_type),)))
    recording.record_read(Read(2.0, b"x" * 20_000))
    assert recording.pop_pending_items().is_small is is_small
    recording.record_read(Read(3.0, b"x" * 10_000))
    assert recording.pop_pending_items().is_small
    await recorder.close()


# --- memory -------------------------------------------------------------------------------------


async def test_a_request_is_not_kept_in_memory_for_the_life_of_its_stream(tmp_path: Path) -> None:
    size = 16_000_000  # far above the modules that are imported meanwhile
    notifications: list[str] = []
    events = RecorderEvents(
        on_filed=lambda recorded, _: notifications.append(recorded),
        on_failed=lambda _, reason: notifications.append(reason),
    )
    spools = tmp_path / "spool"
    recorder = SpoolRecorder(Library(tmp_path / "cassettes"), spools, events, replaces_older=True)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        recording = recorder.start_recording(route_raw_request(raw_chat_request("x" * size)))
        size_after_start = tracemalloc.get_traced_memory()[0] - before
        recording.record_head(1.0, SSE_HEAD)
        recording.record_read(Read(2.0, EVENTS[0]))
        await wait_until(
            lambda: any(path.read_bytes().count(b"\n") == 5 for path in spools.glob("*"))
        )
        await wait_until(lambda: not recording.is_in_thread)
        gc.collect()
        remaining_size = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        recording.finish(3.0, Ending.CLEAN)
        await recorder.close()
    assert remaining_size < size / 4 < size < size_after_start
    assert notifications == ["POST /v1/chat/completions"]


# --- session reset ------------------------------------------------------------------------------


class OrdinalSpy:
    """Records the ordinals of requests; the first call in a thread blocks, and so does a reset."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.numbers: list[int] = []
        self.blocked, self.released = threading.Event(), threading.Event()
        self.reset_started, self._ordinal_assigned = threading.Event(), threading.Event()
        next_ordinal, reset_session = RequestCounter.next_ordinal, RequestCounter.reset_session

        def slow_next(
            ordinals: RequestCounter, session: str, key: str, logical_request: LogicalRequest | None
        ) -> int:
            if threading.current_thread() is not threading.main_thread():
                self.blocked.set()
                assert self.released.wait(60)
            self.numbers.append(next_ordinal(ordinals, session, key, logical_request))
            if self.reset_started.is_set():
                self._ordinal_assigned.set()
            return self.numbers[-1]

        def slow_reset(ordinals: RequestCounter, session: str) -> None:
            self.reset_started.set()
            self._ordinal_assigned.wait(0.5)
            reset_session(ordinals, session)

        monkeypatch.setattr(RequestCounter, "next_ordinal", slow_next)
        monkeypatch.setattr(RequestCounter, "reset_session", slow_reset)


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "as soon as it is under way"])
async def test_a_reset_while_a_large_request_is_written_makes_what_follows_take_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, at_once: bool
) -> None:
    spy = OrdinalSpy(monkeypatch)
    large, small = raw_chat_request("x" * LARGE_REQUEST_CHARS), raw_chat_request("hi")
    async with upstream(chunked([chat_event("hi"), DONE_EVENT])) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            try:
                await send_request(server.url, small)
                await wait_until(lambda: len(server.journal.recorded_files) == 1)
                await send_request(server.url, large)
                await wait_until(spy.blocked.is_set)
                reset_response = await send_request(
                    server.url, build_http_request("/_proxy/sessions/default/reset", b"")
                )
                if at_once:
                    await send_request(server.url, small)
            finally:
                spy.released.set()
            await wait_until(spy.reset_started.is_set)
            if not at_once:
                await send_request(server.url, small)
            await send_request(server.url, large)
    assert reset_response.status < 300
    assert spy.numbers == [1, 1, 1, 1]
    assert len(load_cassettes(tmp_path)) == 4
