"""What a named session replays when it has no playable take of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from in_process_proxy import proxy
from llm_proxy.exchange import Ending
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.pacing import InstantPace
from raw_http import send_request
from stored_cassettes import (
    StoredResponse,
    chat_event,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from stub_upstream import chunked, upstream

SCOPED_REQUEST = raw_chat_request(path="/@mine/v1/chat/completions")
TRUNCATED_RESPONSE = StoredResponse(((1.0, chat_event("half")),), Ending.FIN)
RUN_ID = "3f2c8a1e-0d4b-4c6f-9a7e-5b1d2c3e4f5a"
UNFINISHED_RESPONSE = StoredResponse(((1.0, chat_event("looks whole")),))


@pytest.mark.parametrize(
    "own_response", [TRUNCATED_RESPONSE, UNFINISHED_RESPONSE], ids=["cut", "without [DONE]"]
)
async def test_a_session_with_a_partial_take_alone_plays_the_default_sessions(
    tmp_path: Path, own_response: StoredResponse
) -> None:
    write_cassettes(tmp_path, SCOPED_REQUEST, own_response)
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"), text_response("two"))
    async with proxy("replay", tmp_path, pace=InstantPace()) as server:
        received = [await send_request(server.url, SCOPED_REQUEST) for _ in range(2)]

    assert [response.body for response in received] == response_bodies(
        [text_response("one"), text_response("two")]
    )
    assert list(server.journal.misses) == []


async def test_a_session_plays_its_own_partial_take_where_that_is_asked_for(tmp_path: Path) -> None:
    write_cassettes(tmp_path, SCOPED_REQUEST, TRUNCATED_RESPONSE)
    write_cassettes(tmp_path, raw_chat_request(), text_response("one"))
    async with proxy("replay", tmp_path, pace=InstantPace(), allow_partial=True) as server:
        response = await send_request(server.url, SCOPED_REQUEST)

    assert (response.body, response.ending) == (chat_event("half"), "fin")


async def test_a_partial_take_without_a_substitute_is_a_miss_that_names_it(
    tmp_path: Path,
) -> None:
    [path] = write_cassettes(tmp_path, SCOPED_REQUEST, TRUNCATED_RESPONSE)
    async with proxy("replay", tmp_path, pace=InstantPace()) as server:
        response = await send_request(server.url, SCOPED_REQUEST)

    assert response.status == 424
    assert f"{path} matches, but is incomplete" in response.body.decode()


async def test_a_session_continues_after_the_default_sessions_takes_also_by_other_rules(
    tmp_path: Path,
) -> None:
    scoped_request = raw_chat_request(RUN_ID, path="/@mine/v1/chat/completions")
    write_cassettes(tmp_path, raw_chat_request(RUN_ID), text_response("one"), text_response("two"))
    async with (
        upstream(chunked([*(data for _, data in text_response("three").reads)])) as stub,
        proxy("auto", tmp_path, stub.url, pace=InstantPace()) as recording,
    ):
        for _ in range(3):
            await send_request(recording.url, scoped_request)

    match_rules = parse_rules(["uuids"])
    async with proxy("replay", tmp_path, pace=InstantPace(), match_rules=match_rules) as server:
        received = [await send_request(server.url, scoped_request) for _ in range(3)]

    assert [response.body for response in received] == response_bodies(
        [text_response("one"), text_response("two"), text_response("three")]
    )
