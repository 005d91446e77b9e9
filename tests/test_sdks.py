"""The official SDKs judge: live or replayed, they read the same, and a miss is told once."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import ollama
import openai
import pytest

import sdks
from llm_proxy.outcomes import outcome
from proxying import cassettes, proxy
from sdks import Ask
from stub import Connection, Script, chunked, upstream, whole

Json = dict[str, Any]


def sse(documents: Iterable[Json], *, named: bool = False, done: bool = False) -> bytes:
    """A body of events, as the providers write them; named ones after their `type`."""
    events = [
        (f"event: {it['type']}\n" if named else "") + f"data: {_json(it)}\n\n" for it in documents
    ]
    return "".join([*events, "data: [DONE]\n\n" if done else ""]).encode()


def ndjson(*documents: Json) -> bytes:
    """A body of lines."""
    return "".join(f"{_json(it)}\n" for it in documents).encode()


def _json(document: Json) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def pieces(body: bytes, size: int = 41) -> list[bytes]:
    """The body as a network delivers it: cut inside events and inside characters."""
    return [body[begin : begin + size] for begin in range(0, len(body), size)]


def chat_chunk(finish: str | None = None, **delta: Any) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    fixed = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000}
    return fixed | {"model": "gpt-5", "choices": [choice]}


def chat_stream(*words: str) -> bytes:
    chunks = [chat_chunk(role="assistant", content=""), *(chat_chunk(content=it) for it in words)]
    return sse([*chunks, chat_chunk("stop")], done=True)


def tool_stream() -> bytes:
    def call(index: int, **fields: Any) -> Json:
        return chat_chunk(tool_calls=[{"index": index} | fields])

    def begun(index: int, id_: str) -> Json:
        function = {"name": "get_weather", "arguments": ""}
        return call(index, id=id_, type="function", function=function)

    return sse(
        [
            chat_chunk(role="assistant", content=None),
            begun(0, "call_a"),
            call(0, function={"arguments": '{"city":'}),
            call(0, function={"arguments": '"Zürich"}'}),
            begun(1, "call_b"),
            call(1, function={"arguments": '{"city":"Oslo"}'}),
            chat_chunk("tool_calls"),
        ],
        done=True,
    )


CHAT_WHOLE: Json = {
    "id": "chatcmpl-5", "object": "chat.completion", "created": 1700000000, "model": "gpt-5",
    "choices": [{"index": 0, "finish_reason": "stop", "logprobs": None,
                 "message": {"role": "assistant", "content": "Grüße 🌊", "refusal": None}}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
}  # fmt: skip

USAGE: Json = {"input_tokens": 9, "output_tokens": 2}
MESSAGE: Json = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5",
    "content": [], "stop_reason": None, "stop_sequence": None, "usage": USAGE,
}  # fmt: skip
MESSAGE_WHOLE = MESSAGE | {
    "content": [{"type": "text", "text": "Grüße 🌊"}], "stop_reason": "end_turn",
}  # fmt: skip


def message_stream() -> bytes:
    def begun(index: int, block: Json) -> Json:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def more(index: int, **delta: str) -> Json:
        return {"type": "content_block_delta", "index": index, "delta": delta}

    tool = {"type": "tool_use", "id": "toolu_a", "name": "get_weather", "input": {}}
    stop = {"stop_reason": "tool_use", "stop_sequence": None}
    events: list[Json] = [
        {"type": "message_start", "message": MESSAGE},
        begun(0, {"type": "text", "text": ""}),
        {"type": "ping"},
        more(0, type="text_delta", text="Grüße "),
        more(0, type="text_delta", text="🌊"),
        {"type": "content_block_stop", "index": 0},
        begun(1, tool),
        more(1, type="input_json_delta", partial_json='{"city": '),
        more(1, type="input_json_delta", partial_json='"Zürich"}'),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": stop, "usage": USAGE},
        {"type": "message_stop"},
    ]
    return sse(events, named=True)


def response_stream() -> bytes:
    text = {"type": "output_text", "text": "Grüße 🌊", "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [text]}
    response = {"id": "resp_1", "object": "response", "created_at": 1700000000, "model": "gpt-5"}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    events: list[Json] = [
        {"type": "response.created", "response": response | {"output": []}},
        {"type": "response.output_text.delta", "delta": "Grüße "} | place,
        {"type": "response.output_text.delta", "delta": "🌊"} | place,
        {"type": "response.completed", "response": response | {"output": [item]}},
    ]
    return sse(
        [{"sequence_number": number} | event for number, event in enumerate(events)], named=True
    )


def ollama_line(*, done: bool = False, **fields: Any) -> Json:
    fixed: Json = {"model": "qwen3", "created_at": "2026-11-21T10:00:00.000000001Z"}
    ended: Json = {"done_reason": "stop", "eval_count": 2} if done else {}
    return fixed | fields | {"done": done} | ended


def said(content: str, **more: Any) -> Json:
    return {"role": "assistant", "content": content} | more


TOOL = {"function": {"name": "get_weather", "arguments": {"city": "Zürich"}}}
OLLAMA_LINES = ndjson(
    ollama_line(message=said("Grüße ")),
    ollama_line(message=said("🌊", tool_calls=[TOOL])),
    ollama_line(message=said(""), done=True),
)


def ndjson_stream(body: bytes) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(content_type="application/x-ndjson")
        for piece in pieces(body):
            await connection.chunk(piece)
        await connection.finish()

    return script


def document(body: Json) -> Script:
    return whole(_json(body).encode())


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
    Case("openai stream", sdks.openai_stream, CHAT, ("Grüße", "🌊"), *_OPENAI),
    Case("openai stream, sync", sdks.openai_sync, CHAT, ("Grüße", "🌊"), *_OPENAI),
    Case("openai whole", sdks.openai_whole, document(CHAT_WHOLE), ("Grüße 🌊",), *_OPENAI),
    Case(
        "openai tool calls", sdks.openai_tools, chunked(pieces(tool_stream())),
        ('{"city":"Zürich"}', '{"city":"Oslo"}', "call_b"), *_OPENAI,
    ),
    Case(
        "openai responses", sdks.openai_responses, chunked(pieces(response_stream())),
        ("Grüße 🌊", "response.completed"), *_OPENAI,
    ),
    Case(
        "anthropic stream", sdks.anthropic_stream, chunked(pieces(message_stream())),
        ("Grüße 🌊", "Zürich", "tool_use"), *_ANTHROPIC,
    ),
    Case(
        "anthropic whole", sdks.anthropic_whole, document(MESSAGE_WHOLE), ("Grüße 🌊",),
        *_ANTHROPIC,
    ),
    Case(
        "ollama stream", sdks.ollama_stream, ndjson_stream(OLLAMA_LINES),
        ("Grüße", "🌊", "Zürich"), *_OLLAMA,
    ),
    Case(
        "ollama whole", sdks.ollama_whole, document(ollama_line(response="Grüße 🌊", done=True)),
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
    assert [outcome(it).complete for it in cassettes(tmp_path)] == [True]
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


@pytest.fixture
def nobody() -> Iterator[str]:
    """A URL at which nobody listens, and nobody can begin to."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


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
            await sdks.openai_whole(recording.url, "hello", 1)

    assert recording.journal.requests == 2


async def _echo(connection: Connection) -> None:
    """Answer with the question and the number of the request, slowly, word by word."""
    [message] = json.loads(connection.body)["messages"]
    body = chat_stream(message["content"], f" {connection.number}")
    await chunked(pieces(body), gap=0.001)(connection)


async def test_parallel_questions_get_their_own_answers_twice(tmp_path: Path) -> None:
    questions = [f"question {number}" for number in range(20)]

    async def ask(url: str) -> list[list[Json]]:
        return list(await asyncio.gather(*(sdks.openai_stream(url, it, 0) for it in questions)))

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
        answers = await asyncio.gather(*(sdks.openai_stream(url, "hello", 0) for _ in range(6)))
        return sorted(heard[2]["choices"][0]["delta"]["content"] for heard in answers)

    async with upstream(_echo) as live, proxy("record", tmp_path, live.url) as recording:
        first = await ask(recording.url)
    async with proxy("replay", tmp_path) as replaying:
        again = await ask(replaying.url)

    assert again == first == [f" {number}" for number in range(1, 7)]


@pytest.mark.skipif(bool(sdks.node_missing()), reason=sdks.node_missing())
async def test_the_sdk_of_node_reads_the_same_twice_and_is_told_of_a_miss(tmp_path: Path) -> None:
    body = chat_stream(*WORDS)
    asked = {"model": "gpt-5", "stream": True, "messages": [said("hello", role="user")]}
    missed = asked | {"messages": [said("good bye", role="user")]}
    async with upstream(CHAT) as live, proxy("record", tmp_path, live.url) as recording:
        first = await sdks.node(recording.url, asked)
    async with proxy("replay", tmp_path) as replaying:
        again = await sdks.node(replaying.url, asked)
        miss = await sdks.node(replaying.url, missed)

    [cassette] = cassettes(tmp_path)
    assert first["sha256"] == again["sha256"] == cassette.end.sha256
    assert cassette.body == body
    assert first["result"] == again["result"]
    assert "🌊" in str(first["result"])
    assert (miss["status"], miss["requests"]) == (424, 1)
    assert '"good bye", cassette has "hello"' in miss["message"]
