"""The cassettes that the project ships: whole, in their place, listed, and played back exactly."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import openai
import pytest

from in_process_proxy import proxy
from llm_proxy import dialects, matching
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.dialects import DialectResponse
from llm_proxy.outcome import outcome_of
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.library.library import Library
from llm_proxy.turns import Finish, ToolCall, Turn
from raw_http import Raw, ask, post
from sdk_clients import anthropic_client, openai_client

ROOT = Path(__file__).parents[1]
LIBRARY = Library(ROOT / "cassettes")
LIBRARY.refresh()
EXAMPLES = [LIBRARY.load_cassette(path) for path in LIBRARY.files()]
CHATS = [
    item for item in EXAMPLES if item.meta.dialect == "openai-chat" and item.head.status == 200
]
MOST = 400_000
"""Bytes that all of them may have: whoever clones the project downloads them."""


def each(examples: list[Cassette]) -> pytest.MarkDecorator:
    names = [Path(example.file).stem for example in examples]
    return pytest.mark.parametrize("example", examples, ids=names)


def body(example: Cassette) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(example.request.body)
    return document


def answered(path: str) -> Cassette:
    """The one example for this path."""
    [example] = [item for item in EXAMPLES if item.request.path == path]
    return example


def turn(example: Cassette) -> Turn:
    """What the recording says, as our own dialect reads it."""
    answer = DialectResponse(example.head, example.codec, example.messages)
    [only] = dialects.dialect_named(example.meta.dialect).decode(answer)
    return only


async def asked_again(url: str, example: Cassette) -> Raw:
    """What the wire says to the request that was recorded."""
    headers = [f"{name}: {value}" for name, value in example.request.headers]
    request = example.request
    return await ask(url, post(request.path, request.body, *headers, method=request.method))


def test_there_is_a_dozen_and_all_of_it_is_small() -> None:
    sizes = [path.stat().st_size for path in LIBRARY.files()]
    assert len(sizes) >= 12
    assert sum(sizes) <= MOST
    assert LIBRARY.strays() == []


def test_the_readme_lists_every_example_and_no_other() -> None:
    readme = (LIBRARY.root / "README.md").read_text("utf-8")
    listed = re.findall(r"\]\(([^)]+\.jsonl)\)", readme)
    assert sorted(listed) == [path.relative_to(LIBRARY.root).as_posix() for path in LIBRARY.files()]


def test_the_examples_show_what_streams_are_made_of() -> None:
    turns = [turn(chat) for chat in CHATS]
    assert {Finish.STOP, Finish.LENGTH, Finish.TOOL_CALLS} <= {item.finish for item in turns}
    assert any(isinstance(part, ToolCall) for item in turns for part in item.parts)
    assert any("\N{TANGERINE}" in item.text for item in turns)
    assert any("Österreich" in item.text for item in turns)
    assert any(item.usage is not None for item in turns)
    assert max(len(chat.messages) for chat in CHATS) > 300
    assert {example.codec for example in EXAMPLES} == {"sse", "whole"}
    assert {200, 400, 501} == {example.head.status for example in EXAMPLES}


@each(EXAMPLES)
def test_an_example_is_complete_and_lies_where_its_request_finds_it(example: Cassette) -> None:
    meta = example.meta
    assert outcome_of(example).complete
    assert meta.session == DEFAULT_SESSION
    assert meta.key == matching.request_key(meta.provider, example.request)
    assert Path(example.file) == LIBRARY.path_for_take(meta, example.request, 1)
    assert (example.request.redacted, example.end.redacted) == (0, 0)


@each(EXAMPLES)
async def test_an_example_is_replayed_byte_for_byte_and_read_for_read(example: Cassette) -> None:
    async with proxy("replay", ROOT, pace=InstantPace()) as replaying:
        heard = await asked_again(replaying.url, example)

    assert (heard.status, heard.reason, heard.how) == (
        example.head.status,
        example.head.reason,
        "clean",
    )
    assert heard.body == example.body
    if example.head.framing == "chunked":
        assert heard.chunks == [read.data for read in example.reads]
    else:
        assert heard.header("content-length") == str(example.end.size)
    assert set(example.head.headers) <= set(heard.headers)


async def test_no_read_of_an_example_is_replayed_before_its_time() -> None:
    example = next(chat for chat in CHATS if "Österreich" in turn(chat).text)
    async with proxy("replay", ROOT) as replaying:
        heard = await asked_again(replaying.url, example)

    early = [read.at_ms - at for read, at in zip(example.reads, heard.times, strict=True)]
    assert max(early) < 0.5
    assert example.reads[-1].at_ms > 100


@each(CHATS)
async def test_the_openai_sdk_hears_what_our_dialect_reads(example: Cassette) -> None:
    question = body(example)
    async with (
        proxy("replay", ROOT, pace=InstantPace()) as replaying,
        openai_client(replaying.url) as client,
    ):
        answer = await client.chat.completions.create(**question)
        deltas = (
            [chunk.choices[0].delta.to_dict() async for chunk in answer if chunk.choices]
            if question.get("stream")
            else [answer.choices[0].message.to_dict()]
        )

    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls", ())]
    said = turn(example)
    assert "".join(delta.get("content") or "" for delta in deltas) == said.text
    assert "".join(call.get("arguments", "") for call in calls) == "".join(
        part.arguments for part in said.parts if isinstance(part, ToolCall)
    )
    assert said.text or calls


async def test_the_openai_sdk_raises_every_recorded_refusal() -> None:
    refusals = [item for item in EXAMPLES if item.head.status == 400]
    async with (
        proxy("replay", ROOT, pace=InstantPace()) as replaying,
        openai_client(replaying.url) as client,
    ):
        for example in refusals:
            why = json.loads(example.body)["error"]["message"]
            with pytest.raises(openai.BadRequestError, match=re.escape(why)):
                await client.chat.completions.create(**body(example))
    assert len(refusals) >= 2


async def test_the_openai_sdk_reads_the_responses_example() -> None:
    example = answered("/v1/responses")
    async with (
        proxy("replay", ROOT, pace=InstantPace()) as replaying,
        openai_client(replaying.url) as client,
    ):
        events = [item async for item in await client.responses.create(**body(example))]

    heard = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert heard
    assert f'"text":{json.dumps(heard)}' in example.body.decode()


async def test_the_anthropic_sdk_reads_the_messages_example() -> None:
    example = answered("/v1/messages")
    question = {name: it for name, it in body(example).items() if name != "stream"}
    async with (
        proxy("replay", ROOT, pace=InstantPace()) as replaying,
        anthropic_client(replaying.url) as client,
        client.messages.stream(**question) as stream,
    ):
        message = await stream.get_final_message()

    [block] = message.content
    deltas = [json.loads(item) for item in re.findall(rb"data: (.*_delta.*)", example.body)]
    assert block.type == "text"
    assert block.text == "".join(delta["delta"].get("text", "") for delta in deltas)
    assert f'"stop_reason":"{message.stop_reason}"' in example.body.decode()
