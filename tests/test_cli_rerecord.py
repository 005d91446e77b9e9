"""`llm-proxy rerecord`: recorded requests asked again, and replaced."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from cli_process import Ran, run, started
from in_process_proxy import proxy
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Ending
from llm_proxy.shell.library.library import Library, cassette_files
from llm_proxy.shell.library.replacing import replace_takes
from llm_proxy.shell.reissuing import rerecording
from llm_proxy.shell.reissuing.reissuer import ReissueSettings, reissuing
from llm_proxy.shell.reissuing.take_group import TakeGroup
from llm_proxy.shell.upstream.settings import UpstreamSettings
from raw_http import post
from sdk_clients import openai_stream
from stored_cassettes import Answer, bodies, chat, event, key_of, put, says
from stub_upstream import Connection, Script, chunked, upstream, whole

KEY = key_of(chat())[:16]
SAYING = {text: bodies([says(text)])[0] for text in ("one", "two", "new", "newer")}


def saying(text: str) -> Script:
    return chunked([SAYING[text]])


async def broken(connection: Connection) -> None:
    await connection.begin()
    await connection.chunk(event("half"))
    connection.fin()


def kept(folder: Path) -> dict[str, bytes]:
    """The bodies of a library, by the names of their files."""
    library = Library(folder / "cassettes")
    return {path.stem: library.load_cassette(path).body for path in cassette_files(library.root)}


async def rerecord(folder: Path, *arguments: str, scripts: tuple[Script, ...]) -> Ran:
    async with upstream(*scripts) as it:
        return await run("rerecord", *arguments, "--upstream", f"default={it.url}", folder=folder)


async def test_an_official_client_hears_the_new_answer(tmp_path: Path) -> None:
    async with upstream(saying("one")) as live, proxy("record", tmp_path, live.url) as it:
        await openai_stream(it.url, "hi", 0)
    ran = await rerecord(tmp_path, "openai-chat", scripts=(saying("new"),))

    async with proxy("replay", tmp_path) as it:
        heard = await openai_stream(it.url, "hi", 0)

    assert ran.code == 0, ran.err
    assert [item["choices"][0]["delta"]["content"] for item in heard] == ["new"]


async def test_all_takes_of_a_request_are_asked_again_in_their_order(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("one"), says("two"))

    ran = await rerecord(tmp_path, KEY, scripts=(saying("new"), saying("newer")))

    assert ran.code == 0, ran.err
    assert kept(tmp_path) == {f"{KEY}-1": SAYING["new"], f"{KEY}-2": SAYING["newer"]}
    assert ran.err.endswith("llm-proxy: recorded again: 2 takes\n")
    assert [path.name for path in (tmp_path / "cassettes").iterdir()] == ["openai-chat"]


async def test_a_session_keeps_its_takes(tmp_path: Path) -> None:
    put(tmp_path, chat(path="/@one/v1/chat/completions"), says("one"))
    [other] = put(tmp_path, chat(), says("two"))

    ran = await rerecord(tmp_path, "--session", "one", scripts=(saying("new"),))

    assert ran.code == 0, ran.err
    [path] = (tmp_path / "cassettes" / "@one").rglob("*.jsonl")
    assert b'"session":"one"' in path.read_bytes()
    assert Library(tmp_path).load_cassette(path).body == SAYING["new"]
    assert "two" in other.read_text()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (broken, "the new answer is partial: the upstream closed before the end; this one is kept"),
        (
            whole(b'{"error":{"message":"Bad key"}}', status="401 Unauthorized"),
            "the new answer is an error, 401 Unauthorized: Bad key; it is kept",
        ),
    ],
    ids=["partial", "an error"],
)
async def test_old_takes_stay_where_one_of_the_new_ones_is_no_better(
    tmp_path: Path, script: Script, why: str
) -> None:
    put(tmp_path, chat(), says("one"), says("two"))
    before = kept(tmp_path)

    ran = await rerecord(tmp_path, "--all", scripts=(saying("new"), script))

    assert ran.code == 1
    assert ran.out == f"failed: cassettes/openai-chat/m/{KEY}-2.jsonl: {why}\n"
    assert ran.err.endswith("llm-proxy: recorded again: 0 takes; 1 request failed\n")
    assert kept(tmp_path) == before


async def test_a_partial_take_is_replaced_by_a_whole_one(tmp_path: Path) -> None:
    put(tmp_path, chat(), Answer(((1.0, event("half")),), Ending.RST))
    put(tmp_path, chat("other"), says("two"))

    ran = await rerecord(tmp_path, "--partial", scripts=(saying("new"),))

    assert ran.code == 0, ran.err
    other = key_of(chat("other"))[:16]
    assert kept(tmp_path) == {f"{KEY}-1": SAYING["new"], f"{other}-1": SAYING["two"]}


async def test_a_file_of_another_name_or_other_rules_gets_the_name_of_its_key(
    tmp_path: Path,
) -> None:
    put(tmp_path, chat(), says("one"), name="by-hand.jsonl")
    put(tmp_path, chat("other"), says("two"), key_rules=1)

    ran = await rerecord(tmp_path, "--all", scripts=(saying("new"),))

    assert ran.code == 0, ran.err
    other = key_of(chat("other"))[:16]
    assert kept(tmp_path) == {f"{KEY}-1": SAYING["new"], f"{other}-1": SAYING["new"]}


async def test_several_requests_are_asked_at_once(tmp_path: Path) -> None:
    for number in range(5):
        put(tmp_path, chat(str(number)), says("one"))

    ran = await rerecord(tmp_path, "--all", "--jobs", "3", "--json", scripts=(saying("new"),))

    document = json.loads(ran.out)
    assert ran.code == 0, ran.err
    assert set(kept(tmp_path).values()) == {SAYING["new"]}
    assert [request["failure"] for request in document["requests"]] == [None] * 5
    assert all(request["new"] == request["old"] for request in document["requests"])


async def test_a_dry_run_asks_nothing_and_needs_no_key(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("one"), says("two"))
    put(tmp_path, post("/v1/messages", b'{"model":"claude"}'), says("three"))

    ran = await run("rerecord", "--dialect", "openai-chat", "--dry-run", folder=tmp_path)

    assert (ran.code, ran.out) == (
        0,
        f"openai-chat/m/{KEY}-1.jsonl\nopenai-chat/m/{KEY}-2.jsonl\n",
    )
    assert ran.err == "llm-proxy: would be asked again: 2 takes\n"


async def test_a_request_with_a_secret_taken_out_is_refused_by_name(tmp_path: Path) -> None:
    secret = "sk-secret-secret"
    put(tmp_path, chat(secret, f"Authorization: Bearer {secret}"), says("one"))
    put(tmp_path, chat(), says("two"))

    ran = await rerecord(tmp_path, "--all", scripts=(saying("new"),))

    assert ran.code == 1
    assert ".jsonl:2: a secret was replaced by [redacted] when it was recorded" in ran.out
    assert kept(tmp_path)[f"{KEY}-1"] == SAYING["new"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "rerecord needs to know which: name cassettes, filter, or give --all"),
        (("--all",), "openai is asked with a key: set OPENAI_API_KEY, or give --upstream op"),
        (("nothing",), "no cassette 'nothing' in cassettes: "),
    ],
    ids=["no choice", "no key", "no such name"],
)
async def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    put(tmp_path, chat(), says("one"))

    ran = await run("rerecord", *arguments, folder=tmp_path)

    assert ran.code == 2
    assert why in ran.complaint


async def test_a_take_that_somebody_else_put_there_is_never_replaced(tmp_path: Path) -> None:
    [path] = put(tmp_path, chat(), says("one"))

    async def meanwhile(connection: Connection) -> None:
        put(tmp_path, chat(), says("two"), first=2)
        await saying("new")(connection)

    async with upstream(meanwhile) as it:
        put(tmp_path, chat(), says("one"), name="by-hand.jsonl")
        ran = await run("rerecord", KEY, "--upstream", f"default={it.url}", folder=tmp_path)

    assert ran.code == 1
    assert f"{KEY}-2.jsonl is there, and none of those that were asked again" in ran.out
    assert kept(tmp_path) == {
        f"{KEY}-1": SAYING["one"], "by-hand": SAYING["one"], f"{KEY}-2": SAYING["two"],
    }  # fmt: skip
    assert path.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_who_stops_it_finds_the_library_as_it_was(
    tmp_path: Path, number: signal.Signals
) -> None:
    put(tmp_path, chat(), says("one"))
    asked = asyncio.Event()

    async def hang(connection: Connection) -> None:
        await connection.begin()
        asked.set()
        await connection.reader.read()

    async with upstream(hang) as it:
        arguments = ("rerecord", "--all", "--upstream", f"default={it.url}")
        async with started(*arguments, folder=tmp_path) as running:
            async with asyncio.timeout(10):
                await asked.wait()
            running.send(number)
            ran = await running.ended()

    assert ran.code == 130
    assert kept(tmp_path) == {f"{KEY}-1": SAYING["one"]}
    assert [path.name for path in (tmp_path / "cassettes").iterdir()] == ["openai-chat"]


async def test_takes_that_are_being_replaced_are_replaced_together_when_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = put(tmp_path, chat(), says("one"), says("two"))
    loop, placing, stopped = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def slowly(*given: Any) -> list[Path]:
        loop.call_soon_threadsafe(placing.set)
        stopped.wait()
        return replace_takes(*given)

    monkeypatch.setattr(rerecording, "replace_takes", slowly)
    async with upstream(saying("new"), saying("newer")) as it:
        asking = ReissueSettings(UpstreamSettings({"default": it.url}))
        group = TakeGroup("default", KEY, "openai", tuple(paths))
        library = Library(tmp_path / "cassettes")
        async with aclosing(rerecording.rerecord(asking, library, [group], 1)) as coming:
            first = asyncio.ensure_future(anext(coming))
            await placing.wait()
            first.cancel()
            for _ in range(100):  # in which the folder of the new takes must not go
                await asyncio.sleep(0)
            stopped.set()
            with pytest.raises(asyncio.CancelledError):
                await first

    assert kept(tmp_path) == {f"{KEY}-1": SAYING["new"], f"{KEY}-2": SAYING["newer"]}


async def test_a_library_that_cannot_be_written_is_said_before_anything_is_asked(
    tmp_path: Path,
) -> None:
    with pytest.raises(UsageError, match=r"gone cannot be written: .*; nothing was asked"):
        async with reissuing(ReissueSettings(UpstreamSettings({})), tmp_path / "gone"):
            pass
