"""A held session: its new takes replace the older ones only after the verdict of its test."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from case_tables import each_row
from in_process_proxy import load_cassettes, proxy
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.exchange import Ending
from llm_proxy.shell.recording.recorder import SpoolRecorder
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.shell.running.settings import ModeName
from raw_http import send_request
from stored_cassettes import (
    DONE_EVENT,
    SSE_HEAD,
    StoredResponse,
    chat_event,
    key_of_request,
    raw_chat_request,
    text_response,
    write_cassettes,
)
from stub_upstream import Connection, Script, chunked, fixed_length, upstream
from waiting import wait_until

SESSION: Final = "s"
TIMEOUT_S: Final = 20.0
REQUEST: Final = raw_chat_request("hi", f"x-llm-proxy-session: {SESSION}")
FIRST_ATTEMPT, SECOND_ATTEMPT = (
    raw_chat_request(
        "hi", f"x-llm-proxy-session: {SESSION}", f"x-stainless-retry-count: {retry_count}"
    )
    for retry_count in (0, 1)
)
OTHER_REQUEST: Final = raw_chat_request("bye", f"x-llm-proxy-session: {SESSION}")


def complete(text: str) -> Script:
    """An upstream's complete response with this text."""
    return chunked([chat_event(text), DONE_EVENT])


def incomplete(text: str) -> Script:
    """An upstream's response with this text that lacks its last event."""
    return chunked([chat_event(text)])


def error(text: str) -> Script:
    """An upstream's error response with this text."""
    return fixed_length(b'{"error":{"content":"%b"}}' % text.encode(), status="401 Unauthorized")


async def reset_stream(connection: Connection) -> None:
    """Reset the connection in the middle of a response."""
    await connection.begin()
    await connection.chunk(chat_event("half"))
    await connection.rst()


@dataclass
class HeldStream:
    """An upstream's response whose end waits for `end_event`."""

    text: str
    end_event: asyncio.Event

    async def __call__(self, connection: Connection) -> None:
        await connection.begin()
        await connection.chunk(chat_event(self.text))
        await self.end_event.wait()
        await connection.chunk(DONE_EVENT)
        await connection.finish()


def stored_texts(folder: Path) -> list[str]:
    """The texts of the cassettes in the order of their names.

    Those of errors end with `!`, those of incomplete ones with `...`.
    """
    texts: list[str] = []
    for cassette in load_cassettes(folder):
        [text] = re.findall(rb'"content":"([^"]*)"', cassette.response_body)
        outcome = cassette_outcome(cassette)
        mark = "!" if outcome.is_error else "" if outcome.is_complete else "..."
        texts.append(text.decode() + mark)
    return texts


def stored_numbers(folder: Path) -> list[int]:
    """The take numbers of the cassettes, in the same order."""
    return [int(Path(each.file).stem.rpartition("-")[2]) for each in load_cassettes(folder)]


def write_older(folder: Path, *texts: str, request: bytes = REQUEST) -> None:
    """Write takes with these texts, as `stored_texts` returns them."""
    responses: list[StoredResponse] = []
    for text in texts:
        response = text_response(text.rstrip(".!"))
        if text.endswith("..."):
            response = replace(response, reads=response.reads[:1], ending=Ending.RST)
        if text.endswith("!"):
            response = replace(response, head=replace(SSE_HEAD, status=401))
        responses.append(response)
    write_cassettes(folder, request, *responses)


@dataclass
class HeldRun:
    """A recording proxy, and the recorder whose session `SESSION` is held."""

    proxy: RunningProxy
    recorder: SpoolRecorder

    async def send(self, *requests: bytes) -> None:
        """Send these requests, one after the other."""
        for request in requests:
            await send_request(self.proxy.url, request)

    async def settle(self, *, keep: bool) -> None:
        """Settle the session."""
        assert await self.recorder.settle_session(SESSION, keep=keep, timeout_s=TIMEOUT_S)

    async def wait_for_cassettes(self, count: int) -> None:
        """Wait until so many recordings are filed."""
        await wait_until(lambda: len(self.recorded_files()) == count)

    def recorded_files(self) -> list[str]:
        """The files that the journal names, which must be those of its document."""
        files = self.proxy.journal.recorded_files
        document = self.proxy.journal.library_usage.to_json_document()
        assert len(document["recorded"]) == len(set(files))
        return files


@asynccontextmanager
async def held_run(
    folder: Path, *scripts: Script, mode: ModeName = "record", collapse_retries: bool = False
) -> AsyncIterator[HeldRun]:
    """Run a proxy whose session `SESSION` is held; the nth request gets the nth script."""
    async with upstream(*scripts) as provider:
        async with proxy(mode, folder, provider.url, collapse_retries=collapse_retries) as server:
            assert server.active_mode.recorder is not None
            server.active_mode.recorder.hold_session(SESSION)
            yield HeldRun(server, server.active_mode.recorder)


# --- the verdict --------------------------------------------------------------------------------


@each_row(
    ("older", "new", "kept", "not_kept"),
    [
        pytest.param(["old"], [complete("new")], ["new"], ["old"], id="one for one"),
        pytest.param(
            ["old 1", "old 2", "old 3"], [complete("a"), complete("b")],
            ["a", "b"], ["old 1", "old 2", "old 3"], id="fewer than there were",
        ),
        pytest.param(
            ["old"], [incomplete("a"), complete("b"), complete("c")],
            ["a...", "b", "c"], ["old"], id="more than there were",
        ),
        pytest.param(
            ["old"], [incomplete("a")], ["old", "a..."], ["old"], id="an incomplete one",
        ),
        pytest.param(
            [], [complete("a"), incomplete("b")], ["a", "b..."], ["a", "b..."],
            id="a first recording",
        ),
        pytest.param(
            ["old..."], [complete("new")], ["new"], ["old...", "new"],
            id="after an incomplete recording",
        ),
        pytest.param(
            ["old...", "old 2"], [complete("new")], ["new"], ["old...", "old 2"],
            id="after a recording of which one take is complete",
        ),
        pytest.param(["old"], [error("a")], ["old", "a!"], ["old"], id="an error"),
        pytest.param(
            ["old 1", "old 2"], [error("a"), complete("b"), error("c")],
            ["a!", "b", "c!"], ["old 1", "old 2"], id="a success among errors",
        ),
        pytest.param(["old!"], [error("a")], ["a!"], ["old!"], id="an error after an error"),
        pytest.param(
            ["old", "old!"], [error("a")], ["old", "a!"], ["old", "old!"],
            id="an error after a success and an error",
        ),
        pytest.param(
            ["old..."], [error("a")], ["a!"], ["old...", "a!"],
            id="an error after an incomplete recording",
        ),
    ],
)  # fmt: skip
async def test_the_verdict_decides_which_takes_stay(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    older: list[str],
    new: Sequence[Script],
    kept: list[str],
    not_kept: list[str],
) -> None:
    for keep, expected in ((True, kept), (False, not_kept)):
        folder = tmp_path / f"{keep}-{'-'.join([*older, *kept])}"
        write_older(folder, *older)
        caplog.clear()
        caplog.set_level(logging.INFO, "llm_proxy")
        async with held_run(folder, *new) as run:
            await run.send(*[REQUEST] * len(new))
            await run.wait_for_cassettes(len(new))
            assert stored_texts(folder)[: len(older)] == older
            await run.settle(keep=keep)
            assert stored_texts(folder) == expected
            assert all(Path(file).exists() for file in run.recorded_files())
            was_discarded = not keep and not_kept == older
            assert len(run.recorded_files()) == (0 if was_discarded else len(new))
        assert stored_texts(folder) == expected
        log_line = (
            f"session s: deleted {len(new)} new cassette{'s' * (len(new) > 1)} and kept the older "
            "cassettes, because the test failed"
        )
        assert (log_line in caplog.messages) == was_discarded


@each_row(("keep", "count"), [(True, 1), (False, 0)], ids=["kept", "failed"])
async def test_only_a_verdict_that_keeps_an_error_warns_of_it_and_once_for_a_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, keep: bool, count: int
) -> None:
    folder = tmp_path / str(keep)
    write_older(folder, "old")
    caplog.clear()
    async with held_run(folder, incomplete("a"), *map(error, "bcd")) as run:
        await run.send(REQUEST, REQUEST, REQUEST)
        await run.wait_for_cassettes(3)
        assert caplog.messages == []
        await run.settle(keep=keep)
        run.recorder.hold_session(SESSION)
        await run.send(REQUEST)
        await run.settle(keep=keep)
    warnings = [line for line in caplog.messages if "-3.jsonl: kept the older takes" in line]
    assert warnings == caplog.messages
    assert len(warnings) == count


async def test_each_key_is_judged_by_its_own_older_takes(tmp_path: Path) -> None:
    write_older(tmp_path, "old")
    async with held_run(tmp_path, complete("new"), complete("first")) as run:
        await run.send(REQUEST, OTHER_REQUEST)
        await run.settle(keep=False)
    assert sorted(stored_texts(tmp_path)) == ["first", "old"]


async def test_a_crash_before_the_verdict_leaves_the_older_takes_first(tmp_path: Path) -> None:
    folder, crashed = tmp_path / "run", tmp_path / "crashed"
    write_older(folder, "old 1", "old 2")
    async with held_run(folder, complete("new 1"), complete("new 2")) as run:
        await run.send(REQUEST, REQUEST)
        await run.wait_for_cassettes(2)
        shutil.copytree(folder, crashed)
    for left in (crashed, folder):  # a run that ends without a verdict changes nothing either
        assert stored_texts(left) == ["old 1", "old 2", "new 1", "new 2"]
    async with proxy("replay", crashed) as server:
        response = await send_request(server.url, REQUEST)
    assert response.body == chat_event("old 1") + DONE_EVENT


async def test_a_rerun_of_a_test_begins_with_take_1(tmp_path: Path) -> None:
    write_older(tmp_path, "old 1", "old 2")
    scripts = [complete(text) for text in ("failed", "a", "b", "c", "again")]
    async with held_run(tmp_path, *scripts) as run:
        await run.send(REQUEST)
        await run.settle(keep=False)
        run.recorder.hold_session(SESSION)
        await run.send(REQUEST, REQUEST)
        await run.wait_for_cassettes(2)
        run.recorder.hold_session(SESSION)  # again, which changes nothing
        await run.send(REQUEST)
        await run.settle(keep=True)
        assert stored_texts(tmp_path) == ["a", "b", "c"]
        assert run.recorder.request_counter.next_ordinal(SESSION, key_of_request(REQUEST)) == 1
        run.recorder.hold_session(SESSION)
        await run.send(REQUEST)
        await run.settle(keep=True)
        assert stored_texts(tmp_path) == ["again"]
        assert stored_numbers(tmp_path) == [1]
        assert [Path(file) for file in run.recorded_files()] == [
            Path(cassette.file) for cassette in load_cassettes(tmp_path)
        ]


async def test_what_was_recorded_before_the_hold_is_older(tmp_path: Path) -> None:
    async with held_run(tmp_path, complete("before"), complete("new")) as run:
        await run.settle(keep=True)  # nothing was recorded
        await run.send(REQUEST)
        await run.wait_for_cassettes(1)
        run.recorder.hold_session(SESSION)
        await run.send(REQUEST)
        await run.settle(keep=False)
    assert stored_texts(tmp_path) == ["before"]


async def test_a_stream_that_began_before_the_hold_replaces_no_older_take(tmp_path: Path) -> None:
    write_older(tmp_path, "old")
    end_event = asyncio.Event()
    async with upstream(HeldStream("new", end_event)) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            assert server.active_mode.recorder is not None
            response = asyncio.ensure_future(send_request(server.url, REQUEST))
            await wait_until(lambda: any((tmp_path / "spool").glob("*")))
            server.active_mode.recorder.hold_session(SESSION)
            end_event.set()
            await response
            await wait_until(lambda: bool(server.journal.recorded_files))
            assert stored_texts(tmp_path) == ["old", "new"]


async def test_a_hold_has_one_verdict(tmp_path: Path) -> None:
    write_older(tmp_path, "old...")
    async with held_run(tmp_path, complete("new")) as run:
        await run.send(REQUEST)
        await run.settle(keep=False)
        await run.settle(keep=True)
    assert stored_texts(tmp_path) == ["old...", "new"]


@each_row(("count", "expected"), [(1, ["old"]), (2, ["new 2"])], ids=["the only one", "one of two"])
async def test_a_held_take_that_was_deleted_by_hand_replaces_nothing(
    tmp_path: Path, count: int, expected: list[str]
) -> None:
    folder = tmp_path / str(count)
    write_older(folder, "old")
    async with held_run(folder, complete("new 1"), complete("new 2")) as run:
        await run.send(*[REQUEST] * count)
        await run.wait_for_cassettes(count)
        Path(run.recorded_files()[0]).unlink()
        await run.settle(keep=True)
    assert stored_texts(folder) == expected


async def test_a_reset_during_the_hold_loses_no_take(tmp_path: Path) -> None:
    async with held_run(tmp_path, incomplete("a"), incomplete("b"), complete("c")) as run:
        for _ in range(3):
            await run.send(REQUEST)
            run.recorder.reset_session(SESSION)
        await run.settle(keep=True)
        assert sorted(Path(file) for file in run.recorded_files()) == [
            Path(cassette.file) for cassette in load_cassettes(tmp_path)
        ]
    assert stored_texts(tmp_path) == ["c", "a...", "b..."]


@each_row("keep", [True, False], ids=["kept", "failed"])
async def test_in_auto_no_verdict_replaces_or_deletes_a_take(tmp_path: Path, keep: bool) -> None:
    folder = tmp_path / str(keep)
    write_older(folder, "old")
    async with held_run(folder, complete("new"), complete("late"), mode="auto") as run:
        await run.send(REQUEST, REQUEST)
        await run.settle(keep=keep)
        assert len(run.recorded_files()) == 1
        assert stored_texts(folder) == ["old", "new"]
        await run.send(REQUEST)
    assert stored_texts(folder) == ["old", "new", "late"]


@each_row(("keep", "expected"), [(True, ["new", "next"]), (False, ["old"])], ids=["kept", "failed"])
async def test_an_attempt_that_is_repeated_while_held_is_one_take(
    tmp_path: Path, keep: bool, expected: list[str]
) -> None:
    folder = tmp_path / str(keep)
    write_older(folder, "old")
    scripts = (reset_stream, complete("new"), complete("next"))
    async with held_run(folder, *scripts, collapse_retries=True) as run:
        await run.send(FIRST_ATTEMPT, SECOND_ATTEMPT, FIRST_ATTEMPT)
        await run.settle(keep=keep)
    assert stored_texts(folder) == expected


async def test_a_held_attempt_that_fails_after_a_success_replaces_no_older_take(
    tmp_path: Path,
) -> None:
    write_older(tmp_path, "old")
    end_event, error_event = asyncio.Event(), asyncio.Event()

    async def held_error(connection: Connection) -> None:
        await error_event.wait()
        await error("new")(connection)

    scripts = (HeldStream("given up", end_event), held_error)
    async with held_run(tmp_path, *scripts, collapse_retries=True) as run:
        first = asyncio.ensure_future(run.send(FIRST_ATTEMPT))
        await wait_until(lambda: any((tmp_path / "spool").glob("*")))
        second = asyncio.ensure_future(run.send(SECOND_ATTEMPT))
        await wait_until(lambda: run.proxy.journal.counts.requests == 2)
        end_event.set()
        await first
        await run.wait_for_cassettes(1)
        error_event.set()
        await second
        await run.settle(keep=True)
    assert stored_texts(tmp_path) == ["old", "new!"]


async def test_an_attempt_in_a_rerun_is_none_of_the_earlier_run(tmp_path: Path) -> None:
    scripts = (reset_stream, reset_stream, complete("new"))
    async with held_run(tmp_path, *scripts, collapse_retries=True) as run:
        await run.send(FIRST_ATTEMPT)
        await run.settle(keep=True)
        run.recorder.hold_session(SESSION)
        await run.send(SECOND_ATTEMPT)
        await run.settle(keep=True)
        assert stored_texts(tmp_path) == ["half...", "half..."]
        run.recorder.hold_session(SESSION)
        await run.send(SECOND_ATTEMPT)
        await run.settle(keep=True)
    assert stored_texts(tmp_path) == ["new"]


async def test_a_rerun_replaces_a_repeated_attempt(tmp_path: Path) -> None:
    scripts = (reset_stream, reset_stream, complete("new"))
    async with held_run(tmp_path, *scripts, collapse_retries=True) as run:
        await run.send(FIRST_ATTEMPT, SECOND_ATTEMPT)
        await run.settle(keep=True)
        assert (stored_texts(tmp_path), stored_numbers(tmp_path)) == (["half..."], [1])
        run.recorder.hold_session(SESSION)
        await run.send(FIRST_ATTEMPT)
        await run.settle(keep=True)
    assert stored_texts(tmp_path) == ["new"]


# --- waiting ------------------------------------------------------------------------------------


async def test_the_verdict_waits_for_a_stream_that_has_not_ended(tmp_path: Path) -> None:
    write_older(tmp_path, "old")
    end_event = asyncio.Event()
    async with held_run(tmp_path, HeldStream("new", end_event)) as run:
        response = asyncio.ensure_future(run.send(REQUEST))
        await wait_until(lambda: any((tmp_path / "spool").glob("*")))
        settling = asyncio.ensure_future(run.settle(keep=True))
        await asyncio.sleep(0)
        end_event.set()
        await settling
        assert stored_texts(tmp_path) == ["new"]
        await response


@each_row(
    ("keep", "in_time", "expected"),
    [
        (True, [complete("in time")], ["in time", "late"]),
        (True, [], ["late"]),
        (False, [complete("in time")], ["old"]),
        (False, [], ["old"]),
    ],
    ids=["kept", "kept, with nothing before", "failed", "failed, with nothing before"],
)
async def test_a_stream_that_outlasts_the_limit_gets_the_same_verdict(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    keep: bool,
    in_time: list[Script],
    expected: list[str],
) -> None:
    folder = tmp_path / f"{keep}-{len(in_time)}"
    write_older(folder, "old")
    end_event = asyncio.Event()
    caplog.clear()
    caplog.set_level(logging.INFO, "llm_proxy")
    async with held_run(folder, *in_time, HeldStream("late", end_event)) as run:
        await run.send(*[REQUEST] * len(in_time))
        response = asyncio.ensure_future(run.send(REQUEST))
        await wait_until(lambda: any((folder / "spool").glob("*")))
        assert not await run.recorder.settle_session(SESSION, keep=keep, timeout_s=0.05)
        end_event.set()
        await response
        await run.settle(keep=keep)  # waits, and does not settle again
        assert all(Path(file).exists() for file in run.recorded_files())
    assert stored_texts(folder) == expected
    assert stored_numbers(folder) == list(range(1, len(expected) + 1))
    assert list((folder / "spool").iterdir()) == []
    assert any("discarded a response" in line for line in caplog.messages) is not keep


@each_row(("keep", "expected"), [(True, ["new"]), (False, ["old"])], ids=["kept", "failed"])
async def test_a_late_stream_of_a_failed_test_is_no_take_of_its_rerun(
    tmp_path: Path, keep: bool, expected: list[str]
) -> None:
    folder = tmp_path / str(keep)
    write_older(folder, "old")
    end_event = asyncio.Event()
    async with held_run(folder, HeldStream("late", end_event), complete("new")) as run:
        response = asyncio.ensure_future(run.send(REQUEST))
        await wait_until(lambda: any((folder / "spool").glob("*")))
        assert not await run.recorder.settle_session(SESSION, keep=False, timeout_s=0.05)
        run.recorder.hold_session(SESSION)
        await run.send(REQUEST)
        end_event.set()
        await response
        await run.settle(keep=keep)
    assert stored_texts(folder) == expected


@each_row(
    ("is_held", "expected"), [(False, ["old"]), (True, ["old", "late"])], ids=["no hold", "a hold"]
)
async def test_a_request_after_the_verdict_replaces_no_older_take(
    tmp_path: Path, is_held: bool, expected: list[str]
) -> None:
    folder = tmp_path / str(is_held)
    write_older(folder, "old")
    async with held_run(folder, complete("new"), complete("late")) as run:
        await run.send(REQUEST)
        await run.settle(keep=False)
        if is_held:
            run.recorder.hold_session(SESSION)
        await run.send(REQUEST)
    assert stored_texts(folder) == expected


async def test_a_request_after_the_verdict_takes_no_number_of_the_next_hold(tmp_path: Path) -> None:
    async with held_run(tmp_path, *map(complete, ("kept", "late", "new"))) as run:
        await run.send(REQUEST)
        await run.settle(keep=True)
        await run.send(REQUEST)
        await run.wait_for_cassettes(2)
        assert stored_texts(tmp_path) == ["kept", "late"]
        run.recorder.hold_session(SESSION)
        await run.send(REQUEST)
        await run.settle(keep=True)
    assert stored_texts(tmp_path) == ["new"]
    assert stored_numbers(tmp_path) == [1]


async def test_a_request_without_a_response_is_not_waited_for(tmp_path: Path) -> None:
    async def no_response(connection: Connection) -> None:
        connection.fin()

    async with held_run(tmp_path, no_response) as run:
        await run.send(REQUEST)
        await run.settle(keep=True)
        assert run.recorded_files() == []
        assert run.proxy.journal.recording_failures == []


async def test_a_request_whose_client_leaves_before_the_response_is_not_waited_for(
    tmp_path: Path,
) -> None:
    arrived_event = asyncio.Event()

    async def wait_for_ever(_: Connection) -> None:
        arrived_event.set()
        await asyncio.Event().wait()

    async with held_run(tmp_path, wait_for_ever) as run:
        response = asyncio.ensure_future(run.send(REQUEST))
        await arrived_event.wait()
        response.cancel()
        await run.settle(keep=True)


# --- others -------------------------------------------------------------------------------------


async def test_a_hold_changes_nothing_for_another_session(tmp_path: Path) -> None:
    other_session = raw_chat_request("hi", "x-llm-proxy-session: t")
    write_older(tmp_path, "old s")
    write_older(tmp_path, "old t", request=other_session)
    async with held_run(tmp_path, complete("new s"), complete("new t")) as run:
        await run.send(REQUEST, other_session)
        assert await run.recorder.settle_session("t", keep=False, timeout_s=TIMEOUT_S)
        assert stored_texts(tmp_path) == ["old s", "new s", "new t"]
        await run.settle(keep=False)
    assert stored_texts(tmp_path) == ["old s", "new t"]


@each_row(
    ("first_keep", "second_keep", "expected"),
    [
        (True, True, ["first", "second"]),
        (True, False, ["first"]),
        (False, True, ["second"]),
        (False, False, ["old"]),
    ],
    ids=["both pass", "the first passes", "the second passes", "both fail"],
)
async def test_two_processes_that_record_the_same_key_keep_what_each_verdict_says(
    tmp_path: Path, first_keep: bool, second_keep: bool, expected: list[str]
) -> None:
    folder = tmp_path / f"{first_keep}-{second_keep}"
    write_older(folder, "old")
    async with held_run(folder, complete("first")) as first:
        async with held_run(folder, complete("second")) as second:
            await asyncio.gather(first.send(REQUEST), second.send(REQUEST))
            await first.settle(keep=first_keep)
            await second.settle(keep=second_keep)
    assert stored_texts(folder) == expected


async def test_a_take_of_another_process_is_kept_in_a_rerun(tmp_path: Path) -> None:
    async with held_run(tmp_path, complete("failed"), complete("new")) as first:
        async with held_run(tmp_path, complete("second")) as second:
            await first.send(REQUEST)
            await first.settle(keep=False)
            await second.send(REQUEST)
            await second.settle(keep=True)
            first.recorder.hold_session(SESSION)
            await first.send(REQUEST)
            await first.settle(keep=True)
    assert sorted(stored_texts(tmp_path)) == ["new", "second"]
