"""The official SDKs read live and replayed responses alike, and report a miss once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import anthropic
import ollama
import openai
import pytest

import sdk_clients
from case_tables import each_row
from in_process_proxy import load_cassettes, proxy
from llm_proxy.cassette_views import cassette_outcome
from provider_streams import (
    CHAT_COMPLETION,
    COMPLETE_MESSAGE,
    OLLAMA_LINES,
    Json,
    assistant_message,
    chat_stream,
    json_response,
    message_stream,
    ndjson_stream,
    ollama_line,
    response_stream,
    split_bytes,
    tool_stream,
)
from sdk_clients import SdkCall
from stub_upstream import Connection, Script, chunked, upstream
from thoroughness import quick_or_thorough


@dataclass(frozen=True, slots=True)
class Case:
    """One call of one SDK, and the provider's response."""

    name: str
    send_request: SdkCall
    provider: Script
    expected_fragments: tuple[str, ...]
    """Texts that the SDK's result must contain."""
    status_error_type: type[Exception]
    """The exception that the SDK raises for an error status."""
    server_error_type: type[Exception]
    """The exception that the SDK raises for a 502."""


TEXT_DELTAS = ("Grüße", " ", "🌊")
_OPENAI_ERRORS = (openai.APIStatusError, openai.InternalServerError)
_ANTHROPIC_ERRORS = (anthropic.APIStatusError, anthropic.InternalServerError)
_OLLAMA_ERRORS = (ollama.ResponseError, ollama.ResponseError)
CHAT_PROVIDER = chunked(split_bytes(chat_stream(*TEXT_DELTAS)))
CASES = (
    Case(
        "openai stream", sdk_clients.openai_stream, CHAT_PROVIDER, ("Grüße", "🌊"), *_OPENAI_ERRORS
    ),
    Case(
        "openai stream, sync",
        sdk_clients.openai_sync,
        CHAT_PROVIDER,
        ("Grüße", "🌊"),
        *_OPENAI_ERRORS,
    ),
    Case(
        "openai whole",
        sdk_clients.openai_whole,
        json_response(CHAT_COMPLETION),
        ("Grüße 🌊",),
        *_OPENAI_ERRORS,
    ),
    Case(
        "openai tool calls",
        sdk_clients.openai_tools,
        chunked(split_bytes(tool_stream())),
        ('{"city":"Zürich"}', '{"city":"Oslo"}', "call_b"),
        *_OPENAI_ERRORS,
    ),
    Case(
        "openai responses",
        sdk_clients.openai_responses,
        chunked(split_bytes(response_stream())),
        ("Grüße 🌊", "response.completed"),
        *_OPENAI_ERRORS,
    ),
    Case(
        "anthropic stream",
        sdk_clients.anthropic_stream,
        chunked(split_bytes(message_stream())),
        ("Grüße 🌊", "Zürich", "tool_use"),
        *_ANTHROPIC_ERRORS,
    ),
    Case(
        "anthropic whole",
        sdk_clients.anthropic_whole,
        json_response(COMPLETE_MESSAGE),
        ("Grüße 🌊",),
        *_ANTHROPIC_ERRORS,
    ),
    Case(
        "ollama stream",
        sdk_clients.ollama_stream,
        ndjson_stream(OLLAMA_LINES),
        ("Grüße", "🌊", "Zürich"),
        *_OLLAMA_ERRORS,
    ),
    Case(
        "ollama whole",
        sdk_clients.ollama_whole,
        json_response(ollama_line(response="Grüße 🌊", done=True)),
        ("Grüße 🌊",),
        *_OLLAMA_ERRORS,
    ),
)


@each_row("case", CASES, ids=[case.name for case in CASES])
async def test_an_sdk_reads_the_replay_as_it_read_the_live_answer(
    case: Case, tmp_path: Path
) -> None:
    folder = tmp_path / case.name
    async with (
        upstream(case.provider) as live,
        proxy("record", folder, live.url) as recording,
    ):
        first = await case.send_request(recording.url, "hello", 0)
    async with proxy("replay", folder) as replaying:
        replayed = await case.send_request(replaying.url, "hello", 0)

    assert replayed == first
    assert not [fragment for fragment in case.expected_fragments if fragment not in str(first)]
    assert [cassette_outcome(cassette).is_complete for cassette in load_cassettes(folder)] == [True]
    assert (len(live.requests), len(replaying.journal.misses)) == (1, 0)


@each_row("case", CASES, ids=[case.name for case in CASES])
async def test_a_miss_is_raised_at_the_first_request_and_says_what_differs(
    case: Case, tmp_path: Path
) -> None:
    folder = tmp_path / case.name
    async with (
        upstream(case.provider) as live,
        proxy("record", folder, live.url) as recording,
    ):
        await case.send_request(recording.url, "hello", 0)
    async with proxy("replay", folder) as replaying:
        with pytest.raises(case.status_error_type) as raised:
            await case.send_request(replaying.url, "good bye", 2)

    assert raised.value.status_code == 424  # type: ignore[attr-defined] # every SDK's error has it
    assert replaying.journal.counts.requests == 1
    message = str(raised.value).replace("\\", "")
    assert 'request has "good bye", cassette has "hello"' in message
    assert "llm-proxy record" in message


@each_row("case", CASES, ids=[case.name for case in CASES])
async def test_an_empty_library_says_to_record(case: Case, tmp_path: Path) -> None:
    async with proxy("replay", tmp_path / case.name) as replaying:
        with pytest.raises(case.status_error_type, match="llm-proxy record"):
            await case.send_request(replaying.url, "hello", 2)

    assert replaying.journal.counts.requests == 1


@each_row("case", CASES, ids=[case.name for case in CASES])
async def test_an_unreachable_provider_raises_an_error_with_our_message(
    case: Case, tmp_path: Path, unreachable_url: str
) -> None:
    async with proxy("record", tmp_path / case.name, unreachable_url) as recording:
        with pytest.raises(case.server_error_type) as raised:
            await case.send_request(recording.url, "hello", 0)

    assert raised.value.status_code == 502  # type: ignore[attr-defined] # every SDK's error has it
    message = str(raised.value)
    assert f"the upstream {unreachable_url} (provider " in message
    assert "cannot be reached" in message
    assert "--upstream" in message
    assert load_cassettes(tmp_path / case.name) == []


async def test_an_sdk_retries_an_unreachable_provider_as_it_does_without_us(
    tmp_path: Path, unreachable_url: str
) -> None:
    async with proxy("record", tmp_path, unreachable_url) as recording:
        with pytest.raises(openai.InternalServerError):
            await sdk_clients.openai_whole(recording.url, "hello", 1)

    assert recording.journal.counts.requests == 2


async def _echo(connection: Connection) -> None:
    """Respond slowly with the request's message and its number, one text delta each."""
    [message] = json.loads(connection.body)["messages"]
    body = chat_stream(message["content"], f" {connection.number}")
    await chunked(split_bytes(body), gap=0.001)(connection)


async def test_parallel_questions_get_their_own_answers_twice(tmp_path: Path) -> None:
    questions = [f"question {number}" for number in range(quick_or_thorough(8, 20))]

    async def send_all(url: str) -> list[list[Json]]:
        return list(
            await asyncio.gather(*(sdk_clients.openai_stream(url, item, 0) for item in questions))
        )

    async with upstream(_echo) as live, proxy("record", tmp_path, live.url) as recording:
        first = await send_all(recording.url)
    async with proxy("replay", tmp_path) as replaying:
        replayed = await send_all(replaying.url)

    assert replayed == first
    for question, events in zip(questions, first, strict=True):
        assert events[1]["choices"][0]["delta"]["content"] == question
    assert len(load_cassettes(tmp_path)) == len(questions)


async def test_the_same_question_in_parallel_plays_every_take_once(tmp_path: Path) -> None:
    async def send_all(url: str) -> list[str]:
        streams = await asyncio.gather(
            *(sdk_clients.openai_stream(url, "hello", 0) for _ in range(6))
        )
        return sorted(events[2]["choices"][0]["delta"]["content"] for events in streams)

    async with upstream(_echo) as live, proxy("record", tmp_path, live.url) as recording:
        first = await send_all(recording.url)
    async with proxy("replay", tmp_path) as replaying:
        replayed = await send_all(replaying.url)

    assert replayed == first == [f" {number}" for number in range(1, 7)]


@pytest.mark.thorough
@pytest.mark.skipif(
    bool(sdk_clients.node_missing_reason()), reason=sdk_clients.node_missing_reason()
)
async def test_the_node_sdk_reads_the_replay_and_raises_a_miss(tmp_path: Path) -> None:
    body = chat_stream(*TEXT_DELTAS)
    request = {
        "model": "gpt-5",
        "stream": True,
        "messages": [assistant_message("hello", role="user")],
    }
    unrecorded_request = request | {"messages": [assistant_message("good bye", role="user")]}
    async with upstream(CHAT_PROVIDER) as live, proxy("record", tmp_path, live.url) as recording:
        first = await sdk_clients.run_node_sdk(recording.url, request)
    async with proxy("replay", tmp_path) as replaying:
        replayed = await sdk_clients.run_node_sdk(replaying.url, request)
        miss = await sdk_clients.run_node_sdk(replaying.url, unrecorded_request)

    [cassette] = load_cassettes(tmp_path)
    assert first["sha256"] == replayed["sha256"] == cassette.response_end.sha256
    assert cassette.response_body == body
    assert first["result"] == replayed["result"]
    assert "🌊" in str(first["result"])
    assert (miss["status"], miss["requests"]) == (424, 1)
    assert 'request has "good bye", cassette has "hello"' in miss["message"]
