"""`--session` and LLM_PROXY_SESSION: the session of requests that name none."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_process import serving
from in_process_proxy import proxy
from llm_proxy.shell.running.settings import MatchingOptions
from raw_http import ask
from stored_cassettes import DONE, bodies, chat, event, put, says
from stub_upstream import chunked, upstream

MINE = MatchingOptions(session="mine")


def folders(folder: Path) -> list[str]:
    """The first folders in the library of all cassettes."""
    root = folder / "cassettes"
    return sorted(path.relative_to(root).parts[0] for path in root.rglob("*.jsonl"))


async def test_it_is_recorded_below_its_own_folder(tmp_path: Path) -> None:
    async with upstream(chunked([event("hi"), DONE])) as live:
        async with proxy("record", tmp_path, live.url, matching=MINE) as it:
            await ask(it.url, chat())

    assert folders(tmp_path) == ["@mine"]


async def test_a_request_that_names_a_session_keeps_it(tmp_path: Path) -> None:
    async with upstream(chunked([event("hi"), DONE])) as live:
        async with proxy("record", tmp_path, live.url, matching=MINE) as it:
            await ask(it.url, chat("a", "x-llm-proxy-session: by-header"))
            await ask(it.url, chat("b", path="/@by-path/v1/chat/completions"))
            await ask(it.url, chat("c", "x-llm-proxy-session: default"))

    assert folders(tmp_path) == ["@by-header", "@by-path", "openai-chat"]


async def test_its_own_takes_are_replayed_and_the_default_sessions_where_it_has_none(
    tmp_path: Path,
) -> None:
    put(tmp_path, chat("a"), says("of default"))
    put(tmp_path, chat("a", "x-llm-proxy-session: mine"), says("of mine"))
    put(tmp_path, chat("b"), says("of default"))

    async with proxy("replay", tmp_path, matching=MINE) as it:
        answers = [(await ask(it.url, chat(content))).body for content in "ab"]
        named = (await ask(it.url, chat("a", "x-llm-proxy-session: default"))).body

    assert answers == bodies([says("of mine"), says("of default")])
    assert named == bodies([says("of default")])[0]


@pytest.mark.parametrize("how", ["option", "environment"])
async def test_it_is_given_as_an_option_or_in_the_environment(tmp_path: Path, how: str) -> None:
    put(tmp_path, chat("a"), says("of default"))
    put(tmp_path, chat("a", "x-llm-proxy-session: mine"), says("of mine"))
    options = ("--session", "mine") if how == "option" else ()
    more = {} if how == "option" else {"LLM_PROXY_SESSION": "mine"}

    async with serving("replay", *options, folder=tmp_path, env=more) as it:
        answer = (await ask(it.url, chat("a"))).body

    assert answer == bodies([says("of mine")])[0]
