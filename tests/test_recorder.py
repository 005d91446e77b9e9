"""Disk errors lose the recording and never the response, and are reported exactly once."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli_process import CommandResult, running_server
from in_process_proxy import load_cassettes, proxy
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import recorder, recovery, spooling
from llm_proxy.shell.recording.recovery import RecoveredRecording, recover_spools
from llm_proxy.take_numbers import LogicalRequest, RequestCounter
from raw_http import build_http_request, send_request
from stored_cassettes import chat_event, raw_chat_request, text_response, write_cassettes
from stub_upstream import Connection, chunked, fixed_length, upstream
from waiting import wait_until

PIECES = [chat_event(f"word {number}") for number in range(3)]
COMPLETE_STREAM = [*PIECES, b"data: [DONE]\n\n"]
MIB = 1024 * 1024
GAP_S = 0.015
"""Seconds between pieces, so that each is written to the spool separately."""


async def _record_response(
    folder: Path, on_started: Callable[[], object] = lambda: None
) -> tuple[bytes, list[str]]:
    """Record one response; return its body and the failures; `on_started` runs first."""
    async with upstream(chunked(COMPLETE_STREAM, gap=GAP_S)) as provider:
        async with proxy("record", folder, provider.url) as server:
            on_started()
            raw = await send_request(server.url, raw_chat_request())
        assert (raw.status, raw.ending) == (200, "clean")
        return raw.body, server.journal.recording_failures


# --- each system call fails once ----------------------------------------------------------------


@dataclass
class InjectedError:
    """A system call that raises on its nth call on a path below a folder."""

    name: str
    number: int
    code: int
    calls: int = 0

    @property
    def was_raised(self) -> bool:
        """Return whether the call was reached."""
        return self.calls >= self.number


@contextmanager
def _injected_error(injected: InjectedError, folder: Path) -> Iterator[None]:
    """Patch the system call of this process."""
    real: Callable[..., Any] = getattr(os, injected.name)

    def call(target: Any, *args: Any, **options: Any) -> Any:
        path = Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else target
        if str(path).startswith(str(folder)):
            injected.calls += 1
            if injected.calls == injected.number:
                raise OSError(injected.code, os.strerror(injected.code), str(path))
        return real(target, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, injected.name, call)
        yield


def _has_old_or_complete_take(folder: Path, old: Cassette) -> bool:
    """Return whether the folder has the old take, or a complete one in its place."""
    takes = [cassette for cassette in load_cassettes(folder) if cassette.meta.key == old.meta.key]
    return any(
        take.response_body == old.response_body or cassette_outcome(take).is_complete
        for take in takes
    )


def _assert_recovery(folder: Path) -> None:
    """Assert that recovery files each spool once, and that only finished ones are complete."""
    library, spool = Library(folder / "cassettes"), folder / "spool"
    complete_stems = [
        path.stem for path in spool.glob("*.spool") if b'{"end":"clean"' in path.read_bytes()
    ]
    recovered = [
        result
        for result in recover_spools(library, spool)
        if isinstance(result, RecoveredRecording)
    ]
    assert [
        result.spool_path.stem for result in recovered if result.filed_cassette.outcome.is_complete
    ] == complete_stems
    after = {cassette.file: cassette.response_end.sha256 for cassette in load_cassettes(folder)}
    assert not [*spool.glob("*"), *recover_spools(library, spool)]
    assert {
        cassette.file: cassette.response_end.sha256 for cassette in load_cassettes(folder)
    } == after
    assert (
        len(
            [
                cassette
                for cassette in load_cassettes(folder)
                if cassette.response_body == b"".join(COMPLETE_STREAM)
            ]
        )
        <= 1
    )


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(errno.ENOSPC, id="disk full"),
        pytest.param(errno.EIO, marks=pytest.mark.thorough, id="I/O error"),
    ],
)
@pytest.mark.parametrize("name", ["mkdir", "open", "write", "fsync", "replace", "unlink"])
async def test_whichever_call_fails_the_answer_is_whole_and_no_take_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, code: int
) -> None:
    raised_count = failure_count = 0
    for number in range(1, 60):
        folder = tmp_path / str(number)
        [path] = write_cassettes(folder, raw_chat_request(), text_response("old"))
        [old] = load_cassettes(folder)
        assert old.file == str(path)
        injected = InjectedError(name, number, code)
        caplog.clear()
        with _injected_error(injected, folder):
            body, failures = await _record_response(folder)

        assert body == b"".join(COMPLETE_STREAM)
        assert _has_old_or_complete_take(folder, old)
        error_records = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(error_records) == len(failures) <= 1
        _assert_recovery(folder)
        raised_count += injected.was_raised
        failure_count += len(failures)
        if not injected.was_raised:
            break
    else:
        pytest.fail("it never got through")
    assert raised_count
    assert failure_count or name == "unlink"


async def test_a_recording_that_breaks_off_is_kept_as_far_as_it_goes(tmp_path: Path) -> None:
    with _injected_error(InjectedError("write", 4, errno.ENOSPC), tmp_path / "spool"):
        _, failures = await _record_response(tmp_path)
    assert len(failures) == 1
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.ending is Ending.RECORDER_ERROR
    assert cassette.response_body
    assert b"".join(PIECES).startswith(cassette.response_body)
    assert not cassette_outcome(cassette).is_complete
    assert list((tmp_path / "spool").iterdir()) == []


async def test_a_disk_that_is_too_slow_costs_the_recording_and_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_SMALL_BYTES", -1)  # or the event loop itself would block
    monkeypatch.setattr(recorder, "MAX_BACKLOG_BYTES", 1024)
    monkeypatch.setattr(recorder, "MAX_WAIT_S", 0.1)
    release, append = threading.Event(), spooling.SpoolFile.append

    def hang_then_append(file: spooling.SpoolFile, data: bytes) -> None:
        assert release.wait(60)
        append(file, data)

    monkeypatch.setattr(spooling.SpoolFile, "append", hang_then_append)
    pieces = [chat_event("x" * 500) for _ in range(6)]
    async with upstream(chunked([*pieces, COMPLETE_STREAM[-1]], gap=GAP_S)) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            raw = await send_request(
                server.url, raw_chat_request()
            )  # the complete response, while the disk blocks
            release.set()
    assert (raw.body, raw.ending) == (b"".join([*pieces, COMPLETE_STREAM[-1]]), "clean")
    [failure] = server.journal.recording_failures
    assert "the disk is too slow" in failure
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.ending is Ending.RECORDER_ERROR
    assert cassette.response_body == b"".join(pieces[:2])  # the bytes up to the backlog limit


async def test_a_disk_that_hangs_for_good_does_not_keep_the_proxy_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(recorder, "_MIN_LOGGED_FILINGS", 0)
    monkeypatch.setattr(recorder, "MAX_SMALL_BYTES", -1)
    monkeypatch.setattr(recorder, "_CLOSE_TIMEOUT_S", 0.2)
    released = threading.Event()
    monkeypatch.setattr(spooling.SpoolFile, "append", lambda *_: released.wait(60))
    try:
        async with upstream(chunked(COMPLETE_STREAM)) as provider:
            async with proxy("record", tmp_path, provider.url) as server:
                raw = await send_request(server.url, raw_chat_request())
    finally:
        released.set()
    assert raw.body == b"".join(COMPLETE_STREAM)
    [failure] = server.journal.recording_failures
    assert f"written to {tmp_path / 'spool'}, run llm-proxy recover" in failure
    assert "writing 1 cassette" in caplog.messages


async def test_a_disk_that_turns_slow_holds_up_the_event_loop_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, threads = spooling.SpoolFile.append, list[bool]()

    def slow_append(file: spooling.SpoolFile, data: bytes) -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        if len(threads) <= 2:
            time.sleep(2 * recorder.SLOW_WRITE_S)
        append(file, data)

    monkeypatch.setattr(spooling.SpoolFile, "append", slow_append)
    body, failures = await _record_response(tmp_path)
    assert (body, failures) == (b"".join(COMPLETE_STREAM), [])
    assert threads[:3] == [True, False, False]
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_body == body


async def test_a_large_request_is_written_where_it_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    next_ordinal, threads = RequestCounter.next_ordinal, set[bool]()

    def spy_next_ordinal(
        counter: RequestCounter, session: str, key: str, logical_request: LogicalRequest | None
    ) -> int:
        threads.add(threading.current_thread() is threading.main_thread())
        return next_ordinal(counter, session, key, logical_request)

    monkeypatch.setattr(RequestCounter, "next_ordinal", spy_next_ordinal)
    async with upstream(chunked(COMPLETE_STREAM), chunked(COMPLETE_STREAM)) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            await send_request(server.url, raw_chat_request("x" * 1_000_000))
            await wait_until(lambda: threads == {False})
            await wait_until(lambda: len(server.journal.recorded_files) == 1)
            await send_request(server.url, raw_chat_request("x"))
    assert threads == {False, True}
    assert len(load_cassettes(tmp_path)) == 2


async def test_control_characters_in_a_model_name_are_stored_escaped(tmp_path: Path) -> None:
    body = rb'{"model":"a\u001b[2J","messages":[{"role":"user","content":"hi"}]}'
    request = build_http_request("/v1/chat/completions", body, "Content-Type: application/json")
    async with upstream(chunked(COMPLETE_STREAM)) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            await send_request(server.url, request)
    [cassette] = load_cassettes(tmp_path)
    assert cassette.meta.model == r"a\x1b[2J"


async def test_an_answer_that_no_cassette_has_room_for_is_kept_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_BODY_BYTES", 300)
    body, [failure] = await _record_response(tmp_path)
    assert body == b"".join(COMPLETE_STREAM)
    assert "larger than the recording limit of 300 bytes" in failure
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.ending is Ending.RECORDER_ERROR
    assert len(cassette.response_body) <= 300
    assert body.startswith(cassette.response_body)


async def test_a_recording_that_could_not_be_filed_is_kept_whole_for_later(tmp_path: Path) -> None:
    [old] = write_cassettes(tmp_path, raw_chat_request(), text_response("old"))
    before = old.read_bytes()
    with _injected_error(InjectedError("replace", 1, errno.ENOSPC), tmp_path / "cassettes"):
        _, [failure] = await _record_response(tmp_path)
    assert "llm-proxy recover" in failure
    assert old.read_bytes() == before

    [result] = recovery.recover_spools(Library(tmp_path / "cassettes"), tmp_path / "spool")
    assert isinstance(result, RecoveredRecording)
    assert result.filed_cassette.cassette.response_body == b"".join(COMPLETE_STREAM)
    assert list((tmp_path / "spool").iterdir()) == []


async def test_one_recording_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    async def finish_second_first(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(PIECES[0])
        if connection.number == 1:
            await wait_until(lambda: len(provider.requests) == 2)
        for piece in COMPLETE_STREAM[1:]:
            await connection.chunk(piece)
        await connection.finish()

    async with upstream(finish_second_first) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            first = asyncio.ensure_future(send_request(server.url, raw_chat_request("first")))
            await wait_until(lambda: any(tmp_path.glob("spool/*")))
            with _injected_error(InjectedError("open", 1, errno.EMFILE), tmp_path / "spool"):
                second = await send_request(server.url, raw_chat_request("second"))
                await wait_until(lambda: bool(server.journal.recording_failures))
            bodies = [(await first).body, second.body]
        assert len(server.journal.recording_failures) == 1
    assert bodies == [b"".join(COMPLETE_STREAM)] * 2
    [cassette] = load_cassettes(tmp_path)
    assert cassette_outcome(cassette).is_complete
    assert b"first" in cassette.request.body


async def test_an_internal_error_leaves_no_recording_with_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    append = spooling.SpoolFile.append

    def failing_append(file: spooling.SpoolFile, data: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("a fault of ours")
        append(file, data)

    monkeypatch.setattr(spooling.SpoolFile, "append", failing_append)
    body, [failure] = await _record_response(tmp_path)
    assert body == b"".join(COMPLETE_STREAM)
    assert "please report it" in failure
    [cassette] = load_cassettes(tmp_path)
    assert cassette.response_end.ending is Ending.RECORDER_ERROR
    assert cassette.response_body
    assert b"".join(PIECES).startswith(cassette.response_body)


@pytest.mark.parametrize("folder_name", ["spool", "cassettes"])
async def test_a_folder_that_is_a_file_costs_the_recording_alone(
    tmp_path: Path, folder_name: str
) -> None:
    body, [failure] = await _record_response(
        tmp_path, lambda: (tmp_path / folder_name).write_text("a file")
    )
    assert body == b"".join(COMPLETE_STREAM)
    assert str(tmp_path / folder_name) in failure


# --- real processes -----------------------------------------------------------------------------


async def _record_by_command(
    folder: Path,
    pieces: list[bytes],
    limit_file_bytes: int = resource.RLIM_INFINITY,
    env: Mapping[str, str] | None = None,
) -> tuple[bytes, CommandResult]:
    """Record one response by `llm-proxy record`, whose files are limited; return its body."""
    options = ("--cassettes", str(folder / "cassettes"), "--spool", str(folder / "spool"))
    async with upstream(chunked(pieces)) as provider:
        upstream_option = f"default={provider.url}"
        async with running_server(
            "record", *options, "--upstream", upstream_option, folder=folder, env=env
        ) as running:
            limits = (limit_file_bytes, resource.RLIM_INFINITY)
            resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, limits)
            raw = await send_request(running.url, raw_chat_request())
            running.send(signal.SIGTERM)
            return raw.body, await running.wait_for_end()


async def test_a_full_disk_is_one_line_on_stderr_and_exit_code_1(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("old"))
    before = path.read_bytes()
    large = [*[chat_event("x" * 1000)] * 200, COMPLETE_STREAM[-1]]
    body, result = await _record_by_command(tmp_path, large, limit_file_bytes=32 * 1024)
    assert body == b"".join(large)
    assert result.exit_code == 1
    assert result.stderr.count("not recorded") == 1
    assert path.read_bytes() == before


async def test_a_disk_that_suffices_is_exit_code_0(tmp_path: Path) -> None:
    body, result = await _record_by_command(tmp_path, COMPLETE_STREAM)
    assert body == b"".join(COMPLETE_STREAM)
    assert (result.exit_code, result.stderr.count("not recorded")) == (0, 0)


HANGING_DISK_SOURCE = """
import time
from llm_proxy.shell.recording import recorder, spooling
recorder.MAX_SMALL_BYTES = -1
recorder._CLOSE_TIMEOUT_S = 0.2
spooling.SpoolFile.append = lambda *_: time.sleep(3600)
"""


async def test_a_disk_that_hangs_for_good_does_not_keep_the_process(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANGING_DISK_SOURCE)
    body, result = await _record_by_command(
        tmp_path, COMPLETE_STREAM, env={"PYTHONPATH": str(tmp_path)}
    )
    assert body == b"".join(COMPLETE_STREAM)
    assert result.exit_code == 1
    assert result.stderr.count("the disk accepted no data for 0.2 s") == 1


# --- memory -------------------------------------------------------------------------------------


def _memory(pid: int, field: str) -> int:
    """Return a memory figure of a process in bytes, from /proc."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field}")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize(
    ("size", "portion", "max_growth"),
    [
        pytest.param(32 * MIB, MIB, 26 * MIB, id="as fast as the disk"),
        pytest.param(
            150 * MIB, 150 * MIB, 112 * MIB, id="at full speed",
            marks=[pytest.mark.thorough, pytest.mark.long],
        ),
    ],
)  # fmt: skip
async def test_memory_does_not_grow_with_what_is_streamed(
    tmp_path: Path, size: int, portion: int, max_growth: int
) -> None:
    """The upstream waits after each `portion` until that much is on the disk."""
    piece = chat_event("x" * 16_000)
    piece_count = size // len(piece)
    spool = tmp_path / "spool"
    measured = asyncio.Event()

    def spooled_bytes() -> int:  # base64 makes them more
        return sum(path.stat().st_size for path in spool.glob("*"))

    async def script(connection: Connection) -> None:
        await connection.begin()
        for number in range(1, piece_count + 1):
            await connection.chunk(piece)
            if number % (portion // len(piece)) == 0:
                await wait_until(lambda n=number: spooled_bytes() > n * len(piece))  # type: ignore[misc] # n is bound at once
        await measured.wait()
        await connection.finish()

    options = ("--cassettes", str(tmp_path / "cassettes"), "--spool", str(spool))
    async with upstream(fixed_length(b""), script) as provider:
        target = f"default={provider.url}"
        async with running_server(
            "record", *options, "--upstream", target, folder=tmp_path
        ) as running:
            pid = running.process.pid
            await send_request(running.url, build_http_request("/warm/up", b"", method="GET"))
            idle = _memory(pid, "VmHWM")
            request_task = asyncio.ensure_future(
                send_request(running.url, raw_chat_request(), timeout_s=90)
            )
            await wait_until(lambda: spooled_bytes() > size, timeout_s=60)
            streamed = _memory(pid, "VmHWM")
            measured.set()
            assert (await request_task).body == piece * piece_count
    assert streamed - idle < max_growth < size
