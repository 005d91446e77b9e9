"""Every fault of the proxy in the responses that the providers of `llm_chat` receive."""

from __future__ import annotations

import asyncio
import gc
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Final

import pytest

import stub_upstream
from chat_providers import (
    PROVIDERS,
    Waits,
    make_provider,
    registry,
    request,
    response_events,
    text_of,
    with_every_provider,
)
from in_process_proxy import proxy
from llm_chat import (
    ChatClient,
    ChatEvent,
    ChatOptions,
    Conversation,
    ErrorEvent,
    Finish,
    ResponseEnd,
    Retry,
    TextEvent,
    ToolCallResult,
    ToolCallStart,
    TurnComplete,
    streamed_response,
)
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.kinds import FAULT_KINDS
from llm_proxy.shell import content_decoders
from scenario_server import (
    JsonObject,
    ScenarioServer,
    scenario_document,
    serve_scenarios,
    text_turn,
    tool_call_turn,
)
from stub_upstream import Connection
from waiting import wait_until

REPLY: Final = "The quick brown fox jumps over the lazy dög."
TIMEOUT_S: Final = 1.0
"""Seconds after which a response without content has failed."""
LIMIT_S: Final = 20.0
"""Seconds that a chat may take on a busy machine, with all its timeouts."""

COMPLETE: Final = f"complete: {REPLY}"

Outcomes = tuple[str, str, str, str]
"""The outcome with each of the first four of `PROVIDERS`: how the response ends, and its text."""

OUTCOMES: Final[dict[str, str | Outcomes]] = {
    # Without a response
    "hang": "error TIMEOUT: ",
    "refuse,window=60s": "error CONNECTION_FAILED: ",
    "close": "error CONNECTION_LOST: ",
    "reset": "error CONNECTION_LOST: ",
    "status,code=400": "error 400: ",
    "status,code=404": "error 404: ",
    "status,code=429": "error 429: ",
    "status,code=503": "error 503: ",
    "status,code=529": "error 529: ",
    "html": "error 502: ",
    "html,code=200": "error INVALID_RESPONSE: ",
    "overloaded": ("error 503: ", "error 503: ", "error 529: ", "error 503: "),
    "rate-limit": "error 429: ",
    "quota,requests=1,window=60s": "error 429: ",
    "hang-body": "error TIMEOUT: ",
    "empty": "error NO_BODY: ",
    # In the middle of a response
    "close,after=6": (
        "error CONNECTION_LOST: The quick brown fox jumps",
        "error CONNECTION_LOST: The quick",
        "error CONNECTION_LOST: The quick brown",
        "error CONNECTION_LOST: The quick brown fox jumps over",
    ),
    "reset,after=6": (
        "error CONNECTION_LOST: The quick brown fox jumps",
        "error CONNECTION_LOST: The quick",
        "error CONNECTION_LOST: The quick brown",
        "error CONNECTION_LOST: The quick brown fox jumps over",
    ),
    "malformed-chunk,after=6": (
        "error CONNECTION_LOST: The quick brown fox jumps",
        "error CONNECTION_LOST: The quick",
        "error CONNECTION_LOST: The quick brown",
        "error CONNECTION_LOST: The quick brown fox jumps over",
    ),
    "stall,after=6": (
        "error TIMEOUT: The quick brown fox jumps",
        "error TIMEOUT: The quick",
        "error TIMEOUT: The quick brown",
        "error TIMEOUT: The quick brown fox jumps over",
    ),
    "stall-keepalive,after=6,interval=50ms": (
        "error TIMEOUT: The quick brown fox jumps",
        "error TIMEOUT: The quick",
        "error TIMEOUT: The quick brown",
        COMPLETE,  # it has no keep-alive lines, so the fault is skipped
    ),
    "error-event,after=6": (
        "error PROVIDER_ERROR: The quick brown fox jumps",
        "error server_error: The quick",
        "error api_error: The quick brown",
        "error PROVIDER_ERROR: The quick brown fox jumps over",
    ),
    # `local` reads the end of a body as the end of its response, and skips what is not JSON.
    "truncate,after=6": (
        "error INCOMPLETE_RESPONSE: The quick brown fox jumps",
        "error INCOMPLETE_RESPONSE: The quick",
        "error INCOMPLETE_RESPONSE: The quick brown",
        "complete: The quick brown fox jumps over",
    ),
    "truncate,fraction=0.5": (
        "error INCOMPLETE_RESPONSE: The quick brown fox",
        "error INCOMPLETE_RESPONSE: The quick brown",
        "error INCOMPLETE_RESPONSE: The quick brown fox",
        "complete: The quick brown fox jumps",
    ),
    "half-event,after=6": (
        "error INCOMPLETE_RESPONSE: The quick brown fox jumps",
        "error INCOMPLETE_RESPONSE: The quick",
        "error INCOMPLETE_RESPONSE: The quick brown",
        "complete: The quick brown fox jumps over",
    ),
    "malformed-json,after=6": (
        "error INVALID_RESPONSE: The quick brown fox jumps",
        "error INVALID_RESPONSE: The quick",
        "error INVALID_RESPONSE: The quick brown",
        "complete: The quick brown fox jumps over lazy dög.",
    ),
    "bad-utf8,after=6": (
        "error INVALID_RESPONSE: The quick brown fox jumps",
        "error INVALID_RESPONSE: The quick",
        "error INVALID_RESPONSE: The quick brown",
        "complete: The quick brown fox jumps over lazy dög.",
    ),
    "bad-encoding": "error INVALID_RESPONSE: ",
    # Valid responses that the provider did not send: no client can recognise them.
    "drop,after=6": (
        "complete: The quick brown fox jumps the lazy dög.",
        "complete: The quick fox jumps over the lazy dög.",
        "complete: The quick brown jumps over the lazy dög.",
        "complete: The quick brown fox jumps over lazy dög.",
    ),
    "duplicate,after=6": (
        "complete: The quick brown fox jumps over over the lazy dög.",
        "complete: The quick brown brown fox jumps over the lazy dög.",
        "complete: The quick brown fox fox jumps over the lazy dög.",
        "complete: The quick brown fox jumps over the the lazy dög.",
    ),
    "reorder,after=6": (
        "complete: The quick brown fox jumps the over lazy dög.",
        "complete: The quick fox brown jumps over the lazy dög.",
        "complete: The quick brown jumps fox over the lazy dög.",
        "complete: The quick brown fox jumps over lazy the dög.",
    ),
    "reorder,after=0": (
        COMPLETE,
        COMPLETE,
        "error INVALID_RESPONSE: ",  # its first block is of a message that has not started
        "complete:  quickThe brown fox jumps over the lazy dög.",
    ),
    "duplicate,after=0": (
        COMPLETE,
        COMPLETE,
        "error INVALID_RESPONSE: ",
        "complete: TheThe quick brown fox jumps over the lazy dög.",
    ),
    "content-filter,after=6": (
        "complete: The quick brown fox jumps",
        "complete: The quick",
        "complete: The quick brown",
        COMPLETE,  # it has no such finish reason, so the fault is skipped
    ),
    "finish-length,after=6": (
        "length: The quick brown fox jumps",
        "length: The quick",
        "length: The quick brown",
        "length: The quick brown fox jumps over",
    ),
    "refusal": "complete: I'm sorry, but I can't help with that.",
    "bad-tool-call,how=json,first=1": (  # a broken call, and the response to its result
        f"complete: look {REPLY}",
        f"complete: look {REPLY}",
        f"complete: look {REPLY}",
        COMPLETE,  # its arguments are an object, so the fault is skipped
    ),
    "bad-tool-call,how=name,first=1": f"complete: look_v2 {REPLY}",
    "bad-tool-call,how=missing,first=1": f"complete: look {REPLY}",
    # Slower responses
    "bandwidth,rate=64kB": COMPLETE,
    "bom": COMPLETE,
    "coalesce,after=1": COMPLETE,
    "latency,by=50ms": COMPLETE,
    "slice,size=97": COMPLETE,
    "slow-close,by=50ms": COMPLETE,
    "stall,after=6,for=100ms": COMPLETE,
    "wrong-length": COMPLETE,  # the body is chunked, so the fault is skipped
}  # fmt: skip

FURTHER_OUTCOMES: Final[dict[str, dict[str, str]]] = {
    "cohere": {
        "overloaded": "error 503: ",
        "close,after=6": "error CONNECTION_LOST: The quick brown fox",
        "reset,after=6": "error CONNECTION_LOST: The quick brown fox",
        "malformed-chunk,after=6": "error CONNECTION_LOST: The quick brown fox",
        "stall,after=6": "error TIMEOUT: The quick brown fox",
        "stall-keepalive,after=6,interval=50ms": "error TIMEOUT: The quick brown fox",
        "error-event,after=6": "error PROVIDER_ERROR: The quick brown fox",
        "truncate,after=6": "error INCOMPLETE_RESPONSE: The quick brown fox",
        "truncate,fraction=0.5": "error INCOMPLETE_RESPONSE: The quick brown fox",
        "half-event,after=6": "error INCOMPLETE_RESPONSE: The quick brown fox",
        "malformed-json,after=6": "error INVALID_RESPONSE: The quick brown fox",
        "bad-utf8,after=6": "error INVALID_RESPONSE: The quick brown fox",
        "drop,after=6": "complete: The quick brown fox over the lazy dög.",
        "duplicate,after=6": "complete: The quick brown fox jumps jumps over the lazy dög.",
        "reorder,after=6": "complete: The quick brown fox over jumps the lazy dög.",
        "reorder,after=0": COMPLETE,
        "duplicate,after=0": COMPLETE,
        "content-filter,after=6": "complete: The quick brown fox",  # finishes with ERROR
        "finish-length,after=6": "length: The quick brown fox",
        "bad-tool-call,how=json,first=1": f"complete: look {REPLY}",
    },
    "bedrock": {
        "overloaded": "error 503: ",
        "close,after=6": "error CONNECTION_LOST: The quick brown fox jumps",
        "reset,after=6": "error CONNECTION_LOST: The quick brown fox jumps",
        "malformed-chunk,after=6": "error CONNECTION_LOST: The quick brown fox jumps",
        "stall,after=6": "error TIMEOUT: The quick brown fox jumps",
        "stall-keepalive,after=6,interval=50ms": COMPLETE,  # it has no keep-alive
        "error-event,after=6": "error modelStreamErrorException: The quick brown fox jumps",
        "truncate,after=6": "error INCOMPLETE_RESPONSE: The quick brown fox jumps",
        "truncate,fraction=0.5": "error INCOMPLETE_RESPONSE: The quick brown fox jumps",
        "half-event,after=6": "error INCOMPLETE_RESPONSE: The quick brown fox jumps",
        "malformed-json,after=6": "error INVALID_RESPONSE: The quick brown fox jumps",
        "bad-utf8,after=6": "error INVALID_RESPONSE: The quick brown fox jumps",
        "drop,after=6": "complete: The quick brown fox jumps the lazy dög.",
        "duplicate,after=6": "complete: The quick brown fox jumps over over the lazy dög.",
        "reorder,after=6": "complete: The quick brown fox jumps the over lazy dög.",
        "reorder,after=0": COMPLETE,
        "duplicate,after=0": COMPLETE,
        "content-filter,after=6": "complete: The quick brown fox jumps",
        "finish-length,after=6": "length: The quick brown fox jumps",
        "bad-tool-call,how=json,first=1": f"complete: look {REPLY}",
    },
    "gemini": {
        "html,code=200": "error INCOMPLETE_RESPONSE: ",  # its body is read as a stream
        "overloaded": "error 503: ",
        "close,after=6": "error CONNECTION_LOST: The quick brown fox jumps over",
        "reset,after=6": "error CONNECTION_LOST: The quick brown fox jumps over",
        "malformed-chunk,after=6": "error CONNECTION_LOST: The quick brown fox jumps over",
        "stall,after=6": "error TIMEOUT: The quick brown fox jumps over",
        "stall-keepalive,after=6,interval=50ms": COMPLETE,  # it has none, so the fault is skipped
        "error-event,after=6": "error 500: The quick brown fox jumps over",
        "truncate,after=6": "error INCOMPLETE_RESPONSE: The quick brown fox jumps over",
        "truncate,fraction=0.5": "error INCOMPLETE_RESPONSE: The quick brown fox",
        "half-event,after=6": "error INCOMPLETE_RESPONSE: The quick brown fox jumps over",
        "malformed-json,after=6": "error INVALID_RESPONSE: The quick brown fox jumps over",
        "bad-utf8,after=6": "error INVALID_RESPONSE: The quick brown fox jumps over",
        "drop,after=6": "complete: The quick brown fox jumps over lazy dög.",
        "duplicate,after=6": "complete: The quick brown fox jumps over the the lazy dög.",
        "reorder,after=6": "complete: The quick brown fox jumps over lazy the dög.",
        "reorder,after=0": "complete:  quickThe brown fox jumps over the lazy dög.",
        "duplicate,after=0": f"complete: The{REPLY}",
        "content-filter,after=6": "complete: The quick brown fox jumps over",
        "finish-length,after=6": "length: The quick brown fox jumps over",
        "refusal": "complete: ",  # has no text
        "bad-tool-call,how=json,first=1": COMPLETE,  # its arguments are an object
    },
    "gemini-interactions": {
        "overloaded": "error 503: ",
        "close,after=6": "error CONNECTION_LOST: The quick brown",
        "reset,after=6": "error CONNECTION_LOST: The quick brown",
        "malformed-chunk,after=6": "error CONNECTION_LOST: The quick brown",
        "stall,after=6": "error TIMEOUT: The quick brown",
        "stall-keepalive,after=6,interval=50ms": "error TIMEOUT: The quick brown",
        "error-event,after=6": "error internal: The quick brown",
        "truncate,after=6": "error INCOMPLETE_RESPONSE: The quick brown",
        "truncate,fraction=0.5": "error INCOMPLETE_RESPONSE: The quick brown fox",
        "half-event,after=6": "error INCOMPLETE_RESPONSE: The quick brown",
        "malformed-json,after=6": "error INVALID_RESPONSE: The quick brown",
        "bad-utf8,after=6": "error INVALID_RESPONSE: The quick brown",
        "drop,after=6": "complete: The quick brown jumps over the lazy dög.",
        "duplicate,after=6": "complete: The quick brown fox fox jumps over the lazy dög.",
        "reorder,after=6": "complete: The quick brown jumps fox over the lazy dög.",
        "reorder,after=0": COMPLETE,
        "duplicate,after=0": COMPLETE,
        "content-filter,after=6": COMPLETE,  # it has no such finish reason
        "finish-length,after=6": "length: The quick brown",
        "bad-tool-call,how=json,first=1": f"complete: look {REPLY}",
    },
}
"""For each further provider, the outcomes that differ from the common ones."""

MESSAGES: Final = {
    "TIMEOUT": ("no response within 1 s", "no content for 1 s"),
    "CONNECTION_FAILED": ("Failed to connect to ",),
    "CONNECTION_LOST": ("No response from ", "the connection was lost before the response was "),
    "NO_BODY": ("No response body",),
    "INVALID_RESPONSE": ("the response is invalid",),
    "INCOMPLETE_RESPONSE": ("the response ended before it was complete",),
}
"""The beginnings of messages, by code."""


def look(city: str) -> str:
    """Look at a city."""
    return f"{city}: rain"


def outcome_with(name: str, rule: str) -> str:
    """The outcome of a rule with this provider."""
    if outcome := FURTHER_OUTCOMES.get(name, {}).get(rule):
        return outcome
    outcomes = OUTCOMES[rule]
    return outcomes if isinstance(outcomes, str) else outcomes[PROVIDERS.index(name)]


def test_the_table_has_every_fault() -> None:
    assert {rule.partition(",")[0] for rule in OUTCOMES} == set(FAULT_KINDS)


async def test_each_fault_gives_a_complete_response_or_one_error_and_leaves_nothing_open(
    tmp_path: Path,
) -> None:
    rules = {f"s{number}": rule for number, rule in enumerate(OUTCOMES)}
    expected = {
        (session, name): outcome_with(name, rule)
        for session, rule in rules.items()
        for name in PROVIDERS
    }
    waiting = [case for case, outcome in expected.items() if outcome.startswith("error TIMEOUT")]
    prompt = [case for case in expected if case not in waiting]
    (tmp_path / "refusing").mkdir()
    async with (
        served_faults(tmp_path, *limited_to_sessions(rules)) as server,
        served_faults(tmp_path / "refusing", "refuse,window=60s") as refusing_server,
    ):
        resources = OpenResources()
        slots = asyncio.Semaphore(12)

        async def outcome(session: str, name: str, timeout_s: float) -> str:
            rule = rules[session]
            url = refusing_server.url if is_of_listener(rule) else server.url
            events: list[ChatEvent] = []
            async with slots, asyncio.timeout(LIMIT_S):
                async with chat_client(
                    name, f"{url}/@{session}-{name}", look, timeout_s=timeout_s
                ) as client:
                    for _ in range(1 + rule.startswith("quota")):  # which accepts one request
                        events = [event async for event in client.chat("hello")]
            return checked_outcome(events)

        outcomes = [
            *await asyncio.gather(*(outcome(*case, LIMIT_S) for case in prompt)),
            *await asyncio.gather(*(outcome(*case, TIMEOUT_S) for case in waiting)),
        ]
        await resources.assert_all_closed()

    actual = dict(zip((*prompt, *waiting), outcomes, strict=True))
    assert {(rules[session], name): result for (session, name), result in actual.items()} == {
        (rules[session], name): result for (session, name), result in expected.items()
    }


@pytest.mark.parametrize("name", PROVIDERS)
async def test_no_tool_runs_after_a_failed_response(tmp_path: Path, name: str) -> None:
    rules = ["close,after=6", "reset,after=6", "error-event,after=6", "stall,after=6"]
    document = tool_scenario()
    calls: list[str] = []

    def look(city: str) -> str:
        calls.append(city)
        return "rain"

    for rule in rules:
        async with serve_scenarios(tmp_path, document, faults=(parse_rule(rule),)) as server:
            async with chat_client(name, server.url, look) as client:
                events = [event async for event in client.chat("look")]

        assert isinstance(events[-2], TurnComplete), rule
        assert isinstance(events[-3], ErrorEvent), rule
        assert events[-1] == Finish("error"), rule
        assert len(client.messages) == 1, rule
    assert calls == []


def tool_scenario() -> JsonObject:
    """A scenario that calls `look` in its first turn, after a text of many events."""
    turn = tool_call_turn("look")
    turn["response"]["assistantText"] = REPLY
    return scenario_document(turn, text_turn(), name="look", chunks={"by": "characters", "size": 3})


# Retries

RETRIED: Final = (
    ("rate-limit,retry-after=2s,first=1", "429", 2.0, 2.0),
    ("rate-limit,retry-after=1500ms,first=1", "429", 1.5, 1.5),
    ("rate-limit,first=1", "429", 0.375, 20.0),
    ("status,code=503,first=1", "503", 0.375, 0.5),
    ("status,code=529,first=1", "529", 0.375, 0.5),
    ("status,code=408,first=1", "408", 0.375, 0.5),
    ("status,code=400,should-retry=true,first=1", "400", 0.375, 0.5),
    ("html,first=1", "502", 0.375, 0.5),
    ("close,first=1", "CONNECTION_LOST", 0.375, 0.5),
    ("reset,first=1", "CONNECTION_LOST", 0.375, 0.5),
    ("hang,first=1", "TIMEOUT", 0.375, 0.5),
)
"""Rules, the code of the error, and the shortest and the longest wait in s."""


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_temporary_failure_is_retried_after_a_wait(tmp_path: Path, name: str) -> None:
    rules = {f"s{number}": rule for number, (rule, *_) in enumerate(RETRIED)}
    async with served_faults(tmp_path, *limited_to_sessions(rules)) as server:

        async def check(session: str, code: str, shortest_s: float, longest_s: float) -> None:
            waits = Waits()
            url = f"{server.url}/@{session}-{name}"
            timeout_s = TIMEOUT_S if code == "TIMEOUT" else LIMIT_S
            provider = make_provider(name, url, sleep=waits, max_retries=2, timeout_s=timeout_s)

            retry, *events = await response_events(provider, chat_request())

            assert isinstance(retry, Retry), retry
            assert (retry.attempt, retry.error.code) == (1, code)
            assert waits.seconds == [retry.wait_s]
            assert shortest_s <= retry.wait_s <= longest_s
            assert text_of(events) == REPLY
            assert isinstance(events[-1], ResponseEnd)

        await asyncio.gather(
            *(
                check(session, code, shortest_s, longest_s)
                for session, (_, code, shortest_s, longest_s) in zip(rules, RETRIED, strict=True)
            )
        )


@with_every_provider
async def test_retries_are_limited(tmp_path: Path, name: str) -> None:
    waits = Waits()
    async with served_faults(tmp_path, "status,code=503") as server:
        provider = make_provider(name, server.url, sleep=waits, max_retries=3)
        events = await response_events(provider, chat_request())

    assert [type(event) for event in events] == [Retry, Retry, Retry, ErrorEvent]
    assert [event.attempt for event in events if isinstance(event, Retry)] == [1, 2, 3]
    first_s, second_s, third_s = waits.seconds
    assert 0.375 <= first_s <= 0.5
    assert 0.75 <= second_s <= 1.0
    assert 1.5 <= third_s <= 2.0
    assert len(server.entries) == 4


@pytest.mark.parametrize(
    "rule",
    [
        "status,code=503,should-retry=false",
        "status,code=400",
        "rate-limit,retry-after=121s",  # longer than any client waits
        "close,after=6",
        "stall,after=6",
    ],
)
@with_every_provider
async def test_other_failures_are_one_request(tmp_path: Path, name: str, rule: str) -> None:
    waits = Waits()
    async with served_faults(tmp_path, rule) as server:
        provider = make_provider(name, server.url, sleep=waits, max_retries=2, timeout_s=TIMEOUT_S)
        *_, error = await response_events(provider, chat_request())

    assert isinstance(error, ErrorEvent)
    assert waits.seconds == []
    assert len(server.entries) == 1


@with_every_provider
async def test_a_miss_of_a_replay_is_one_request(tmp_path: Path, name: str) -> None:
    waits = Waits()
    async with proxy("replay", tmp_path) as running_proxy:
        provider = make_provider(name, running_proxy.url, sleep=waits, max_retries=2)
        [error] = await response_events(provider)

    assert isinstance(error, ErrorEvent)
    assert (error.code, waits.seconds) == ("424", [])
    assert error.detail.startswith("no cassette matches POST ")


@pytest.mark.shows("002-52")
async def test_local_reports_a_status_at_once(tmp_path: Path) -> None:
    async with served_faults(tmp_path, "status,code=503") as server:
        [error] = await response_events(make_provider("local", server.url), chat_request())

    assert isinstance(error, ErrorEvent)
    assert (error.message, error.code) == ("HTTP 503: Service Unavailable", "503")
    assert len(server.entries) == 1


# Hostile servers


async def endless_comments(connection: Connection) -> None:
    await connection.begin()
    while True:
        await connection.chunk(b": still here\n\n")
        await asyncio.sleep(0.02)


async def endless_blank_lines(connection: Connection) -> None:
    await connection.begin()
    while True:
        await connection.chunk(b"\n")
        await asyncio.sleep(0.02)


async def flood_of_blank_lines(connection: Connection) -> None:
    await connection.begin()
    while True:
        await connection.chunk(b"\n" * 4096)


async def flood_of_objects(connection: Connection) -> None:
    await connection.begin()
    while True:
        await connection.chunk(b"data: {}\n\n" * 4096)


async def endless_line(connection: Connection) -> None:
    await connection.begin()
    while True:
        await connection.chunk(b"x" * 65_536)


async def endless_data_line(connection: Connection) -> None:
    await connection.begin()
    await connection.chunk(b"data: ")
    while True:
        await connection.chunk(b"x" * 65_536)


async def head_only(connection: Connection) -> None:
    await connection.begin()
    connection.fin()


async def half_a_head(connection: Connection) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
    connection.fin()


async def endless_head(connection: Connection) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\n")
    number = 0
    while True:
        number += 1
        await connection.send(b"X-Filler-%d: %s\r\n" % (number, b"x" * 1000))


async def slow_head(connection: Connection) -> None:
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Filler: x\r\n" * 1000:
        await connection.send(bytes((byte,)))
        await asyncio.sleep(0.02)


async def endless_continues(connection: Connection) -> None:
    while True:
        await connection.send(b"HTTP/1.1 102 Processing\r\n\r\n")
        await asyncio.sleep(0.02)


async def not_http(connection: Connection) -> None:
    await connection.send(b"SSH-2.0-OpenSSH_9.6\r\n")
    connection.fin()


async def endless_document(connection: Connection) -> None:
    await connection.begin(content_type="application/json")
    await connection.chunk(b'{"choices": [')
    while True:
        await connection.chunk(b"1," * 32_768)


async def gzip_bomb(connection: Connection) -> None:
    compressor = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    megabyte = b" " * (1024 * 1024)
    body = b"".join(compressor.compress(megabyte) for _ in range(65)) + compressor.flush()
    await connection.begin("Content-Encoding: gzip")
    await connection.chunk(body)
    await connection.finish()


async def upgrade(connection: Connection) -> None:
    await connection.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
    await connection.reader.read()


async def no_content(connection: Connection) -> None:
    await connection.send(b"HTTP/1.1 204 No Content\r\n\r\n")


async def redirect(connection: Connection) -> None:
    location = "Location: http://127.0.0.1:1/elsewhere"
    await connection.begin(location, "Content-Length: 0", status="307 Temporary Redirect")


async def endless_error(connection: Connection) -> None:
    await connection.begin(status="500 Internal Server Error", content_type="text/plain")
    while True:
        await connection.chunk(b"x" * 65_536)
        await asyncio.sleep(0.01)


async def unreadable_error(connection: Connection) -> None:
    await connection.begin("Content-Encoding: gzip", status="429 Too Many Requests")
    await connection.chunk(b"not compressed")
    await connection.finish()


async def document_of_something_else(connection: Connection) -> None:
    await stub_upstream.fixed_length(b'{"object": "list", "data": []}')(connection)


async def array_of_numbers(connection: Connection) -> None:
    await stub_upstream.fixed_length(b"[1, 2, 3]")(connection)


HOSTILE: Final[dict[stub_upstream.Script, tuple[str, str]]] = {
    endless_comments: ("TIMEOUT", "no content for 1 s"),
    endless_blank_lines: ("TIMEOUT", "no content for 1 s"),
    flood_of_blank_lines: ("TIMEOUT", "no content for 1 s"),
    flood_of_objects: ("INVALID_RESPONSE", "the response is invalid"),
    endless_line: ("INVALID_RESPONSE", "the response is invalid"),
    endless_data_line: ("INVALID_RESPONSE", "the response is invalid"),
    endless_document: ("INVALID_RESPONSE", "the response is invalid"),
    gzip_bomb: ("INVALID_RESPONSE", "the response is invalid"),
    head_only: ("CONNECTION_LOST", "the connection was lost before the response was complete"),
    half_a_head: ("CONNECTION_LOST", "No response from URL"),
    endless_head: ("CONNECTION_LOST", "No response from URL"),
    slow_head: ("TIMEOUT", "no response within 1 s"),
    endless_continues: ("TIMEOUT", "no response within 1 s"),
    not_http: ("CONNECTION_LOST", "No response from URL"),
    upgrade: ("CONNECTION_LOST", "No response from URL"),
    no_content: ("NO_BODY", "No response body"),
    redirect: ("307", "HTTP 307: Temporary Redirect"),
    endless_error: ("500", "HTTP 500: Internal Server Error"),
    unreadable_error: ("429", "HTTP 429: Too Many Requests"),
    document_of_something_else: ("INVALID_RESPONSE", "the response is invalid"),
    array_of_numbers: ("INVALID_RESPONSE", "the response is invalid"),
}
"""The code and the message of the error, by server."""


@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_hostile_server_gives_one_error_soon(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed_response, "MAX_DECODED_BYTES", 64 * 1024 * 1024)
    monkeypatch.setattr(streamed_response, "_MAX_MESSAGES", 20_000)
    monkeypatch.setattr(content_decoders, "MAX_DECODED_BYTES", 64 * 1024 * 1024)
    resources = OpenResources()

    async def error_of(serve: stub_upstream.Script, timeout_s: float) -> tuple[str, str]:
        async with stub_upstream.upstream(serve) as server, asyncio.timeout(LIMIT_S):
            provider = make_provider(name, server.url, timeout_s=timeout_s)
            [error] = await response_events(provider)
        assert isinstance(error, ErrorEvent), error
        label = f"{provider.server_label} at {provider.settings.base_url}"
        return error.code, error.message.replace(label, "URL")

    expected = dict(HOSTILE)
    if name == "bedrock":  # it reads other types than its own as documents, whose bytes are content
        del expected[endless_comments], expected[flood_of_blank_lines]
    slow = [serve for serve, (code, _) in expected.items() if code == "TIMEOUT"]
    slow_errors = await asyncio.gather(*(error_of(serve, TIMEOUT_S) for serve in slow))
    errors = dict(zip(slow, slow_errors, strict=True))
    for serve in expected.keys() - slow:
        errors[serve] = await error_of(serve, LIMIT_S)
    await resources.assert_all_closed()

    assert errors == expected


async def test_a_response_of_http_1_0_ends_with_its_connection() -> None:
    async def serve(connection: Connection) -> None:
        head = b"HTTP/1.0 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"
        await connection.send(head + b'{"message": {"content": "Hello."}, "done": true}')
        connection.fin()

    async with stub_upstream.upstream(serve) as server:
        events = await response_events(make_provider("local", server.url))

    assert events[0] == TextEvent("Hello.")
    assert isinstance(events[1], ResponseEnd)


async def test_a_complete_response_is_not_kept_open_by_its_server() -> None:
    async def serve(connection: Connection) -> None:
        await connection.begin(content_type="application/x-ndjson")
        await connection.chunk(b'{"message": {"content": "Hello."}, "done": true}\n')
        await connection.reader.read()

    async with stub_upstream.upstream(serve) as server:
        async with asyncio.timeout(LIMIT_S):
            events = await response_events(make_provider("local", server.url))

    assert [type(event) for event in events] == [TextEvent, ResponseEnd]


async def test_the_arguments_of_a_long_call_are_content() -> None:
    async def serve(connection: Connection) -> None:
        await connection.begin()
        call = '{"index":0,"id":"c","function":{"name":"look","arguments":"{"}}'
        await connection.chunk(chat_chunk(call))
        for _ in range(14):
            await asyncio.sleep(0.1)
            await connection.chunk(chat_chunk('{"index":0,"function":{"arguments":" "}}'))
        await connection.chunk(chat_chunk('{"index":0,"function":{"arguments":"}"}}'))
        finish = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n'
        await connection.chunk(finish + b"data: [DONE]\n\n")
        await connection.finish()

    async with stub_upstream.upstream(serve) as server:
        provider = make_provider("openai", server.url, timeout_s=TIMEOUT_S)
        events = await response_events(provider)

    assert [type(event) for event in events] == [ToolCallStart, ResponseEnd]


def chat_chunk(call: str) -> bytes:
    """An event of a chat with a piece of a call."""
    delta = f'{{"choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}}}}]}}'
    return f"data: {delta}\n\n".encode()


# Shared


class OpenResources:
    """The tasks and files of this process that are open when it is made."""

    def __init__(self) -> None:
        self._tasks = asyncio.all_tasks()
        self._files = open_file_count()

    async def assert_all_closed(self) -> None:
        """Nothing has been opened since that is still open; the server needs some moments."""
        gc.collect()
        with suppress(TimeoutError):
            await wait_until(lambda: open_file_count() <= self._files, 2.0)
        assert open_file_count() <= self._files
        with suppress(TimeoutError):
            await wait_until(lambda: asyncio.all_tasks() <= self._tasks, 2.0)
        assert asyncio.all_tasks() <= self._tasks


def open_file_count() -> int:
    """The number of open files and sockets of this process."""
    return len([*Path("/dev/fd").iterdir()])


def limited_to_sessions(rules: Mapping[str, str]) -> list[str]:
    """Each rule, limited to the sessions that begin with its name."""
    return [
        f"{rule},session={session}-*" for session, rule in rules.items() if not is_of_listener(rule)
    ]


def is_of_listener(rule: str) -> bool:
    """Whether the rule applies to all connections."""
    return parse_rule(rule).kind.scope == "listener"


def served_faults(folder: Path, *rules: str) -> AbstractAsyncContextManager[ScenarioServer]:
    """A server whose scenario replies with `REPLY`, with these faults."""
    turn = text_turn(REPLY, turn="any")
    document = scenario_document(turn, name="hello", chunks={"by": "words"})
    return serve_scenarios(folder, document, faults=tuple(map(parse_rule, rules)))


def chat_request() -> Conversation:
    """The request to which `served_faults` responds with `REPLY`."""
    return request("hello")


def chat_client(
    name: str, url: str, *tools: Callable[..., object], timeout_s: float = TIMEOUT_S
) -> ChatClient:
    """A client of one provider."""
    provider = make_provider(name, url, timeout_s=timeout_s)
    return ChatClient(registry(provider), tools=tools, options=ChatOptions(model="m"))


def checked_outcome(events: list[ChatEvent]) -> str:
    """The outcome of a chat: its end, the tools called and the text."""
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert sum(isinstance(event, Finish) for event in events) == 1
    errors = [event for event in events if isinstance(event, ErrorEvent)]
    calls = [event.call.name + " " for event in events if isinstance(event, ToolCallStart)]
    results = [event for event in events if isinstance(event, ToolCallResult)]
    assert len(calls) == len(results)
    said = "".join(calls) + text_of(events)
    if finish == Finish("complete"):
        assert errors == []
        ends = [event.response for event in events if isinstance(event, TurnComplete)]
        assert ends[-1] is not None
        reason = ends[-1].reason
        return f"{'complete' if reason == 'stop' else reason}: {said}"
    assert finish == Finish("error")
    [error] = errors
    known = MESSAGES.get(error.code, ("HTTP ", "The server had an error"))
    assert error.message.startswith(known), error
    assert isinstance(events[-2], TurnComplete)
    assert events[-2].response is None
    return f"error {error.code}: {said}"
