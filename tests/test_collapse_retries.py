"""`--collapse-retries`: an SDK's retry counts as the request that it repeats."""

from __future__ import annotations

import asyncio
from pathlib import Path

import openai
import pytest

from in_process_proxy import load_cassettes, proxy
from llm_proxy.exchange import Ending
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.shell.running.settings import ModeName
from llm_proxy.shell.server.intake import RetryTracker
from llm_proxy.take_numbers import LogicalRequest, RequestCounter
from raw_http import send_request
from sdk_clients import openai_client
from stored_cassettes import (
    DONE_EVENT,
    StoredResponse,
    chat_event,
    raw_chat_request,
    response_bodies,
    route_raw_request,
    text_response,
    write_cassettes,
)
from stub_upstream import Connection, Script, chunked, upstream


async def rate_limited(connection: Connection) -> None:
    """Send a 429 after which an SDK retries at once."""
    body = b'{"error":{"message":"slow down","type":"rate_limit"}}'
    connection.writer.write(
        b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n"
        b"retry-after-ms: 1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    await connection.writer.drain()


def stream_text(text: str) -> Script:
    """A streamed response with this text."""
    return chunked([chat_event(text), DONE_EVENT])


async def reset_stream(connection: Connection) -> None:
    """Reset the connection in the middle of a response."""
    await connection.begin()
    await connection.chunk(chat_event("x"))
    connection.writer.transport.abort()


async def chat_text(client: openai.AsyncOpenAI, content: str = "hi") -> str:
    """The text of the model's response to this message."""
    pieces = await client.chat.completions.create(
        model="m", stream=True, messages=[{"role": "user", "content": content}]
    )
    return "".join(
        [piece.choices[0].delta.content or "" async for piece in pieces if piece.choices]
    )


def recorded_takes(folder: Path) -> list[tuple[str, int]]:
    """The take number and the status of each cassette."""
    return [
        (Path(cassette.file).stem.rpartition("-")[2], cassette.response_head.status)
        for cassette in load_cassettes(folder)
    ]


async def test_a_failed_attempt_leaves_no_trace_beside_an_older_success(tmp_path: Path) -> None:
    write_cassettes(
        tmp_path, raw_chat_request(), text_response("old one"), text_response("old two")
    )
    async with upstream(rate_limited, rate_limited, stream_text("new")) as provider:
        async with proxy("record", tmp_path, provider.url, collapse_retries=True) as server:
            for retry_count in range(3):
                header = f"x-stainless-retry-count: {retry_count}"
                await send_request(server.url, raw_chat_request("hi", header))

    assert recorded_takes(tmp_path) == [("1", 200)]


@pytest.mark.parametrize("mode", ["record", "auto"])
async def test_a_failed_attempt_leaves_no_cassette_beside_that_of_the_answer(
    tmp_path: Path, mode: ModeName
) -> None:
    async with upstream(
        rate_limited, rate_limited, stream_text("a"), rate_limited, stream_text("b")
    ) as provider:
        async with proxy(mode, tmp_path, provider.url, collapse_retries=True) as server:
            async with openai_client(server.url, retries=3) as client:
                texts = [await chat_text(client), await chat_text(client)]

    assert texts == ["a", "b"]
    assert recorded_takes(tmp_path) == [("1", 200), ("2", 200)]
    async with proxy("replay", tmp_path, collapse_retries=True) as server:
        async with openai_client(server.url) as client:
            assert [await chat_text(client), await chat_text(client)] == ["a", "b"]


async def test_without_it_every_attempt_is_a_take(tmp_path: Path) -> None:
    async with upstream(rate_limited, stream_text("a")) as provider:
        async with proxy("record", tmp_path, provider.url) as server:
            async with openai_client(server.url, retries=1) as client:
                await chat_text(client)

    assert recorded_takes(tmp_path) == [("1", 429), ("2", 200)]


async def test_attempts_that_all_fail_leave_the_last(tmp_path: Path) -> None:
    async with upstream(rate_limited) as provider:
        async with proxy("record", tmp_path, provider.url, collapse_retries=True) as server:
            async with openai_client(server.url, retries=2) as client:
                with pytest.raises(openai.RateLimitError):
                    await chat_text(client)

    assert recorded_takes(tmp_path) == [("1", 429)]


async def test_two_concurrent_requests_with_retries_keep_a_response_each(tmp_path: Path) -> None:
    async with upstream(rate_limited, rate_limited, stream_text("a"), stream_text("b")) as provider:
        async with proxy("record", tmp_path, provider.url, collapse_retries=True) as server:
            async with openai_client(server.url, retries=2) as client:
                texts = await asyncio.gather(chat_text(client), chat_text(client))

    assert sorted(texts) == ["a", "b"]
    assert recorded_takes(tmp_path) == [("1", 200), ("2", 200)]
    async with proxy("replay", tmp_path, collapse_retries=True) as server:
        async with openai_client(server.url) as client:
            assert sorted([await chat_text(client), await chat_text(client)]) == ["a", "b"]


async def test_a_retry_plays_the_take_of_the_request_that_it_repeats(tmp_path: Path) -> None:
    partial_response = StoredResponse(((0.0, chat_event("a")),), Ending.RST, 0.0)
    write_cassettes(tmp_path, raw_chat_request(), partial_response, text_response("b"))

    async with proxy("replay", tmp_path, collapse_retries=True, allow_partial=True) as server:
        replayed_bodies = [
            (
                await send_request(
                    server.url, raw_chat_request("hi", f"x-stainless-retry-count: {count}")
                )
            ).body
            for count in (0, 1, 2, 0)
        ]

    assert replayed_bodies == [
        chat_event("a"),
        chat_event("a"),
        chat_event("a"),
        response_bodies([text_response("b")])[0],
    ]


async def test_a_retry_after_an_injected_fault_gets_the_take_that_the_fault_hid(
    tmp_path: Path,
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("a"), text_response("b"))
    faults = parse_rules(["status,code=429,first=1"])

    async with proxy("replay", tmp_path, collapse_retries=True, faults=faults) as server:
        replayed_bodies = [
            (
                await send_request(
                    server.url, raw_chat_request("hi", f"x-stainless-retry-count: {count}")
                )
            ).body
            for count in (0, 1, 0)
        ]

    assert replayed_bodies[1:] == response_bodies([text_response("a"), text_response("b")])


def test_a_retry_is_of_what_failed_before_what_runs() -> None:
    retries = RetryTracker()
    one, other = (
        retries.assign_logical_request(route_raw_request(raw_chat_request())) for _ in range(2)
    )
    retries.end_attempt(other, succeeded=False)

    again = retries.assign_logical_request(
        route_raw_request(raw_chat_request("hi", "x-stainless-retry-count: 1"))
    )
    late = retries.assign_logical_request(
        route_raw_request(raw_chat_request("hi", "x-stainless-retry-count: 1"))
    )

    assert (one.logical_request, other.logical_request) == (
        LogicalRequest(1, 0),
        LogicalRequest(2, 0),
    )
    assert again.logical_request == LogicalRequest(2, 1)
    assert late.logical_request == LogicalRequest(1, 1)


def test_a_successful_request_is_not_retried() -> None:
    retries = RetryTracker()
    retries.end_attempt(
        retries.assign_logical_request(route_raw_request(raw_chat_request())), succeeded=True
    )

    again = retries.assign_logical_request(
        route_raw_request(raw_chat_request("hi", "x-stainless-retry-count: 1"))
    )

    assert again.logical_request == LogicalRequest(2, 1)


def test_the_end_of_an_attempt_that_was_given_up_does_not_matter() -> None:
    retries = RetryTracker()
    first = retries.assign_logical_request(route_raw_request(raw_chat_request()))
    second = retries.assign_logical_request(
        route_raw_request(raw_chat_request("hi", "x-stainless-retry-count: 1"))
    )
    retries.end_attempt(first, succeeded=True)
    retries.end_attempt(second, succeeded=False)

    third = retries.assign_logical_request(
        route_raw_request(raw_chat_request("hi", "x-stainless-retry-count: 2"))
    )

    assert third.logical_request == LogicalRequest(1, 2)


@pytest.mark.parametrize("changed_request", [raw_chat_request("ho", "x-stainless-retry-count: 1"),
                                     raw_chat_request("hi", "x-stainless-retry-count: 1",
                                          "x-llm-proxy-session: b")],
                         ids=["another body", "another session"])  # fmt: skip
def test_a_retry_is_of_the_very_same_request(changed_request: bytes) -> None:
    retries = RetryTracker()
    retries.end_attempt(
        retries.assign_logical_request(route_raw_request(raw_chat_request())), succeeded=False
    )

    assert retries.assign_logical_request(
        route_raw_request(changed_request)
    ).logical_request == LogicalRequest(2, 1)


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
    async with upstream(rate_limited, reset_stream) as provider:
        async with proxy("record", tmp_path, provider.url, collapse_retries=True) as server:
            for count in (0, 1):
                await send_request(
                    server.url, raw_chat_request("hi", f"x-stainless-retry-count: {count}")
                )

    assert recorded_takes(tmp_path) == [("1", 429)]


async def test_older_takes_give_way_to_the_first_complete_attempt_alone(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("old 1"), text_response("old 2"))
    scripts = (reset_stream, reset_stream, reset_stream, stream_text("new"), stream_text("next"))

    async with upstream(*scripts) as provider:
        async with proxy("record", tmp_path, provider.url, collapse_retries=True) as server:
            for count in (0, 1):
                await send_request(
                    server.url, raw_chat_request("hi", f"x-stainless-retry-count: {count}")
                )
        assert recorded_takes(tmp_path) == [("1", 200), ("2", 200), ("3", 200)]
        assert [
            cassette.response_body for cassette in load_cassettes(tmp_path)[:2]
        ] == response_bodies([text_response("old 1"), text_response("old 2")])
        async with proxy("record", tmp_path, provider.url, collapse_retries=True) as server:
            for count in (0, 1, 0):
                await send_request(
                    server.url, raw_chat_request("hi", f"x-stainless-retry-count: {count}")
                )

    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == response_bodies(
        [text_response("new"), text_response("next")]
    )


async def test_failed_attempts_of_another_logical_request_keep_their_places(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("old"))

    async with upstream(reset_stream, reset_stream, stream_text("new")) as provider:
        async with proxy("record", tmp_path, provider.url, collapse_retries=True) as server:
            for count in (0, 0):
                await send_request(
                    server.url, raw_chat_request("hi", f"x-stainless-retry-count: {count}")
                )
            await send_request(server.url, raw_chat_request("hi", "x-stainless-retry-count: 1"))

    recorded_bodies = [cassette.response_body for cassette in load_cassettes(tmp_path)]
    assert recorded_bodies == [response_bodies([text_response("new")])[0], chat_event("x")]
