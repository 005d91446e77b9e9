"""The shipped cassettes: complete, stored and listed correctly, and replayed exactly."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from case_tables import each_row
from in_process_proxy import proxy
from llm_proxy import dialects, matching
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.dialects import DialectResponse
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.turns import FinishReason, ToolCall, Turn
from raw_http import RawResponse, build_http_request, send_request
from sdk_clients import anthropic_client, openai_client

ROOT = Path(__file__).parents[1]
LIBRARY = Library(ROOT / "cassettes")
LIBRARY.refresh()
EXAMPLE_PATHS = [
    path for path in LIBRARY.cassette_paths() if LIBRARY.root / "chat" not in path.parents
]
"""Without those of `test_chat_live`."""
EXAMPLES = [LIBRARY.load_cassette(path) for path in EXAMPLE_PATHS]
CHAT_EXAMPLES = [
    item
    for item in EXAMPLES
    if item.meta.dialect == "openai-chat" and item.response_head.status == 200
]
MAX_TOTAL_BYTES = 400_000
"""The most bytes of all examples together: whoever clones the project downloads them."""


@pytest.fixture
async def replaying() -> AsyncIterator[RunningProxy]:
    """A replay of the examples at once."""
    async with proxy("replay", ROOT, pace=InstantPace()) as running:
        yield running


def _name(example: Cassette) -> str:
    return Path(example.file).stem


def request_body(example: Cassette) -> dict[str, Any]:
    request_json: dict[str, Any] = json.loads(example.request.body)
    return request_json


def example_for_path(path: str) -> Cassette:
    """The only example with this path."""
    [example] = [item for item in EXAMPLES if item.request.path == path]
    return example


def decoded_turn(example: Cassette) -> Turn:
    """The recorded response, decoded by our own dialect."""
    response = DialectResponse(example.response_head, example.codec_name, example.framed_messages)
    [decoded] = dialects.dialect_named(example.meta.dialect).decode_response(response)
    return decoded


async def replay_request(url: str, example: Cassette) -> RawResponse:
    """The proxy's response to the recorded request."""
    headers = [f"{name}: {value}" for name, value in example.request.headers]
    request = example.request
    return await send_request(
        url, build_http_request(request.path, request.body, *headers, method=request.method)
    )


def test_there_are_a_dozen_small_examples() -> None:
    sizes = [path.stat().st_size for path in EXAMPLE_PATHS]
    assert len(sizes) >= 12
    assert sum(sizes) <= MAX_TOTAL_BYTES
    assert LIBRARY.stray_paths() == []


def test_the_readme_lists_every_example_and_no_other() -> None:
    readme = (LIBRARY.root / "README.md").read_text("utf-8")
    listed = re.findall(r"\]\(([^)]+\.jsonl)\)", readme)
    assert sorted(listed) == [path.relative_to(LIBRARY.root).as_posix() for path in EXAMPLE_PATHS]


def test_the_examples_show_what_streams_are_made_of() -> None:
    turns = [decoded_turn(chat) for chat in CHAT_EXAMPLES]
    assert {FinishReason.STOP, FinishReason.LENGTH, FinishReason.TOOL_CALLS} <= {
        item.finish for item in turns
    }
    assert any(isinstance(part, ToolCall) for item in turns for part in item.parts)
    assert any("\N{TANGERINE}" in item.text for item in turns)
    assert any("Österreich" in item.text for item in turns)
    assert any(item.usage is not None for item in turns)
    assert max(len(chat.framed_messages) for chat in CHAT_EXAMPLES) > 300
    assert {example.codec_name for example in EXAMPLES} == {"sse", "whole"}
    assert {200, 400, 501} == {example.response_head.status for example in EXAMPLES}


@each_row("example", EXAMPLES, ids=map(_name, EXAMPLES))
def test_an_example_is_complete_and_stored_where_its_request_finds_it(example: Cassette) -> None:
    meta = example.meta
    assert cassette_outcome(example).is_complete
    assert meta.session == DEFAULT_SESSION
    assert meta.key == matching.request_key(meta.provider, example.request)
    assert Path(example.file) == LIBRARY.path_for_take(meta, example.request, 1)
    assert (example.request.redacted_count, example.response_end.redacted_count) == (0, 0)


@each_row("example", EXAMPLES, ids=map(_name, EXAMPLES))
async def test_an_example_is_replayed_byte_for_byte_and_read_for_read(
    replaying: RunningProxy, example: Cassette
) -> None:
    response = await replay_request(replaying.url, example)

    assert (response.status, response.reason, response.ending) == (
        example.response_head.status,
        example.response_head.reason,
        "clean",
    )
    assert response.body == example.response_body
    if example.response_head.framing == "chunked":
        assert response.chunks == [read.received_bytes for read in example.reads]
    else:
        assert response.header("content-length") == str(example.response_end.size_bytes)
    assert set(example.response_head.headers) <= set(response.headers)


async def test_no_read_of_an_example_is_replayed_before_its_time() -> None:
    example = next(chat for chat in CHAT_EXAMPLES if "Österreich" in decoded_turn(chat).text)
    async with proxy("replay", ROOT) as replaying:
        response = await replay_request(replaying.url, example)

    lead_ms = [
        read.at_ms - time_ms for read, time_ms in zip(example.reads, response.times_ms, strict=True)
    ]
    assert max(lead_ms) < 0.5
    assert example.reads[-1].at_ms > 100


@each_row("example", CHAT_EXAMPLES, ids=map(_name, CHAT_EXAMPLES))
async def test_the_openai_sdk_parses_what_our_dialect_decodes(
    replaying: RunningProxy, example: Cassette
) -> None:
    request_fields = request_body(example)
    async with openai_client(replaying.url) as client:
        answer = await client.chat.completions.create(**request_fields)
        deltas = (
            [chunk.choices[0].delta.to_dict() async for chunk in answer if chunk.choices]
            if request_fields.get("stream")
            else [answer.choices[0].message.to_dict()]
        )

    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls", ())]
    recorded_turn = decoded_turn(example)
    assert "".join(delta.get("content") or "" for delta in deltas) == recorded_turn.text
    assert "".join(call.get("arguments", "") for call in calls) == "".join(
        part.arguments for part in recorded_turn.parts if isinstance(part, ToolCall)
    )
    assert recorded_turn.text or calls


async def test_the_openai_sdk_raises_every_recorded_refusal(replaying: RunningProxy) -> None:
    refusals = [item for item in EXAMPLES if item.response_head.status == 400]
    async with openai_client(replaying.url) as client:
        for example in refusals:
            message = json.loads(example.response_body)["error"]["message"]
            with pytest.raises(openai.BadRequestError, match=re.escape(message)):
                await client.chat.completions.create(**request_body(example))
    assert len(refusals) >= 2


async def test_the_openai_sdk_reads_the_responses_example(replaying: RunningProxy) -> None:
    example = example_for_path("/v1/responses")
    async with openai_client(replaying.url) as client:
        events = [item async for item in await client.responses.create(**request_body(example))]

    received_text = "".join(
        event.delta for event in events if event.type == "response.output_text.delta"
    )
    assert received_text
    assert f'"text":{json.dumps(received_text)}' in example.response_body.decode()


async def test_the_anthropic_sdk_reads_the_messages_example(replaying: RunningProxy) -> None:
    example = example_for_path("/v1/messages")
    request_fields = {
        name: value for name, value in request_body(example).items() if name != "stream"
    }
    async with (
        anthropic_client(replaying.url) as client,
        client.messages.stream(**request_fields) as stream,
    ):
        message = await stream.get_final_message()

    [block] = message.content
    deltas = [
        json.loads(item) for item in re.findall(rb"data: (.*_delta.*)", example.response_body)
    ]
    assert block.type == "text"
    assert block.text == "".join(delta["delta"].get("text", "") for delta in deltas)
    assert f'"stop_reason":"{message.stop_reason}"' in example.response_body.decode()
