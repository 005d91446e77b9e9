"""Our own pages under `/_proxy/`."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from in_process_proxy import cassettes, proxy
from llm_proxy.miss_report import MissReport
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.sources import ModeName
from llm_proxy.shell.server import control
from llm_proxy.version import __version__
from raw_http import Raw, ask, post
from stored_cassettes import bodies, chat, put, says
from stub_upstream import chunked, upstream

INSTANT = InstantPace()


async def _get(url: str, page: str) -> Any:
    raw = await ask(url, post(f"/_proxy/{page}", b"", method="GET"))
    assert raw.status == 200
    assert raw.header("content-type") == "application/json"
    assert raw.header("cache-control") == "no-store"
    return json.loads(raw.body)


async def _reset(url: str, session: str) -> Raw:
    return await ask(url, post(f"/_proxy/sessions/{session}/reset", b""))


@pytest.mark.parametrize("mode", ["record", "replay", "auto"])
async def test_health_names_the_mode_and_the_version(tmp_path: Path, mode: ModeName) -> None:
    async with proxy(mode, tmp_path) as it:
        health = await _get(it.url, "health")
    assert health == {"ok": True, "mode": mode, "version": __version__}


async def test_the_journal_tells_the_requests_in_their_order(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("hello"))
    async with proxy("replay", tmp_path, pace=INSTANT) as it:
        for request in (chat(), chat("missing")):
            await ask(it.url, request)
        journal = await _get(it.url, "journal")
    assert journal["requests"] == 2
    hit, miss = journal["entries"]
    assert (hit["number"], hit["status"], hit["ending"]) == (1, 200, "sent")
    assert (miss["number"], miss["status"], miss["origin"]) == (2, 424, "miss")
    assert hit["ms"] > 0
    assert hit["late_worst_ms"] >= 0


async def test_looking_at_our_pages_leaves_no_trace_in_the_journal(tmp_path: Path) -> None:
    async with proxy("replay", tmp_path) as it:
        for page in ("health", "journal", "misses"):
            await _get(it.url, page)
        assert (await _get(it.url, "journal")) == {
            "requests": 0, "entries": [], "faults": [], "misses": [],
            "library": {"played": [], "recorded": [], "unused": [], "too_old": []},
        }  # fmt: skip


async def test_misses_are_told_at_length(tmp_path: Path) -> None:
    put(tmp_path, chat("recorded"), says("hello"))
    async with proxy("replay", tmp_path) as it:
        await ask(it.url, chat("asked"))
        [miss] = (await _get(it.url, "misses"))["misses"]
    assert "no cassette for POST /v1/chat/completions" in miss["text"]
    assert '$.messages[0].content: "asked", cassette has "recorded"' in miss["text"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/_proxy"),
        ("GET", "/_proxy/"),
        ("GET", "/_proxy/nothing"),
        ("POST", "/_proxy/health"),
        ("GET", "/_proxy/sessions/a/reset"),
        ("POST", "/_proxy/sessions//reset"),
        ("DELETE", "/_proxy/journal"),
    ],
)
async def test_there_is_nothing_else_and_it_is_never_passed_on(
    tmp_path: Path, method: str, path: str
) -> None:
    async with upstream(chunked([b"from the provider"])) as live:
        async with proxy("record", tmp_path, live.url) as it:
            raw = await ask(it.url, post(path, b"", method=method))
    assert raw.status == 404
    assert f"there is no {method} {path}" in json.loads(raw.body)["error"]
    assert live.requests == []
    assert cassettes(tmp_path) == []


async def test_reset_rewinds_a_replay(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("one"), says("two"))
    async with proxy("replay", tmp_path, pace=INSTANT) as it:
        before = [(await ask(it.url, chat())).body for _ in range(2)]
        raw = await _reset(it.url, "default")
        after = [(await ask(it.url, chat())).body for _ in range(2)]
    assert json.loads(raw.body) == {"session": "default", "reset": True}
    assert before == after == bodies([says("one"), says("two")])


async def test_reset_rewinds_that_session_alone(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("one"), says("two"))
    scoped = {name: chat(path=f"/@{name}/v1/chat/completions") for name in "ab"}
    async with proxy("replay", tmp_path, pace=INSTANT) as it:
        for name in "ab":
            await ask(it.url, scoped[name])
        await _reset(it.url, "a")
        got = [(await ask(it.url, scoped[name])).body for name in "ab"]
    assert got == bodies([says("one"), says("two")])


async def test_reset_lets_auto_begin_with_the_first_take_again(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("on disk"))
    async with proxy("auto", tmp_path, pace=INSTANT) as it:
        first = await ask(it.url, chat())
        await _reset(it.url, "default")
        again = await ask(it.url, chat())
    assert first.body == again.body == bodies([says("on disk")])[0]


async def test_reset_destroys_nothing_that_a_recording_run_has_kept(tmp_path: Path) -> None:
    texts = ["one", "two", "three"]
    scripts = [chunked(bodies([says(text)])) for text in texts]
    async with upstream(*scripts) as live, proxy("record", tmp_path, live.url) as it:
        for _ in texts:
            await ask(it.url, chat())
            await _reset(it.url, "default")
    assert [cassette.body for cassette in cassettes(tmp_path)] == bodies(
        [says(text) for text in texts]
    )


async def test_a_long_journal_is_written_by_a_thread_and_keeps_the_latest_of_each_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = control._serialize_lists
    threads: list[int] = []

    def seen(document: Mapping[str, Any]) -> bytes:
        threads.append(threading.get_ident())
        return dump(document)

    monkeypatch.setattr(control, "_serialize_lists", seen)
    async with proxy("replay", tmp_path) as it:
        for number in range(10_001):
            it.journal.open_entry("s", "POST", f"/{number}").status = 200
            it.journal.add_miss(MissReport(text=f"miss {number}"))
        journal, misses = await _get(it.url, "journal"), await _get(it.url, "misses")
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    assert journal["requests"] == 10_001
    assert [entry["path"] for entry in journal["entries"]] == [f"/{n}" for n in range(1, 10_001)]
    assert [miss["text"] for miss in misses["misses"]] == [
        f"miss {number}" for number in range(9_001, 10_001)
    ]


async def test_what_a_thread_writes_of_the_journal_does_not_change_under_its_hands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = control._serialize_lists

    async with proxy("replay", tmp_path) as it:
        entry = it.journal.open_entry("s", "POST", "/asked")

        def later(document: Mapping[str, Any]) -> bytes:
            entry.path, entry.status = "/changed", 200
            return dump(document)

        monkeypatch.setattr(control, "_serialize_lists", later)
        [told] = (await _get(it.url, "journal"))["entries"]
    assert (told["path"], told["status"]) == ("/asked", 0)
