"""The control API under `/_proxy/`."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from case_tables import each_row
from in_process_proxy import load_cassettes, proxy
from llm_proxy.miss_report import MissReport
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.settings import ModeName
from llm_proxy.shell.server import control
from llm_proxy.version import __version__
from raw_http import RawResponse, build_http_request, send_request
from stored_cassettes import raw_chat_request, response_bodies, text_response, write_cassettes
from stub_upstream import chunked, upstream

INSTANT = InstantPace()


async def _get_page(url: str, page: str) -> Any:
    response = await send_request(url, build_http_request(f"/_proxy/{page}", b"", method="GET"))
    assert response.status == 200
    assert response.header("content-type") == "application/json"
    assert response.header("cache-control") == "no-store"
    return json.loads(response.body)


async def _reset_session(url: str, session: str) -> RawResponse:
    return await send_request(url, build_http_request(f"/_proxy/sessions/{session}/reset", b""))


@each_row("mode", ["record", "replay", "auto", "simulate"])
async def test_health_describes_the_proxy(tmp_path: Path, mode: ModeName) -> None:
    async with proxy(mode, tmp_path, session="mine") as server:
        health = await _get_page(server.url, "health")
    cassettes = None if mode == "simulate" else str(tmp_path / "cassettes")
    assert health == {
        "ok": True,
        "mode": mode,
        "version": __version__,
        "cassettes": cassettes,
        "session": "mine",
    }


async def test_the_journal_lists_the_requests_in_order(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("hello"))
    async with proxy("replay", tmp_path, pace=INSTANT) as server:
        for request in (raw_chat_request(), raw_chat_request("missing")):
            await send_request(server.url, request)
        journal = await _get_page(server.url, "journal")
    assert journal["requests"] == 2
    hit, miss = journal["entries"]
    assert (hit["number"], hit["status"], hit["ending"]) == (1, 200, "sent")
    assert (miss["number"], miss["status"], miss["origin"]) == (2, 424, "miss")
    assert hit["ms"] > 0
    assert hit["late_worst_ms"] >= 0


async def test_looking_at_our_pages_leaves_no_trace_in_the_journal(tmp_path: Path) -> None:
    async with proxy("replay", tmp_path) as server:
        for page in ("health", "journal", "misses"):
            await _get_page(server.url, page)
        assert (await _get_page(server.url, "journal")) == {
            "requests": 0, "entries": [], "faults": [], "listener_closures": [], "misses": [],
            "library": {"played": [], "recorded": [], "unused": [], "too_old": []},
        }  # fmt: skip


async def test_misses_are_described_in_full(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("recorded"), text_response("hello"))
    async with proxy("replay", tmp_path) as server:
        await send_request(server.url, raw_chat_request("asked"))
        [miss] = (await _get_page(server.url, "misses"))["misses"]
    assert "no cassette matches POST /v1/chat/completions" in miss["text"]
    assert '$.messages[0].content: request has "asked", cassette has "recorded"' in miss["text"]


@each_row(
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
    async with upstream(chunked([b"from the provider"])) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            response = await send_request(server.url, build_http_request(path, b"", method=method))
    assert response.status == 404
    assert f"no such page: {method} {path}" in json.loads(response.body)["error"]
    assert provider.requests == []
    assert load_cassettes(tmp_path) == []


async def test_reset_rewinds_a_replay(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"), text_response("two"))
    async with proxy("replay", tmp_path, pace=INSTANT) as server:
        before = [(await send_request(server.url, raw_chat_request())).body for _ in range(2)]
        response = await _reset_session(server.url, "default")
        after = [(await send_request(server.url, raw_chat_request())).body for _ in range(2)]
    assert json.loads(response.body) == {"session": "default", "reset": True}
    assert before == after == response_bodies([text_response("one"), text_response("two")])


async def test_reset_rewinds_that_session_alone(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"), text_response("two"))
    scoped = {name: raw_chat_request(path=f"/@{name}/v1/chat/completions") for name in "ab"}
    async with proxy("replay", tmp_path, pace=INSTANT) as server:
        for name in "ab":
            await send_request(server.url, scoped[name])
        await _reset_session(server.url, "a")
        received = [(await send_request(server.url, scoped[name])).body for name in "ab"]
    assert received == response_bodies([text_response("one"), text_response("two")])


async def test_reset_restarts_auto_at_the_first_take(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("on disk"))
    async with proxy("auto", tmp_path, pace=INSTANT) as server:
        first = await send_request(server.url, raw_chat_request())
        await _reset_session(server.url, "default")
        again = await send_request(server.url, raw_chat_request())
    assert first.body == again.body == response_bodies([text_response("on disk")])[0]


async def test_reset_destroys_nothing_that_a_recording_run_has_kept(tmp_path: Path) -> None:
    texts = ["one", "two", "three"]
    scripts = [chunked(response_bodies([text_response(text)])) for text in texts]
    async with upstream(*scripts) as provider, proxy("record", tmp_path, provider.url) as server:
        for _ in texts:
            await send_request(server.url, raw_chat_request())
            await _reset_session(server.url, "default")
    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == response_bodies(
        [text_response(text) for text in texts]
    )


async def test_a_long_journal_is_written_by_a_thread_and_keeps_the_latest_of_each_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serialize = control._serialize_document
    threads: list[int] = []

    def record_thread(document: Mapping[str, Any]) -> bytes:
        threads.append(threading.get_ident())
        return serialize(document)

    monkeypatch.setattr(control, "_serialize_document", record_thread)
    async with proxy("replay", tmp_path) as server:
        for number in range(10_001):
            server.journal.open_entry("s", "POST", f"/{number}").status = 200
            server.journal.add_miss(MissReport(text=f"miss {number}"))
        journal, misses = (
            await _get_page(server.url, "journal"),
            await _get_page(server.url, "misses"),
        )
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    assert journal["requests"] == 10_001
    assert [entry["path"] for entry in journal["entries"]] == [f"/{n}" for n in range(1, 10_001)]
    assert [miss["text"] for miss in misses["misses"]] == [
        f"miss {number}" for number in range(9_001, 10_001)
    ]


async def test_the_journal_snapshot_does_not_change_while_a_thread_serializes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serialize = control._serialize_document

    async with proxy("replay", tmp_path) as server:
        entry = server.journal.open_entry("s", "POST", "/asked")

        def serialize_later(document: Mapping[str, Any]) -> bytes:
            entry.path, entry.status = "/changed", 200
            return serialize(document)

        monkeypatch.setattr(control, "_serialize_document", serialize_later)
        [entry_json] = (await _get_page(server.url, "journal"))["entries"]
    assert (entry_json["path"], entry_json["status"]) == ("/asked", 0)
