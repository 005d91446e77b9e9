"""`record`: requests go upstream and are recorded; a failed run destroys no older takes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from case_tables import each_row
from in_process_proxy import load_cassettes, proxy
from llm_proxy.exchange import Ending
from llm_proxy.pacing import InstantPace
from raw_http import build_http_request, send_request
from stored_cassettes import (
    SSE_HEAD,
    StoredResponse,
    chat_event,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from stub_upstream import Connection, Script, chunked, fixed_length, upstream
from waiting import wait_until

INSTANT = InstantPace()


def _respond_with(text: str) -> Script:
    return chunked(response_bodies([text_response(text)]))


async def _break_off(connection: Connection) -> None:
    await connection.begin()
    await connection.chunk(chat_event("half"))
    connection.fin()


def _bodies_by_take(folder: Path) -> dict[str, bytes]:
    """Return the recorded bodies, by take number."""
    return {
        Path(cassette.file).stem.rpartition("-")[2]: cassette.response_body
        for cassette in load_cassettes(folder)
    }


class TestRenewal:
    async def test_new_takes_replace_the_older_ones(self, tmp_path: Path) -> None:
        write_cassettes(
            tmp_path,
            raw_chat_request(),
            text_response("old one"),
            text_response("old two"),
            text_response("old three"),
        )
        async with upstream(_respond_with("new one"), _respond_with("new two")) as provider:
            async with proxy("record", tmp_path, provider.url) as server:
                for _ in range(2):
                    await send_request(server.url, raw_chat_request())
        first_body, second_body = response_bodies(
            [text_response("new one"), text_response("new two")]
        )
        assert _bodies_by_take(tmp_path) == {"1": first_body, "2": second_body}

    async def test_the_older_takes_stay_until_the_first_new_one_is_complete(
        self, tmp_path: Path
    ) -> None:
        write_cassettes(
            tmp_path, raw_chat_request(), text_response("old one"), text_response("old two")
        )
        async with upstream(_break_off) as provider:
            async with proxy("record", tmp_path, provider.url) as server:
                await send_request(server.url, raw_chat_request())
        first_body, second_body = response_bodies(
            [text_response("old one"), text_response("old two")]
        )
        assert _bodies_by_take(tmp_path) == {
            "1": first_body,
            "2": second_body,
            "3": chat_event("half"),
        }
        async with proxy("replay", tmp_path, pace=INSTANT) as server:
            assert (await send_request(server.url, raw_chat_request())).body == first_body

    @pytest.mark.parametrize("status", ["401 Unauthorized", "404 Not Found", "503 Busy"])
    async def test_an_error_does_not_replace_a_success(
        self, tmp_path: Path, status: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        write_cassettes(
            tmp_path, raw_chat_request(), text_response("old one"), text_response("old two")
        )
        error = fixed_length(b'{"error": {"message": "no"}}', status=status)
        async with upstream(error, error) as provider:
            async with proxy("record", tmp_path, provider.url) as server:
                for _ in range(2):
                    await send_request(server.url, raw_chat_request())
        first_body, second_body = response_bodies(
            [text_response("old one"), text_response("old two")]
        )
        bodies = _bodies_by_take(tmp_path)
        assert (bodies.pop("1"), bodies.pop("2")) == (first_body, second_body)
        assert bodies == dict.fromkeys(("3", "4"), b'{"error": {"message": "no"}}')
        [warning] = [item for item in caplog.messages if "kept" in item]
        assert warning.endswith(
            f"-3.jsonl: kept the older takes because this response is an error (HTTP {status[:3]});"
            " to replay only the older takes, delete this file"
        )

    async def test_an_error_in_a_stream_does_not_replace_a_success(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("old"))
        error = chunked([chat_event("half"), b'data: {"error": {"message": "no"}}\n\n'])
        async with upstream(error) as provider:
            async with proxy("record", tmp_path, provider.url) as server:
                await send_request(server.url, raw_chat_request())
        assert _bodies_by_take(tmp_path)["1"] == response_bodies([text_response("old")])[0]

    async def test_an_error_takes_the_place_of_one_of_an_earlier_run_with_its_status(
        self, tmp_path: Path
    ) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("old"))
        for body, status in ((b"[1]", "503 Busy"), (b"[2]", "401 No"), (b"[3]", "401 No")):
            async with upstream(fixed_length(body, status=status)) as provider:
                async with proxy("record", tmp_path, provider.url) as server:
                    await send_request(server.url, raw_chat_request())
        [old_body] = response_bodies([text_response("old")])
        assert _bodies_by_take(tmp_path) == {"1": old_body, "2": b"[1]", "3": b"[3]"}

    async def test_an_error_before_the_new_success_becomes_take_1(self, tmp_path: Path) -> None:
        write_cassettes(
            tmp_path, raw_chat_request(), text_response("old one"), text_response("old two")
        )
        error = fixed_length(b"{}", status="429 Slow Down")
        async with upstream(error, _respond_with("new two"), error) as provider:
            async with proxy("record", tmp_path, provider.url) as server:
                for _ in range(3):
                    await send_request(server.url, raw_chat_request())
        [new_body] = response_bodies([text_response("new two")])
        assert _bodies_by_take(tmp_path) == {"1": b"{}", "2": new_body, "3": b"{}"}

    @pytest.mark.parametrize(
        "old",
        [
            replace(text_response("old"), head=replace(SSE_HEAD, status=401)),
            replace(text_response("old"), ending=Ending.RST),
        ],
        ids=["an error", "an incomplete take"],
    )
    async def test_an_error_replaces_what_is_no_complete_success(
        self, tmp_path: Path, old: StoredResponse
    ) -> None:
        write_cassettes(tmp_path, raw_chat_request(), old)
        async with upstream(fixed_length(b"{}", status="404 Not Found")) as provider:
            async with proxy("record", tmp_path, provider.url) as server:
                await send_request(server.url, raw_chat_request())
        assert _bodies_by_take(tmp_path) == {"1": b"{}"}

    async def test_a_run_that_recovers_replaces_them_and_keeps_its_own_order(
        self, tmp_path: Path
    ) -> None:
        write_cassettes(
            tmp_path,
            raw_chat_request(),
            text_response("old one"),
            text_response("old two"),
            text_response("old three"),
        )
        async with upstream(_break_off, _respond_with("new two")) as provider:
            async with proxy("record", tmp_path, provider.url) as server:
                for _ in range(2):
                    await send_request(server.url, raw_chat_request())
        assert _bodies_by_take(tmp_path) == {
            "1": chat_event("half"),
            "2": response_bodies([text_response("new two")])[0],
        }

    async def test_only_the_takes_of_that_key_and_session_are_replaced(
        self, tmp_path: Path
    ) -> None:
        scoped = raw_chat_request(path="/@mine/v1/chat/completions")
        for request in (raw_chat_request(), raw_chat_request("other"), scoped):
            write_cassettes(tmp_path, request, text_response("old"))
        async with upstream(_respond_with("new")) as provider:
            async with proxy("record", tmp_path, provider.url) as server:
                await send_request(server.url, raw_chat_request())
        bodies_by_request = {
            (
                cassette.meta.session,
                json.loads(cassette.request.body)["messages"][0]["content"],
            ): cassette.response_body
            for cassette in load_cassettes(tmp_path)
        }
        old, new = response_bodies([text_response("old"), text_response("new")])
        assert bodies_by_request == {
            ("default", "hi"): new,
            ("default", "other"): old,
            ("mine", "hi"): old,
        }

    async def test_a_take_that_a_person_put_elsewhere_is_replaced_there(
        self, tmp_path: Path
    ) -> None:
        [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("old"))
        moved = tmp_path / "cassettes" / "by hand" / path.name
        moved.parent.mkdir()
        path.rename(moved)
        async with upstream(_respond_with("new")) as provider:
            async with proxy("record", tmp_path, provider.url) as server:
                await send_request(server.url, raw_chat_request())
        assert _bodies_by_take(tmp_path) == {"1": response_bodies([text_response("new")])[0]}
        assert not moved.exists()

    async def test_a_request_that_the_upstream_did_not_answer_leaves_all_as_it_was(
        self, tmp_path: Path
    ) -> None:
        async def close_at_once(connection: Connection) -> None:
            connection.fin()

        [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("old"))
        before = path.read_bytes()
        async with (
            upstream(close_at_once) as provider,
            proxy("record", tmp_path, provider.url) as server,
        ):
            assert (await send_request(server.url, raw_chat_request())).status == 502
        assert [path.read_bytes()] == [before]
        assert len(load_cassettes(tmp_path)) == 1


async def test_takes_are_numbered_by_the_arrival_of_their_requests(tmp_path: Path) -> None:
    release_first = asyncio.Event()

    async def respond_when_released(connection: Connection) -> None:
        await release_first.wait()
        await _respond_with("first")(connection)

    async with upstream(respond_when_released, _respond_with("second")) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            first = asyncio.create_task(send_request(server.url, raw_chat_request()))
            await wait_until(lambda: len(provider.requests) == 1)
            second = await send_request(server.url, raw_chat_request())
            release_first.set()
            await first
    first_body, second_body = response_bodies([text_response("first"), text_response("second")])
    assert second.body == second_body
    assert _bodies_by_take(tmp_path) == {"1": first_body, "2": second_body}


async def test_twenty_identical_requests_at_once_are_twenty_takes(tmp_path: Path) -> None:
    async def respond_with_number(connection: Connection) -> None:
        await _respond_with(f"answer {connection.number}")(connection)

    async with (
        upstream(respond_with_number) as provider,
        proxy("record", tmp_path, provider.url) as server,
    ):
        responses = await asyncio.gather(
            *(send_request(server.url, raw_chat_request()) for _ in range(20))
        )
    assert sorted(_bodies_by_take(tmp_path), key=int) == [str(number) for number in range(1, 21)]
    assert sorted(raw.body for raw in responses) == sorted(_bodies_by_take(tmp_path).values())
    assert len({raw.body for raw in responses}) == 20


async def test_a_named_session_has_a_folder_of_its_own(tmp_path: Path) -> None:
    async with (
        upstream(_respond_with("hello")) as provider,
        proxy("record", tmp_path, provider.url) as server,
    ):
        await send_request(server.url, raw_chat_request(path="/@unit-7/v1/chat/completions"))
        await send_request(server.url, raw_chat_request("hi", "x-llm-proxy-session: by.header"))
        await send_request(server.url, raw_chat_request())
    names = {path.relative_to(tmp_path / "cassettes").parts[0] for path in _files(tmp_path)}
    assert names == {"@unit-7", "@by.header", "openai-chat"}
    assert {cassette.meta.session for cassette in load_cassettes(tmp_path)} == {
        "unit-7",
        "by.header",
        "default",
    }
    assert all(b"x-llm-proxy" not in head.lower() for head, _ in provider.requests)
    assert {head.split(b" ")[1] for head, _ in provider.requests} == {b"/v1/chat/completions"}


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
async def test_an_error_is_recorded_and_replayed_like_any_response(
    tmp_path: Path, status: str, body: bytes
) -> None:
    async with upstream(fixed_length(body, status=status)) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            recorded = await send_request(server.url, raw_chat_request())
    async with proxy("replay", tmp_path, pace=INSTANT) as server:
        replayed = await send_request(server.url, raw_chat_request())
    assert f"{recorded.status} {recorded.reason}" == status
    assert recorded.body == body
    assert (replayed.status, replayed.reason, replayed.body) == (
        recorded.status,
        recorded.reason,
        body,
    )


BINARY = bytes(range(256)) * 40

OPAQUE_EXCHANGES = {
    "no body at all": (
        build_http_request("/v1/things/1", b"", method="DELETE"),
        fixed_length(b"", status="204 No Content"),
    ),
    "an image": (
        build_http_request("/images/1.png?size=2", b"", method="GET"),
        fixed_length(BINARY, "image/png"),
    ),
    "an upload": (
        build_http_request("/upload", BINARY, "Content-Type: application/octet-stream"),
        fixed_length(b"ok"),
    ),
    "audio in chunks": (
        build_http_request("/v1/sounds", b'{"input":"hi"}'),
        chunked([BINARY, BINARY[::-1]]),
    ),
    "a redirect": (
        build_http_request("/old", b"", method="GET"),
        fixed_length(b"", status="302 Found"),
    ),
    "a method of its own": (
        build_http_request("/x", b"body", method="PROPFIND"),
        fixed_length(b"{}"),
    ),
}


@pytest.mark.parametrize("name", OPAQUE_EXCHANGES)
async def test_an_exchange_of_no_known_dialect_is_recorded_and_replayed_unchanged(
    tmp_path: Path, name: str
) -> None:
    request, script = OPAQUE_EXCHANGES[name]
    async with upstream(script) as provider, proxy("record", tmp_path, provider.url) as server:
        recorded = await send_request(server.url, request)
    [cassette] = load_cassettes(tmp_path)
    async with proxy("replay", tmp_path, pace=INSTANT) as server:
        replayed = await send_request(server.url, request)
    assert cassette.meta.dialect == "opaque"
    assert cassette.response_end.ending is Ending.CLEAN
    assert (replayed.status, replayed.body) == (recorded.status, recorded.body)
    assert replayed.header("content-type") == recorded.header("content-type")
    [(_, body)] = provider.requests
    assert body == request.partition(b"\r\n\r\n")[2]


@each_row(
    ("path", "shape"),
    [
        ("/v1/chat/completions", ["error", "message"]),
        ("/api/chat", ["error"]),
        ("/v1/messages", ["error", "message"]),
    ],
)
async def test_an_upstream_that_is_not_there_is_a_502_in_the_shape_of_the_dialect(
    tmp_path: Path, unreachable_url: str, path: str, shape: list[str]
) -> None:
    async with proxy("record", tmp_path, unreachable_url) as server:
        raw = await send_request(server.url, raw_chat_request(path=path))
    value = json.loads(raw.body)
    for name in shape:
        value = value[name]
    assert raw.status == 502
    assert raw.header("x-llm-proxy-error") == "upstream_failed"
    assert raw.header("x-should-retry") is None
    assert f"the upstream {unreachable_url} (provider " in value
    assert "cannot be reached" in value
    assert "check that the upstream is running, or set --upstream" in value
    assert load_cassettes(tmp_path) == []


async def test_a_provider_without_an_address_is_a_502_that_names_the_option(
    tmp_path: Path,
) -> None:
    async with proxy("record", tmp_path) as server:
        raw = await send_request(server.url, raw_chat_request(path="/~my-own/v1/x"))
    assert raw.status == 502
    assert "--upstream my-own=URL" in json.loads(raw.body)["error"]["message"]


async def test_a_library_that_cannot_be_written_costs_the_recording_and_not_the_answer(
    tmp_path: Path,
) -> None:
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "cassettes" / "openai-chat").write_text("a file where a folder should be")
    async with upstream(_respond_with("hello")) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            raw = await send_request(server.url, raw_chat_request())
    assert raw.body == response_bodies([text_response("hello")])[0]
    [failure] = server.journal.recording_failures
    assert "llm-proxy recover" in failure
    assert list((tmp_path / "spool").glob("*.spool"))


async def test_the_upstream_request_and_the_cassette_have_the_exact_path_of_the_client(
    tmp_path: Path,
) -> None:
    paths = [
        "//openai/deployments/d/chat/completions",
        "/v1/agents/completions",
        "/v1/prompts/pp-1/completions",
        "/v1/rerank",
    ]
    async with upstream(fixed_length(b"{}")) as provider:
        async with proxy("record", tmp_path, provider.url) as recording:
            for path in paths:
                await send_request(recording.url, build_http_request(path, b"{}"))
    assert [head.partition(b" HTTP/")[0] for head, _ in provider.requests] == [
        b"POST " + path.encode() for path in paths
    ]
    assert sorted(cassette.request.path for cassette in load_cassettes(tmp_path)) == paths
