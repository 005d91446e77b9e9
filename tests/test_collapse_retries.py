"""`--collapse-retries`: a request that an SDK repeats is the one that it repeats."""

from __future__ import annotations

import asyncio
from pathlib import Path

import openai
import pytest

from in_process_proxy import cassettes, proxy
from llm_proxy.exchange import Ending
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.shell.running.settings import MatchingOptions
from llm_proxy.shell.running.sources import ModeName
from llm_proxy.shell.server.retries import RetryTracker
from llm_proxy.take_numbers import LogicalRequest, RequestCounter
from raw_http import ask
from sdk_clients import openai_client
from stored_cassettes import DONE, Answer, bodies, call, chat, event, put, says
from stub_upstream import Connection, Script, chunked, upstream

COLLAPSED = MatchingOptions(collapse_retries=True)


async def limited(connection: Connection) -> None:
    """A 429 after which an SDK asks again at once."""
    body = b'{"error":{"message":"slow down","type":"rate_limit"}}'
    connection.writer.write(
        b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n"
        b"retry-after-ms: 1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    await connection.writer.drain()


def stream(text: str) -> Script:
    """An answer that says this."""
    return chunked([event(text), DONE])


async def broken(connection: Connection) -> None:
    """An answer that breaks off."""
    await connection.begin()
    await connection.chunk(event("x"))
    connection.writer.transport.abort()


async def say(client: openai.AsyncOpenAI, content: str = "hi") -> str:
    """What the model says to this."""
    pieces = await client.chat.completions.create(
        model="m", stream=True, messages=[{"role": "user", "content": content}]
    )
    return "".join(
        [piece.choices[0].delta.content or "" async for piece in pieces if piece.choices]
    )


def shelf(folder: Path) -> list[tuple[str, int]]:
    """The take number and the status of each cassette."""
    return [
        (Path(cassette.file).stem.rpartition("-")[2], cassette.head.status)
        for cassette in cassettes(folder)
    ]


@pytest.mark.parametrize("mode", ["record", "auto"])
async def test_a_failed_attempt_leaves_no_cassette_beside_that_of_the_answer(
    tmp_path: Path, mode: ModeName
) -> None:
    async with upstream(limited, limited, stream("a"), limited, stream("b")) as live:
        async with proxy(mode, tmp_path, live.url, matching=COLLAPSED) as it:
            async with openai_client(it.url, retries=3) as client:
                said = [await say(client), await say(client)]

    assert said == ["a", "b"]
    assert shelf(tmp_path) == [("1", 200), ("2", 200)]
    async with proxy("replay", tmp_path, matching=COLLAPSED) as it:
        async with openai_client(it.url) as client:
            assert [await say(client), await say(client)] == ["a", "b"]


async def test_without_it_every_attempt_is_a_take(tmp_path: Path) -> None:
    async with upstream(limited, stream("a")) as live:
        async with proxy("record", tmp_path, live.url) as it:
            async with openai_client(it.url, retries=1) as client:
                await say(client)

    assert shelf(tmp_path) == [("1", 429), ("2", 200)]


async def test_attempts_that_all_fail_leave_the_last(tmp_path: Path) -> None:
    async with upstream(limited) as live:
        async with proxy("record", tmp_path, live.url, matching=COLLAPSED) as it:
            async with openai_client(it.url, retries=2) as client:
                with pytest.raises(openai.RateLimitError):
                    await say(client)

    assert shelf(tmp_path) == [("1", 429)]


async def test_two_at_once_that_each_ask_again_keep_an_answer_each(tmp_path: Path) -> None:
    async with upstream(limited, limited, stream("a"), stream("b")) as live:
        async with proxy("record", tmp_path, live.url, matching=COLLAPSED) as it:
            async with openai_client(it.url, retries=2) as client:
                said = await asyncio.gather(say(client), say(client))

    assert sorted(said) == ["a", "b"]
    assert shelf(tmp_path) == [("1", 200), ("2", 200)]
    async with proxy("replay", tmp_path, matching=COLLAPSED) as it:
        async with openai_client(it.url) as client:
            assert sorted([await say(client), await say(client)]) == ["a", "b"]


async def test_a_retry_plays_the_take_of_the_request_that_it_repeats(tmp_path: Path) -> None:
    broken = Answer(((0.0, event("a")),), Ending.RST, 0.0)
    put(tmp_path, chat(), broken, says("b"))

    async with proxy("replay", tmp_path, matching=COLLAPSED, allow_partial=True) as it:
        takes = [
            (await ask(it.url, chat("hi", f"x-stainless-retry-count: {count}"))).body
            for count in (0, 1, 2, 0)
        ]

    assert takes == [event("a"), event("a"), event("a"), bodies([says("b")])[0]]


async def test_a_retry_after_an_injected_fault_hears_the_take_that_the_fault_hid(
    tmp_path: Path,
) -> None:
    put(tmp_path, chat(), says("a"), says("b"))
    faults = parse_rules(["status,code=429,first=1"])

    async with proxy("replay", tmp_path, matching=COLLAPSED, faults=faults) as it:
        takes = [
            (await ask(it.url, chat("hi", f"x-stainless-retry-count: {count}"))).body
            for count in (0, 1, 0)
        ]

    assert takes[1:] == bodies([says("a"), says("b")])


def test_a_retry_is_of_what_failed_before_what_runs() -> None:
    retries = RetryTracker(collapses=True)
    one, other = (retries.join(call(chat())) for _ in range(2))
    retries.finish(other, succeeded=False)

    again = retries.join(call(chat("hi", "x-stainless-retry-count: 1")))
    late = retries.join(call(chat("hi", "x-stainless-retry-count: 1")))

    assert (one.logical_request, other.logical_request) == (
        LogicalRequest(1, 0),
        LogicalRequest(2, 0),
    )
    assert again.logical_request == LogicalRequest(2, 1)
    assert late.logical_request == LogicalRequest(1, 1)


def test_what_is_well_over_is_not_repeated() -> None:
    retries = RetryTracker(collapses=True)
    retries.finish(retries.join(call(chat())), succeeded=True)

    again = retries.join(call(chat("hi", "x-stainless-retry-count: 1")))

    assert again.logical_request == LogicalRequest(2, 1)


def test_the_end_of_an_attempt_that_was_given_up_does_not_matter() -> None:
    retries = RetryTracker(collapses=True)
    first = retries.join(call(chat()))
    second = retries.join(call(chat("hi", "x-stainless-retry-count: 1")))
    retries.finish(first, succeeded=True)
    retries.finish(second, succeeded=False)

    third = retries.join(call(chat("hi", "x-stainless-retry-count: 2")))

    assert third.logical_request == LogicalRequest(1, 2)


@pytest.mark.parametrize("changed", [chat("ho", "x-stainless-retry-count: 1"),
                                     chat("hi", "x-stainless-retry-count: 1",
                                          "x-llm-proxy-session: b")],
                         ids=["another body", "another session"])  # fmt: skip
def test_a_retry_is_of_the_very_same_request(changed: bytes) -> None:
    retries = RetryTracker(collapses=True)
    retries.finish(retries.join(call(chat())), succeeded=False)

    assert retries.join(call(changed)).logical_request == LogicalRequest(2, 1)


def test_every_attempt_has_the_ordinal_of_the_first_until_a_reset() -> None:
    ordinals = RequestCounter()
    first = [
        ordinals.next_ordinal("s", "k", LogicalRequest(1, 0)),
        ordinals.next_ordinal("s", "k", LogicalRequest(2, 0)),
    ]
    again = [
        ordinals.next_ordinal("s", "k", LogicalRequest(1, 1)),
        ordinals.next_ordinal("s", "k", LogicalRequest(3, 0)),
    ]
    ordinals.reset_session("s")

    assert (first, again) == ([1, 2], [1, 3])
    assert ordinals.next_ordinal("s", "k", LogicalRequest(1, 2)) == 1
    assert ordinals.next_ordinal("s", "k", LogicalRequest(2, 1)) == 2


async def test_an_incomplete_attempt_does_not_take_the_place_of_a_complete_one(
    tmp_path: Path,
) -> None:
    async with upstream(limited, broken) as live:
        async with proxy("record", tmp_path, live.url, matching=COLLAPSED) as it:
            for count in (0, 1):
                await ask(it.url, chat("hi", f"x-stainless-retry-count: {count}"))

    assert shelf(tmp_path) == [("1", 429)]


async def test_older_takes_give_way_to_the_first_complete_attempt_alone(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("old 1"), says("old 2"))
    scripts = (broken, broken, broken, stream("new"), stream("next"))

    async with upstream(*scripts) as live:
        async with proxy("record", tmp_path, live.url, matching=COLLAPSED) as it:
            for count in (0, 1):
                await ask(it.url, chat("hi", f"x-stainless-retry-count: {count}"))
        assert shelf(tmp_path) == [("1", 200), ("2", 200), ("3", 200)]
        assert [cassette.body for cassette in cassettes(tmp_path)[:2]] == bodies(
            [says("old 1"), says("old 2")]
        )
        async with proxy("record", tmp_path, live.url, matching=COLLAPSED) as it:
            for count in (0, 1, 0):
                await ask(it.url, chat("hi", f"x-stainless-retry-count: {count}"))

    assert [cassette.body for cassette in cassettes(tmp_path)] == bodies(
        [says("new"), says("next")]
    )


async def test_failed_attempts_of_another_wish_keep_their_places(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("old"))

    async with upstream(broken, broken, stream("new")) as live:
        async with proxy("record", tmp_path, live.url, matching=COLLAPSED) as it:
            for count in (0, 0):
                await ask(it.url, chat("hi", f"x-stainless-retry-count: {count}"))
            await ask(it.url, chat("hi", "x-stainless-retry-count: 1"))

    found = [cassette.body for cassette in cassettes(tmp_path)]
    assert found == [bodies([says("new")])[0], event("x")]
