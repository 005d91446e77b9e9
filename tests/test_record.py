"""`record`: everything goes live and is kept, and a run that fails destroys nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from in_process_proxy import cassettes, proxy
from llm_proxy.exchange import Ending
from llm_proxy.pacing import InstantPace
from raw_http import ask, post
from stored_cassettes import bodies, chat, event, put, says
from stub_upstream import Connection, Script, chunked, upstream, whole
from waiting import until

INSTANT = InstantPace()


def _saying(text: str) -> Script:
    return chunked(bodies([says(text)]))


async def _half(connection: Connection) -> None:
    await connection.begin()
    await connection.chunk(event("half"))
    connection.fin()


def _kept(folder: Path) -> dict[str, bytes]:
    """The bodies on disk, by take."""
    return {
        Path(cassette.file).stem.rpartition("-")[2]: cassette.body for cassette in cassettes(folder)
    }


class TestRenewal:
    async def test_new_takes_replace_the_older_ones(self, tmp_path: Path) -> None:
        put(tmp_path, chat(), says("old one"), says("old two"), says("old three"))
        async with upstream(_saying("new one"), _saying("new two")) as live:
            async with proxy("record", tmp_path, live.url) as it:
                for _ in range(2):
                    await ask(it.url, chat())
        one, two = bodies([says("new one"), says("new two")])
        assert _kept(tmp_path) == {"1": one, "2": two}

    async def test_the_older_takes_stay_until_the_first_new_one_is_complete(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, chat(), says("old one"), says("old two"))
        async with upstream(_half) as live:
            async with proxy("record", tmp_path, live.url) as it:
                await ask(it.url, chat())
        one, two = bodies([says("old one"), says("old two")])
        assert _kept(tmp_path) == {"1": one, "2": two, "3": event("half")}
        async with proxy("replay", tmp_path, pace=INSTANT) as it:
            assert (await ask(it.url, chat())).body == one

    async def test_a_run_that_recovers_replaces_them_and_keeps_its_own_order(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, chat(), says("old one"), says("old two"), says("old three"))
        async with upstream(_half, _saying("new two")) as live:
            async with proxy("record", tmp_path, live.url) as it:
                for _ in range(2):
                    await ask(it.url, chat())
        assert _kept(tmp_path) == {"1": event("half"), "2": bodies([says("new two")])[0]}

    async def test_only_the_takes_of_that_key_and_session_are_replaced(
        self, tmp_path: Path
    ) -> None:
        scoped = chat(path="/@mine/v1/chat/completions")
        for request in (chat(), chat("other"), scoped):
            put(tmp_path, request, says("old"))
        async with upstream(_saying("new")) as live:
            async with proxy("record", tmp_path, live.url) as it:
                await ask(it.url, chat())
        got = {
            (
                cassette.meta.session,
                json.loads(cassette.request.body)["messages"][0]["content"],
            ): cassette.body
            for cassette in cassettes(tmp_path)
        }
        old, new = bodies([says("old"), says("new")])
        assert got == {("default", "hi"): new, ("default", "other"): old, ("mine", "hi"): old}

    async def test_a_take_that_a_person_put_elsewhere_is_replaced_there(
        self, tmp_path: Path
    ) -> None:
        [path] = put(tmp_path, chat(), says("old"))
        moved = tmp_path / "cassettes" / "by hand" / path.name
        moved.parent.mkdir()
        path.rename(moved)
        async with upstream(_saying("new")) as live:
            async with proxy("record", tmp_path, live.url) as it:
                await ask(it.url, chat())
        assert _kept(tmp_path) == {"1": bodies([says("new")])[0]}
        assert not moved.exists()

    async def test_a_request_that_the_upstream_did_not_answer_leaves_all_as_it_was(
        self, tmp_path: Path
    ) -> None:
        async def nothing(connection: Connection) -> None:
            connection.fin()

        [path] = put(tmp_path, chat(), says("old"))
        before = path.read_bytes()
        async with upstream(nothing) as live, proxy("record", tmp_path, live.url) as it:
            assert (await ask(it.url, chat())).status == 502
        assert [path.read_bytes()] == [before]
        assert len(cassettes(tmp_path)) == 1


async def test_takes_are_numbered_by_the_arrival_of_their_requests(tmp_path: Path) -> None:
    first_may_go = asyncio.Event()

    async def slow(connection: Connection) -> None:
        await first_may_go.wait()
        await _saying("first")(connection)

    async with upstream(slow, _saying("second")) as live:
        async with proxy("record", tmp_path, live.url) as it:
            first = asyncio.create_task(ask(it.url, chat()))
            await until(lambda: len(live.requests) == 1)
            second = await ask(it.url, chat())
            first_may_go.set()
            await first
    one, two = bodies([says("first"), says("second")])
    assert second.body == two
    assert _kept(tmp_path) == {"1": one, "2": two}


async def test_twenty_identical_requests_at_once_are_twenty_takes(tmp_path: Path) -> None:
    async def numbered(connection: Connection) -> None:
        await _saying(f"answer {connection.number}")(connection)

    async with upstream(numbered) as live, proxy("record", tmp_path, live.url) as it:
        got = await asyncio.gather(*(ask(it.url, chat()) for _ in range(20)))
    assert sorted(_kept(tmp_path), key=int) == [str(number) for number in range(1, 21)]
    assert sorted(raw.body for raw in got) == sorted(_kept(tmp_path).values())
    assert len({raw.body for raw in got}) == 20


async def test_a_named_session_has_a_folder_of_its_own(tmp_path: Path) -> None:
    async with upstream(_saying("hello")) as live, proxy("record", tmp_path, live.url) as it:
        await ask(it.url, chat(path="/@unit-7/v1/chat/completions"))
        await ask(it.url, chat("hi", "x-llm-proxy-session: by.header"))
        await ask(it.url, chat())
    names = {path.relative_to(tmp_path / "cassettes").parts[0] for path in _files(tmp_path)}
    assert names == {"@unit-7", "@by.header", "openai-chat"}
    assert {cassette.meta.session for cassette in cassettes(tmp_path)} == {
        "unit-7",
        "by.header",
        "default",
    }
    assert all(b"x-llm-proxy" not in head.lower() for head, _ in live.requests)
    assert {head.split(b" ")[1] for head, _ in live.requests} == {b"/v1/chat/completions"}


def _files(folder: Path) -> list[Path]:
    return [path for path in (folder / "cassettes").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("400 Bad Request", b'{"error":{"message":"no such model"}}'),
        ("401 Unauthorized", b'{"error":{"message":"bad key"}}'),
        ("429 Too Many Requests", b'{"error":{"message":"slow down"}}'),
        ("500 Internal Server Error", b"<html>oops</html>"),
        ("503 Service Unavailable", b""),
    ],
    ids=["400", "401", "429", "500", "503"],
)
async def test_an_error_is_an_answer_as_any_other(tmp_path: Path, status: str, body: bytes) -> None:
    async with upstream(whole(body, status=status)) as live:
        async with proxy("record", tmp_path, live.url) as it:
            recorded = await ask(it.url, chat())
    async with proxy("replay", tmp_path, pace=INSTANT) as it:
        replayed = await ask(it.url, chat())
    assert f"{recorded.status} {recorded.reason}" == status
    assert recorded.body == body
    assert (replayed.status, replayed.reason, replayed.body) == (
        recorded.status,
        recorded.reason,
        body,
    )


BINARY = bytes(range(256)) * 40

OPAQUE = {
    "no body at all": (
        post("/v1/things/1", b"", method="DELETE"),
        whole(b"", status="204 No Content"),
    ),
    "an image": (post("/images/1.png?size=2", b"", method="GET"), whole(BINARY, "image/png")),
    "an upload": (
        post("/upload", BINARY, "Content-Type: application/octet-stream"),
        whole(b"ok"),
    ),
    "audio in chunks": (
        post("/v1/sounds", b'{"input":"hi"}'),
        chunked([BINARY, BINARY[::-1]]),
    ),
    "a redirect": (post("/old", b"", method="GET"), whole(b"", status="302 Found")),
    "a method of its own": (post("/x", b"body", method="PROPFIND"), whole(b"{}")),
}


@pytest.mark.parametrize("name", OPAQUE)
async def test_what_no_dialect_knows_is_kept_and_replayed_as_it_was(
    tmp_path: Path, name: str
) -> None:
    request, script = OPAQUE[name]
    async with upstream(script) as live, proxy("record", tmp_path, live.url) as it:
        recorded = await ask(it.url, request)
    [cassette] = cassettes(tmp_path)
    async with proxy("replay", tmp_path, pace=INSTANT) as it:
        replayed = await ask(it.url, request)
    assert cassette.meta.dialect == "opaque"
    assert cassette.end.ending is Ending.CLEAN
    assert (replayed.status, replayed.body) == (recorded.status, recorded.body)
    assert replayed.header("content-type") == recorded.header("content-type")
    [(_, body)] = live.requests
    assert body == request.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/chat/completions", ["error", "message"]),
        ("/api/chat", ["error"]),
        ("/v1/messages", ["error", "message"]),
    ],
)
async def test_an_upstream_that_is_not_there_is_a_502_in_the_shape_of_the_dialect(
    tmp_path: Path, nobody: str, path: str, shape: list[str]
) -> None:
    async with proxy("record", tmp_path, nobody) as it:
        raw = await ask(it.url, chat(path=path))
    value = json.loads(raw.body)
    for name in shape:
        value = value[name]
    assert raw.status == 502
    assert raw.header("x-llm-proxy-error") == "upstream_failed"
    assert raw.header("x-should-retry") is None
    assert f"{nobody}, cannot be reached" in value
    assert "check that it runs, or give --upstream" in value
    assert cassettes(tmp_path) == []


async def test_a_provider_without_an_address_is_a_502_that_names_the_option(
    tmp_path: Path,
) -> None:
    async with proxy("record", tmp_path) as it:
        raw = await ask(it.url, chat(path="/~my-own/v1/x"))
    assert raw.status == 502
    assert "--upstream my-own=URL" in json.loads(raw.body)["error"]["message"]


async def test_a_library_that_cannot_be_written_costs_the_recording_and_not_the_answer(
    tmp_path: Path,
) -> None:
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "cassettes" / "openai-chat").write_text("a file where a folder should be")
    async with upstream(_saying("hello")) as live:
        async with proxy("record", tmp_path, live.url) as it:
            raw = await ask(it.url, chat())
    assert raw.body == bodies([says("hello")])[0]
    [failure] = it.journal.failures
    assert "llm-proxy recover" in failure
    assert list((tmp_path / "spool").glob("*.spool"))


@pytest.mark.parametrize(
    "path",
    [
        "//openai/deployments/d/chat/completions",
        "/v1/agents/completions",
        "/v1/prompts/pp-1/completions",
        "/v1/rerank",
    ],
)
async def test_the_upstream_is_asked_for_the_very_path_that_the_client_asked_for(
    tmp_path: Path, path: str
) -> None:
    heads: list[bytes] = []

    async def script(connection: Connection) -> None:
        heads.append(connection.head)
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with upstream(script) as live, proxy("record", tmp_path, live.url) as recording:
        await ask(recording.url, post(path, b"{}"))
    [cassette] = cassettes(tmp_path)
    assert heads[0].partition(b" HTTP/")[0] == b"POST " + path.encode()
    assert cassette.request.path == path
