"""The official SDKs judge: live or replayed, they read the same, and a miss is told once."""

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
from in_process_proxy import cassettes, proxy
from llm_proxy.outcome import outcome_of
from provider_streams import (
    CHAT_WHOLE,
    MESSAGE_WHOLE,
    OLLAMA_LINES,
    Json,
    chat_stream,
    document,
    message_stream,
    ndjson_stream,
    ollama_line,
    pieces,
    response_stream,
    said,
    tool_stream,
)
from sdk_clients import Ask
from stub_upstream import Connection, Script, chunked, upstream


@dataclass(frozen=True, slots=True)
class Case:
    """One way of one SDK to ask, and what the provider answers."""

    name: str
    ask: Ask
    provider: Script
    hears: tuple[str, ...]
    """What must stand in the SDK's result."""
    raises: type[Exception]
    """What the SDK raises for an error status."""
    fails: type[Exception]
    """What it raises for a 502."""


WORDS = ("Grüße", " ", "🌊")
_OPENAI = (openai.APIStatusError, openai.InternalServerError)
_ANTHROPIC = (anthropic.APIStatusError, anthropic.InternalServerError)
_OLLAMA = (ollama.ResponseError, ollama.ResponseError)
CHAT = chunked(pieces(chat_stream(*WORDS)))
CASES = (
    Case("openai stream", sdk_clients.openai_stream, CHAT, ("Grüße", "🌊"), *_OPENAI),
    Case("openai stream, sync", sdk_clients.openai_sync, CHAT, ("Grüße", "🌊"), *_OPENAI),
    Case("openai whole", sdk_clients.openai_whole, document(CHAT_WHOLE), ("Grüße 🌊",), *_OPENAI),
    Case(
        "openai tool calls", sdk_clients.openai_tools, chunked(pieces(tool_stream())),
        ('{"city":"Zürich"}', '{"city":"Oslo"}', "call_b"), *_OPENAI,
    ),
    Case(
        "openai responses", sdk_clients.openai_responses, chunked(pieces(response_stream())),
        ("Grüße 🌊", "response.completed"), *_OPENAI,
    ),
    Case(
        "anthropic stream", sdk_clients.anthropic_stream, chunked(pieces(message_stream())),
        ("Grüße 🌊", "Zürich", "tool_use"), *_ANTHROPIC,
    ),
    Case(
        "anthropic whole", sdk_clients.anthropic_whole, document(MESSAGE_WHOLE), ("Grüße 🌊",),
        *_ANTHROPIC,
    ),
    Case(
        "ollama stream", sdk_clients.ollama_stream, ndjson_stream(OLLAMA_LINES),
        ("Grüße", "🌊", "Zürich"), *_OLLAMA,
    ),
    Case(
        "ollama whole", sdk_clients.ollama_whole, document(ollama_line(response="Grüße 🌊", done=True)),
        ("Grüße 🌊",), *_OLLAMA,
    ),
)  # fmt: skip


def each_case() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))


@each_case()
async def test_an_sdk_reads_the_replay_as_it_read_the_live_answer(
    case: Case, tmp_path: Path
) -> None:
    async with upstream(case.provider) as live, proxy("record", tmp_path, live.url) as recording:
        first = await case.ask(recording.url, "hello", 0)
    async with proxy("replay", tmp_path) as replaying:
        again = await case.ask(replaying.url, "hello", 0)

    assert again == first
    assert not [word for word in case.hears if word not in str(first)]
    assert [outcome_of(cassette).complete for cassette in cassettes(tmp_path)] == [True]
    assert (len(live.requests), len(replaying.journal.misses)) == (1, 0)


@each_case()
async def test_a_miss_is_raised_at_the_first_request_and_says_what_differs(
    case: Case, tmp_path: Path
) -> None:
    async with upstream(case.provider) as live, proxy("record", tmp_path, live.url) as recording:
        await case.ask(recording.url, "hello", 0)
    async with proxy("replay", tmp_path) as replaying:
        with pytest.raises(case.raises) as raised:
            await case.ask(replaying.url, "good bye", 2)

    assert raised.value.status_code == 424  # type: ignore[attr-defined] # every SDK's error has it
    assert replaying.journal.requests == 1
    told = str(raised.value).replace("\\", "")
    assert '"good bye", cassette has "hello"' in told
    assert "llm-proxy record" in told


@each_case()
async def test_an_empty_library_says_to_record(case: Case, tmp_path: Path) -> None:
    async with proxy("replay", tmp_path) as replaying:
        with pytest.raises(case.raises, match="llm-proxy record"):
            await case.ask(replaying.url, "hello", 2)

    assert replaying.journal.requests == 1


@each_case()
async def test_an_unreachable_provider_is_raised_with_our_sentence(
    case: Case, tmp_path: Path, nobody: str
) -> None:
    async with proxy("record", tmp_path, nobody) as recording:
        with pytest.raises(case.fails) as raised:
            await case.ask(recording.url, "hello", 0)

    assert raised.value.status_code == 502  # type: ignore[attr-defined] # every SDK's error has it
    told = str(raised.value)
    assert f"{nobody}, cannot be reached" in told
    assert "--upstream" in told
    assert cassettes(tmp_path) == []


async def test_an_sdk_retries_an_unreachable_provider_as_it_does_without_us(
    tmp_path: Path, nobody: str
) -> None:
    async with proxy("record", tmp_path, nobody) as recording:
        with pytest.raises(openai.InternalServerError):
            await sdk_clients.openai_whole(recording.url, "hello", 1)

    assert recording.journal.requests == 2


async def _echo(connection: Connection) -> None:
    """Response with the question and the number of the request, slowly, word by word."""
    [message] = json.loads(connection.body)["messages"]
    body = chat_stream(message["content"], f" {connection.number}")
    await chunked(pieces(body), gap=0.001)(connection)


async def test_parallel_questions_get_their_own_answers_twice(tmp_path: Path) -> None:
    questions = [f"question {number}" for number in range(20)]

    async def ask(url: str) -> list[list[Json]]:
        return list(
            await asyncio.gather(*(sdk_clients.openai_stream(url, item, 0) for item in questions))
        )

    async with upstream(_echo) as live, proxy("record", tmp_path, live.url) as recording:
        first = await ask(recording.url)
    async with proxy("replay", tmp_path) as replaying:
        again = await ask(replaying.url)

    assert again == first
    for question, heard in zip(questions, first, strict=True):
        assert heard[1]["choices"][0]["delta"]["content"] == question
    assert len(cassettes(tmp_path)) == len(questions)


async def test_the_same_question_in_parallel_plays_every_take_once(tmp_path: Path) -> None:
    async def ask(url: str) -> list[str]:
        answers = await asyncio.gather(
            *(sdk_clients.openai_stream(url, "hello", 0) for _ in range(6))
        )
        return sorted(heard[2]["choices"][0]["delta"]["content"] for heard in answers)

    async with upstream(_echo) as live, proxy("record", tmp_path, live.url) as recording:
        first = await ask(recording.url)
    async with proxy("replay", tmp_path) as replaying:
        again = await ask(replaying.url)

    assert again == first == [f" {number}" for number in range(1, 7)]


@pytest.mark.skipif(bool(sdk_clients.node_missing()), reason=sdk_clients.node_missing())
async def test_the_sdk_of_node_reads_the_same_twice_and_is_told_of_a_miss(tmp_path: Path) -> None:
    body = chat_stream(*WORDS)
    asked = {"model": "gpt-5", "stream": True, "messages": [said("hello", role="user")]}
    missed = asked | {"messages": [said("good bye", role="user")]}
    async with upstream(CHAT) as live, proxy("record", tmp_path, live.url) as recording:
        first = await sdk_clients.node(recording.url, asked)
    async with proxy("replay", tmp_path) as replaying:
        again = await sdk_clients.node(replaying.url, asked)
        miss = await sdk_clients.node(replaying.url, missed)

    [cassette] = cassettes(tmp_path)
    assert first["sha256"] == again["sha256"] == cassette.end.sha256
    assert cassette.body == body
    assert first["result"] == again["result"]
    assert "🌊" in str(first["result"])
    assert (miss["status"], miss["requests"]) == (424, 1)
    assert '"good bye", cassette has "hello"' in miss["message"]
