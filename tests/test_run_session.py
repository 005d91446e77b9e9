"""`--session` and LLM_PROXY_SESSION: the session of requests that do not name one."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_process import running_server
from in_process_proxy import proxy
from raw_http import send_request
from stored_cassettes import (
    DONE_EVENT,
    chat_event,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from stub_upstream import chunked, upstream


def cassette_folders(folder: Path) -> list[str]:
    """Return the top-level library folder of each cassette."""
    root = folder / "cassettes"
    return sorted(path.relative_to(root).parts[0] for path in root.rglob("*.jsonl"))


async def test_a_session_is_recorded_below_its_own_folder(tmp_path: Path) -> None:
    async with upstream(chunked([chat_event("hi"), DONE_EVENT])) as provider:
        async with proxy("record", tmp_path, provider.url, session="mine") as server:
            await send_request(server.url, raw_chat_request())

    assert cassette_folders(tmp_path) == ["@mine"]


async def test_a_request_that_names_a_session_keeps_it(tmp_path: Path) -> None:
    async with upstream(chunked([chat_event("hi"), DONE_EVENT])) as provider:
        async with proxy("record", tmp_path, provider.url, session="mine") as server:
            await send_request(server.url, raw_chat_request("a", "x-llm-proxy-session: by-header"))
            await send_request(
                server.url, raw_chat_request("b", path="/@by-path/v1/chat/completions")
            )
            await send_request(server.url, raw_chat_request("c", "x-llm-proxy-session: default"))

    assert cassette_folders(tmp_path) == ["@by-header", "@by-path", "openai-chat"]


async def test_its_own_takes_are_replayed_and_the_default_sessions_where_it_has_none(
    tmp_path: Path,
) -> None:
    write_cassettes(tmp_path, raw_chat_request("a"), text_response("of default"))
    write_cassettes(
        tmp_path, raw_chat_request("a", "x-llm-proxy-session: mine"), text_response("of mine")
    )
    write_cassettes(tmp_path, raw_chat_request("b"), text_response("of default"))

    async with proxy("replay", tmp_path, session="mine") as server:
        answers = [
            (await send_request(server.url, raw_chat_request(content))).body for content in "ab"
        ]
        named = (
            await send_request(server.url, raw_chat_request("a", "x-llm-proxy-session: default"))
        ).body

    assert answers == response_bodies([text_response("of mine"), text_response("of default")])
    assert named == response_bodies([text_response("of default")])[0]


@pytest.mark.parametrize("source", ["option", "environment"])
async def test_the_session_is_given_as_an_option_or_in_the_environment(
    tmp_path: Path, source: str
) -> None:
    write_cassettes(tmp_path, raw_chat_request("a"), text_response("of default"))
    write_cassettes(
        tmp_path, raw_chat_request("a", "x-llm-proxy-session: mine"), text_response("of mine")
    )
    options = ("--session", "mine") if source == "option" else ()
    variables = {} if source == "option" else {"LLM_PROXY_SESSION": "mine"}

    async with running_server("replay", *options, folder=tmp_path, env=variables) as server:
        answer = (await send_request(server.url, raw_chat_request("a"))).body

    assert answer == response_bodies([text_response("of mine")])[0]
