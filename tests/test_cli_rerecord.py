"""`llm-proxy rerecord`: sends recorded requests again and replaces their cassettes."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from case_tables import each_row
from cli_process import CommandResult, run_command, running_command
from in_process_proxy import proxy
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Ending
from llm_proxy.shell import reissuing
from llm_proxy.shell.library.library import Library, TakeGroup, walk_cassettes
from llm_proxy.shell.reissuing import ReissueSettings, open_reissuer, replace_takes
from llm_proxy.shell.upstream.live import UpstreamSettings
from raw_http import build_http_request
from sdk_clients import openai_stream
from stored_cassettes import (
    StoredResponse,
    chat_event,
    key_of_request,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from stub_upstream import Connection, Script, chunked, fixed_length, upstream

KEY = key_of_request(raw_chat_request())[:16]
RESPONSE_BODIES = {
    text: response_bodies([text_response(text)])[0] for text in ("one", "two", "new", "newer")
}


def respond_with(text: str) -> Script:
    return chunked([RESPONSE_BODIES[text]])


async def truncated_response(connection: Connection) -> None:
    await connection.begin()
    await connection.chunk(chat_event("half"))
    connection.fin()


def cassette_bodies(folder: Path) -> dict[str, bytes]:
    """The bodies of a library, by file stem."""
    library = Library(folder / "cassettes")
    return {
        path.stem: library.load_cassette(path).response_body
        for path in walk_cassettes(library.root)
    }


async def run_rerecord(folder: Path, *arguments: str, scripts: tuple[Script, ...]) -> CommandResult:
    async with upstream(*scripts) as provider:
        return await run_command(
            "rerecord", *arguments, "--upstream", f"default={provider.url}", folder=folder
        )


async def test_an_official_client_receives_the_new_response(tmp_path: Path) -> None:
    async with (
        upstream(respond_with("one")) as provider,
        proxy("record", tmp_path, provider.url) as server,
    ):
        await openai_stream(server.url, "hi", 0)
    result = await run_rerecord(tmp_path, "openai-chat", scripts=(respond_with("new"),))

    async with proxy("replay", tmp_path) as server:
        chunks = await openai_stream(server.url, "hi", 0)

    assert result.exit_code == 0, result.stderr
    assert [chunk["choices"][0]["delta"]["content"] for chunk in chunks] == ["new"]


async def test_all_takes_of_a_request_are_rerecorded_in_order(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"), text_response("two"))

    result = await run_rerecord(tmp_path, KEY, scripts=(respond_with("new"), respond_with("newer")))

    assert result.exit_code == 0, result.stderr
    assert cassette_bodies(tmp_path) == {
        f"{KEY}-1": RESPONSE_BODIES["new"],
        f"{KEY}-2": RESPONSE_BODIES["newer"],
    }
    assert result.stderr.endswith("llm-proxy: 2 takes re-recorded\n")
    assert [path.name for path in (tmp_path / "cassettes").iterdir()] == ["openai-chat"]


async def test_a_session_keeps_its_takes(tmp_path: Path) -> None:
    write_cassettes(
        tmp_path, raw_chat_request(path="/@one/v1/chat/completions"), text_response("one")
    )
    [other_path] = write_cassettes(tmp_path, raw_chat_request(), text_response("two"))

    result = await run_rerecord(tmp_path, "--session", "one", scripts=(respond_with("new"),))

    assert result.exit_code == 0, result.stderr
    [path] = (tmp_path / "cassettes" / "@one").rglob("*.jsonl")
    assert b'"session":"one"' in path.read_bytes()
    assert Library(tmp_path).load_cassette(path).response_body == RESPONSE_BODIES["new"]
    assert "two" in other_path.read_text()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            truncated_response,
            (
                "the new response is partial: the upstream closed the connection early; "
                "the old take is kept"
            ),
        ),
        (
            fixed_length(b'{"error":{"message":"Bad key"}}', status="401 Unauthorized"),
            "the new response is an error, 401 Unauthorized: Bad key; the old take is kept",
        ),
    ],
    ids=["partial", "an error"],
)
async def test_old_takes_stay_where_one_of_the_new_ones_is_no_better(
    tmp_path: Path, script: Script, reason: str
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"), text_response("two"))
    before = cassette_bodies(tmp_path)

    result = await run_rerecord(tmp_path, "--all", scripts=(respond_with("new"), script))

    assert result.exit_code == 1
    assert result.stdout == f"failed: cassettes/openai-chat/m/{KEY}-2.jsonl: {reason}\n"
    assert result.stderr.endswith("llm-proxy: 0 takes re-recorded; 1 request failed\n")
    assert cassette_bodies(tmp_path) == before


async def test_a_partial_take_is_replaced_by_a_whole_one(tmp_path: Path) -> None:
    write_cassettes(
        tmp_path, raw_chat_request(), StoredResponse(((1.0, chat_event("half")),), Ending.RST)
    )
    write_cassettes(tmp_path, raw_chat_request("other"), text_response("two"))

    result = await run_rerecord(tmp_path, "--partial", scripts=(respond_with("new"),))

    assert result.exit_code == 0, result.stderr
    other = key_of_request(raw_chat_request("other"))[:16]
    assert cassette_bodies(tmp_path) == {
        f"{KEY}-1": RESPONSE_BODIES["new"],
        f"{other}-1": RESPONSE_BODIES["two"],
    }


async def test_a_file_of_another_name_or_other_rules_gets_the_name_of_its_key(
    tmp_path: Path,
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"), name="by-hand.jsonl")
    write_cassettes(tmp_path, raw_chat_request("other"), text_response("two"), key_rules=1)

    result = await run_rerecord(tmp_path, "--all", scripts=(respond_with("new"),))

    assert result.exit_code == 0, result.stderr
    other = key_of_request(raw_chat_request("other"))[:16]
    assert cassette_bodies(tmp_path) == {
        f"{KEY}-1": RESPONSE_BODIES["new"],
        f"{other}-1": RESPONSE_BODIES["new"],
    }


async def test_several_requests_are_sent_concurrently(tmp_path: Path) -> None:
    for number in range(5):
        write_cassettes(tmp_path, raw_chat_request(str(number)), text_response("one"))

    result = await run_rerecord(
        tmp_path, "--all", "--jobs", "3", "--json", scripts=(respond_with("new"),)
    )

    document = json.loads(result.stdout)
    assert result.exit_code == 0, result.stderr
    assert set(cassette_bodies(tmp_path).values()) == {RESPONSE_BODIES["new"]}
    assert [request["failure"] for request in document["requests"]] == [None] * 5
    assert all(request["new"] == request["old"] for request in document["requests"])


async def test_a_dry_run_sends_nothing_and_needs_no_key(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"), text_response("two"))
    write_cassettes(
        tmp_path, build_http_request("/v1/messages", b'{"model":"claude"}'), text_response("three")
    )

    result = await run_command("rerecord", "--dialect", "openai-chat", "--dry-run", folder=tmp_path)

    assert (result.exit_code, result.stdout) == (
        0,
        f"openai-chat/m/{KEY}-1.jsonl\nopenai-chat/m/{KEY}-2.jsonl\n",
    )
    assert result.stderr == "llm-proxy: would re-record 2 takes\n"


async def test_a_request_with_a_secret_taken_out_is_refused_by_name(tmp_path: Path) -> None:
    secret = "sk-secret-secret"
    write_cassettes(
        tmp_path, raw_chat_request(secret, f"Authorization: Bearer {secret}"), text_response("one")
    )
    write_cassettes(tmp_path, raw_chat_request(), text_response("two"))

    result = await run_rerecord(tmp_path, "--all", scripts=(respond_with("new"),))

    assert result.exit_code == 1
    assert (
        ".jsonl:2: the recorded request contains [redacted] in place of a secret" in result.stdout
    )
    assert cassette_bodies(tmp_path)[f"{KEY}-1"] == RESPONSE_BODIES["new"]


@each_row(
    ("arguments", "reason"),
    [
        ((), "no cassettes selected; specify cassettes, a filter, or --all"),
        (("--all",), "no API key for openai; set OPENAI_API_KEY, or --upstream op"),
        (("nothing",), "no cassette 'nothing' in ./cassettes; "),
    ],
    ids=["no choice", "no key", "no such name"],
)
async def test_unusable_arguments_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"))

    result = await run_command("rerecord", *arguments, folder=tmp_path)

    assert result.exit_code == 2
    assert reason in result.last_error_line


async def test_a_take_that_somebody_else_put_there_is_never_replaced(tmp_path: Path) -> None:
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("one"))

    async def record_other_take(connection: Connection) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("two"), first_take=2)
        await respond_with("new")(connection)

    async with upstream(record_other_take) as provider:
        write_cassettes(tmp_path, raw_chat_request(), text_response("one"), name="by-hand.jsonl")
        result = await run_command(
            "rerecord", KEY, "--upstream", f"default={provider.url}", folder=tmp_path
        )

    assert result.exit_code == 1
    assert f"{KEY}-2.jsonl is not one of the replaced takes" in result.stdout
    assert cassette_bodies(tmp_path) == {
        f"{KEY}-1": RESPONSE_BODIES["one"],
        "by-hand": RESPONSE_BODIES["one"],
        f"{KEY}-2": RESPONSE_BODIES["two"],
    }
    assert path.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_run_leaves_the_library_unchanged(
    tmp_path: Path, number: signal.Signals
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"))
    request_received = asyncio.Event()

    async def hang(connection: Connection) -> None:
        await connection.begin()
        request_received.set()
        await connection.reader.read()

    async with upstream(hang) as provider:
        arguments = ("rerecord", "--all", "--upstream", f"default={provider.url}")
        async with running_command(*arguments, folder=tmp_path) as running:
            async with asyncio.timeout(10):
                await request_received.wait()
            running.send(number)
            result = await running.wait_for_end()

    assert result.exit_code == 130
    assert cassette_bodies(tmp_path) == {f"{KEY}-1": RESPONSE_BODIES["one"]}
    assert [path.name for path in (tmp_path / "cassettes").iterdir()] == ["openai-chat"]


async def test_takes_that_are_being_replaced_are_replaced_together_when_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_cassettes(
        tmp_path, raw_chat_request(), text_response("one"), text_response("two")
    )
    loop, replacement_started, stopped = (
        asyncio.get_running_loop(),
        asyncio.Event(),
        threading.Event(),
    )

    def slow_replace_takes(*arguments: Any) -> list[Path]:
        loop.call_soon_threadsafe(replacement_started.set)
        stopped.wait()
        return replace_takes(*arguments)

    monkeypatch.setattr(reissuing, "replace_takes", slow_replace_takes)
    async with upstream(respond_with("new"), respond_with("newer")) as provider:
        reissue_settings = ReissueSettings(UpstreamSettings({"default": provider.url}))
        group = TakeGroup("default", KEY, "openai", tuple(paths))
        library = Library(tmp_path / "cassettes")
        async with aclosing(
            reissuing.rerecord_groups(reissue_settings, library, [group], 1)
        ) as results:
            first = asyncio.ensure_future(anext(results))
            await replacement_started.wait()
            first.cancel()
            for _ in range(100):  # the folder of the new takes must survive these loop passes
                await asyncio.sleep(0)
            stopped.set()
            with pytest.raises(asyncio.CancelledError):
                await first

    assert cassette_bodies(tmp_path) == {
        f"{KEY}-1": RESPONSE_BODIES["new"],
        f"{KEY}-2": RESPONSE_BODIES["newer"],
    }


async def test_a_read_only_library_is_reported_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    gone = Library(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"cannot write .*gone: .*; no request was sent"):
        async with open_reissuer(ReissueSettings(UpstreamSettings({})), gone):
            pass
