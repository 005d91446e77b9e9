"""What a named session plays that has no take of its own which could be played."""

from __future__ import annotations

from pathlib import Path

import pytest

from in_process_proxy import proxy
from llm_proxy.exchange import Ending
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.running.settings import MatchingOptions
from raw_http import ask
from stored_cassettes import Answer, bodies, chat, event, put, says
from stub_upstream import chunked, upstream

MINE = chat(path="/@mine/v1/chat/completions")
CUT = Answer(((1.0, event("half")),), Ending.FIN)
RUN = "3f2c8a1e-0d4b-4c6f-9a7e-5b1d2c3e4f5a"
UNFINISHED = Answer(((1.0, event("looks whole")),))


@pytest.mark.parametrize("own", [CUT, UNFINISHED], ids=["cut", "without [DONE]"])
async def test_a_session_with_a_partial_take_alone_plays_the_default_sessions(
    tmp_path: Path, own: Answer
) -> None:
    put(tmp_path, MINE, own)
    put(tmp_path, chat(), says("one"), says("two"))
    async with proxy("replay", tmp_path, pace=InstantPace()) as it:
        got = [await ask(it.url, MINE) for _ in range(2)]

    assert [raw.body for raw in got] == bodies([says("one"), says("two")])
    assert list(it.journal.misses) == []


async def test_a_session_plays_its_own_partial_take_where_that_is_asked_for(tmp_path: Path) -> None:
    put(tmp_path, MINE, CUT)
    put(tmp_path, chat(), says("one"))
    async with proxy("replay", tmp_path, pace=InstantPace(), allow_partial=True) as it:
        raw = await ask(it.url, MINE)

    assert (raw.body, raw.how) == (event("half"), "fin")


async def test_a_partial_take_that_nobody_stands_in_for_is_a_miss_that_names_it(
    tmp_path: Path,
) -> None:
    [path] = put(tmp_path, MINE, CUT)
    async with proxy("replay", tmp_path, pace=InstantPace()) as it:
        raw = await ask(it.url, MINE)

    assert raw.status == 424
    assert f"{path} answers this very request but is not complete" in raw.body.decode()


async def test_a_session_goes_on_behind_the_default_sessions_takes_also_by_other_rules(
    tmp_path: Path,
) -> None:
    mine = chat(RUN, path="/@mine/v1/chat/completions")
    put(tmp_path, chat(RUN), says("one"), says("two"))
    async with (
        upstream(chunked([*(data for _, data in says("three").reads)])) as stub,
        proxy("auto", tmp_path, stub.url, pace=InstantPace()) as recording,
    ):
        for _ in range(3):
            await ask(recording.url, mine)

    rules = MatchingOptions(rules=parse_rules(["uuids"]))
    async with proxy("replay", tmp_path, pace=InstantPace(), matching=rules) as it:
        got = [await ask(it.url, mine) for _ in range(3)]

    assert [raw.body for raw in got] == bodies([says("one"), says("two"), says("three")])
