"""Trouble with the disk costs the recording and never the answer, and is said once and loudly."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli_process import Ran, run, serving
from in_process_proxy import cassettes, proxy
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending
from llm_proxy.outcome import outcome_of
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import (
    backlog,
    recorder,
    recovery,
    spool_writer,
    spooled_recording,
    spooling,
)
from llm_proxy.shell.recording.recovery import RecoveredRecording, recover_spools
from raw_http import ask, post
from stored_cassettes import chat, event, put, says
from stub_upstream import Connection, chunked, upstream, whole
from waiting import until

PIECES = [event(f"word {number}") for number in range(6)]
WHOLE = [*PIECES, b"data: [DONE]\n\n"]
MIB = 1024 * 1024
APART = 0.015
"""Seconds between pieces, so that each is written to the spool by itself."""


async def _recorded(
    folder: Path, once_up: Callable[[], object] = lambda: None
) -> tuple[bytes, list[str]]:
    """What the client got, and which recordings were lost; `once_up` is done before it asks."""
    async with upstream(chunked(WHOLE, gap=APART)) as live:
        async with proxy("record", folder, live.url) as it:
            once_up()
            raw = await ask(it.url, chat())
        assert (raw.status, raw.how) == (200, "clean")
        return raw.body, it.journal.failures


# --- every call that may fail, fails once -------------------------------------------------------


@dataclass
class Trouble:
    """A system call that fails the nth time it is made below a folder."""

    name: str
    number: int
    code: int
    calls: int = 0

    @property
    def struck(self) -> bool:
        """Whether it came to that."""
        return self.calls >= self.number


@contextmanager
def _failing(trouble: Trouble, below: Path) -> Iterator[None]:
    """Let it happen to this process."""
    real: Callable[..., Any] = getattr(os, trouble.name)

    def call(target: Any, *args: Any, **options: Any) -> Any:
        path = Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else target
        if str(path).startswith(str(below)):
            trouble.calls += 1
            if trouble.calls == trouble.number:
                raise OSError(trouble.code, os.strerror(trouble.code), str(path))
        return real(target, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, trouble.name, call)
        yield


def _old_or_new(folder: Path, old: Cassette) -> bool:
    """Whether there is the take that was there, or a complete one in its place."""
    takes = [cassette for cassette in cassettes(folder) if cassette.meta.key == old.meta.key]
    return any(take.body == old.body or outcome_of(take).complete for take in takes)


def _recovers(folder: Path) -> None:
    """Whatever a failure left in the spool is in the library once, and never as broken off."""
    library, spool = Library(folder / "cassettes"), folder / "spool"
    finished = [
        path.stem for path in spool.glob("*.spool") if b'{"end":"clean"' in path.read_bytes()
    ]
    found = [
        recover_spool
        for recover_spool in recover_spools(library, spool)
        if isinstance(recover_spool, RecoveredRecording)
    ]
    assert [item.spool.stem for item in found if item.filed.outcome.complete] == finished
    after = {cassette.file: cassette.end.sha256 for cassette in cassettes(folder)}
    assert not [*spool.glob("*"), *recover_spools(library, spool)]
    assert {cassette.file: cassette.end.sha256 for cassette in cassettes(folder)} == after
    assert (
        len([cassette for cassette in cassettes(folder) if cassette.body == b"".join(WHOLE)]) <= 1
    )


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=["disk full", "I/O error"])
@pytest.mark.parametrize("name", ["mkdir", "open", "write", "fsync", "replace", "unlink"])
async def test_whichever_call_fails_the_answer_is_whole_and_no_take_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, code: int
) -> None:
    struck = failed = 0
    for number in range(1, 60):
        folder = tmp_path / str(number)
        [path] = put(folder, chat(), says("old"))
        [old] = cassettes(folder)
        assert old.file == str(path)
        trouble = Trouble(name, number, code)
        caplog.clear()
        with _failing(trouble, folder):
            body, failures = await _recorded(folder)

        assert body == b"".join(WHOLE)
        assert _old_or_new(folder, old)
        loud = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(loud) == len(failures) <= 1
        _recovers(folder)
        struck += trouble.struck
        failed += len(failures)
        if not trouble.struck:
            break
    else:
        pytest.fail("it never got through")
    assert struck
    assert failed or name == "unlink"


async def test_a_recording_that_breaks_off_is_kept_as_far_as_it_goes(tmp_path: Path) -> None:
    with _failing(Trouble("write", 4, errno.ENOSPC), tmp_path / "spool"):
        _, failures = await _recorded(tmp_path)
    assert len(failures) == 1
    [cassette] = cassettes(tmp_path)
    assert cassette.end.ending is Ending.RECORDER_ERROR
    assert cassette.body
    assert b"".join(PIECES).startswith(cassette.body)
    assert not outcome_of(cassette).complete
    assert list((tmp_path / "spool").iterdir()) == []


async def test_a_disk_that_is_too_slow_costs_the_recording_and_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooled_recording, "SMALL", -1)  # or the event loop itself would hang, once
    monkeypatch.setattr(backlog, "LARGEST", 1024)
    monkeypatch.setattr(backlog, "PATIENCE", 0.1)
    hangs, append = threading.Event(), spooling.SpoolFile.append

    def hang(file: spooling.SpoolFile, data: bytes) -> None:
        assert hangs.wait(60)
        append(file, data)

    monkeypatch.setattr(spooling.SpoolFile, "append", hang)
    pieces = [event("x" * 500) for _ in range(6)]
    async with upstream(chunked([*pieces, WHOLE[-1]], gap=APART)) as live:
        async with proxy("record", tmp_path, live.url) as it:
            raw = await ask(it.url, chat())  # the whole answer, while the disk hangs
            hangs.set()
    assert (raw.body, raw.how) == (b"".join([*pieces, WHOLE[-1]]), "clean")
    [failure] = it.journal.failures
    assert "the disk takes longer than" in failure
    [cassette] = cassettes(tmp_path)
    assert cassette.end.ending is Ending.RECORDER_ERROR
    assert cassette.body == b"".join(pieces[:2])  # what came until the backlog was full


async def test_a_disk_that_hangs_for_good_does_not_keep_the_proxy_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooled_recording, "SMALL", -1)
    monkeypatch.setattr(recorder, "_LAST", 0.2)
    released = threading.Event()
    monkeypatch.setattr(spooling.SpoolFile, "append", lambda *_: released.wait(60))
    try:
        async with upstream(chunked(WHOLE)) as live:
            async with proxy("record", tmp_path, live.url) as it:
                raw = await ask(it.url, chat())
    finally:
        released.set()
    assert raw.body == b"".join(WHOLE)
    [failure] = it.journal.failures
    assert f"what it has is in {tmp_path / 'spool'}: llm-proxy recover" in failure


async def test_a_disk_that_turns_slow_holds_up_the_event_loop_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, threads = spooling.SpoolFile.append, list[bool]()

    def slow(file: spooling.SpoolFile, data: bytes) -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        if len(threads) <= 2:
            time.sleep(2 * recorder.SLOW)
        append(file, data)

    monkeypatch.setattr(spooling.SpoolFile, "append", slow)
    body, failures = await _recorded(tmp_path)
    assert (body, failures) == (b"".join(WHOLE), [])
    assert threads[:3] == [True, False, False]
    [cassette] = cassettes(tmp_path)
    assert cassette.body == body


async def test_a_large_request_is_written_where_it_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, threads = spool_writer.SpoolWriter.write, set[bool]()

    def seen(writer: spool_writer.SpoolWriter, items: list[spool_writer.Item]) -> None:
        if any(isinstance(item, spool_writer.StartItem) for item in items):
            threads.add(threading.current_thread() is threading.main_thread())
        write(writer, items)

    monkeypatch.setattr(spool_writer.SpoolWriter, "write", seen)
    async with upstream(chunked(WHOLE), chunked(WHOLE)) as live:
        async with proxy("record", tmp_path, live.url) as it:
            await ask(it.url, chat("x" * 1_000_000))
            await until(lambda: threads == {False})
            await until(lambda: len(it.journal.recorded) == 1)
            await ask(it.url, chat("x"))
    assert threads == {False, True}
    assert len(cassettes(tmp_path)) == 2


async def test_an_answer_that_no_cassette_has_room_for_is_kept_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_writer, "LARGEST", 300)
    body, [failure] = await _recorded(tmp_path)
    assert body == b"".join(WHOLE)
    assert "larger than 300 bytes" in failure
    [cassette] = cassettes(tmp_path)
    assert cassette.end.ending is Ending.RECORDER_ERROR
    assert len(cassette.body) <= 300
    assert body.startswith(cassette.body)


async def test_a_recording_that_could_not_be_filed_is_kept_whole_for_later(tmp_path: Path) -> None:
    [old] = put(tmp_path, chat(), says("old"))
    before = old.read_bytes()
    with _failing(Trouble("replace", 1, errno.ENOSPC), tmp_path / "cassettes"):
        _, [failure] = await _recorded(tmp_path)
    assert "llm-proxy recover" in failure
    assert old.read_bytes() == before

    [result] = recovery.recover_spools(Library(tmp_path / "cassettes"), tmp_path / "spool")
    assert isinstance(result, RecoveredRecording)
    assert result.filed.cassette.body == b"".join(WHOLE)
    assert list((tmp_path / "spool").iterdir()) == []


async def test_one_recording_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    async def second_first(connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(PIECES[0])
        if connection.number == 1:
            await until(lambda: len(live.requests) == 2)
        for piece in WHOLE[1:]:
            await connection.chunk(piece)
        await connection.finish()

    async with upstream(second_first) as live:
        async with proxy("record", tmp_path, live.url) as it:
            first = asyncio.ensure_future(ask(it.url, chat("first")))
            await until(lambda: any(tmp_path.glob("spool/*")))
            with _failing(Trouble("open", 1, errno.EMFILE), tmp_path / "spool"):
                second = await ask(it.url, chat("second"))
                await until(lambda: bool(it.journal.failures))
            bodies = [(await first).body, second.body]
        assert len(it.journal.failures) == 1
    assert bodies == [b"".join(WHOLE)] * 2
    [kept] = cassettes(tmp_path)
    assert outcome_of(kept).complete
    assert b"first" in kept.request.body


async def test_a_fault_of_ours_leaves_no_recording_with_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    append = spooling.SpoolFile.append

    def stumble(file: spooling.SpoolFile, data: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("a fault of ours")
        append(file, data)

    monkeypatch.setattr(spooling.SpoolFile, "append", stumble)
    body, [failure] = await _recorded(tmp_path)
    assert body == b"".join(WHOLE)
    assert "please report it" in failure
    [cassette] = cassettes(tmp_path)
    assert cassette.end.ending is Ending.RECORDER_ERROR
    assert cassette.body
    assert b"".join(PIECES).startswith(cassette.body)


@pytest.mark.parametrize("what", ["spool", "cassettes"])
async def test_a_folder_that_is_a_file_costs_the_recording_alone(tmp_path: Path, what: str) -> None:
    body, [failure] = await _recorded(tmp_path, lambda: (tmp_path / what).write_text("a file"))
    assert body == b"".join(WHOLE)
    assert str(tmp_path / what) in failure


# --- a real disk limit, at the command line -----------------------------------------------------

CLIENT = """
import hashlib, os, urllib.request
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}',
    {"Content-Type": "application/json"},
)
print(hashlib.sha256(urllib.request.urlopen(request).read()).hexdigest())
"""


async def _at_the_command_line(folder: Path, limit: str, answer: list[bytes]) -> Ran:
    """A client behind `llm-proxy record`, where no file may grow beyond `limit` blocks of 512."""
    limited = ("sh", "-c", f'ulimit -f {limit}; exec "$@"', "sh")
    async with upstream(chunked(answer)) as live:
        options = ("--upstream", f"default={live.url}", "--", sys.executable, "-c", CLIENT)
        return await run("record", *options, folder=folder, prefix=limited)


async def test_a_full_disk_is_one_line_on_stderr_and_exit_code_1(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat(), says("old"))
    before = path.read_bytes()
    large = [event("x" * 1000)] * 200
    ran = await _at_the_command_line(tmp_path, "64", [*large, WHOLE[-1]])
    sent = hashlib.sha256(b"".join([*large, WHOLE[-1]])).hexdigest()
    assert ran.out.split() == [sent]
    assert ran.code == 1
    assert ran.err.count("not recorded") == 1
    assert path.read_bytes() == before


async def test_a_disk_that_suffices_is_exit_code_0(tmp_path: Path) -> None:
    ran = await _at_the_command_line(tmp_path, "unlimited", WHOLE)
    assert ran.out.split() == [hashlib.sha256(b"".join(WHOLE)).hexdigest()]
    assert (ran.code, ran.err.count("not recorded")) == (0, 0)


HANGS = """
import time
from llm_proxy.shell.recording import recorder, spooled_recording, spooling
spooled_recording.SMALL = -1
recorder._LAST = 0.2
spooling.SpoolFile.append = lambda *_: time.sleep(3600)
"""


async def test_a_disk_that_hangs_for_good_does_not_keep_the_process(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HANGS)
    client = ("env", "-u", "PYTHONPATH", sys.executable, "-c", CLIENT)
    async with upstream(chunked(WHOLE)) as live:
        options = ("--upstream", f"default={live.url}", "--", *client)
        prefix = ("env", f"PYTHONPATH={tmp_path}")
        ran = await run("record", *options, folder=tmp_path, prefix=prefix)
    assert ran.out.split() == [hashlib.sha256(b"".join(WHOLE)).hexdigest()]
    assert ran.code == 1
    assert ran.err.count("the disk took nothing for 0.2 s") == 1


# --- size ---------------------------------------------------------------------------------------


def _memory(pid: int, field: str) -> int:
    """Bytes of memory of a process, as the kernel counts them."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field}")


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
async def test_memory_does_not_grow_with_what_is_streamed(tmp_path: Path) -> None:
    pieces = [event("x" * 16_000)] * 10_000
    size = sum(map(len, pieces))  # in base64 it is more
    measured = asyncio.Event()

    async def script(connection: Connection) -> None:
        await connection.begin()
        for piece in pieces:
            await connection.chunk(piece)
        await measured.wait()
        await connection.finish()

    spool = tmp_path / "spool"
    options = ("--cassettes", str(tmp_path / "cassettes"), "--spool", str(spool))
    async with upstream(whole(b""), script) as live:
        target = f"default={live.url}"
        async with serving("record", *options, "--upstream", target, folder=tmp_path) as running:
            pid = running.process.pid
            await ask(running.url, post("/warm/up", b"", method="GET"))
            idle = _memory(pid, "VmHWM")
            asking = asyncio.ensure_future(ask(running.url, chat(), within=90))
            await until(lambda: sum(path.stat().st_size for path in spool.glob("*")) > size)
            streamed = _memory(pid, "VmHWM")
            measured.set()
            assert (await asking).body == b"".join(pieces)
    assert streamed - idle < 112 * MIB < size
