"""The providers of `llm_chat` with scenarios of the proxy: events, messages, and requests."""

from __future__ import annotations

import asyncio
import gc
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from case_tables import each_row
from chat_providers import PROVIDERS, make_provider, registry, text_of
from llm_chat import (
    ChatClient,
    ChatEvent,
    ChatOptions,
    Finish,
    Message,
    Part,
    Reasoning,
    ReasoningEvent,
    ResponseEnd,
    Text,
    TextEvent,
    ToolCall,
    ToolCallResult,
    ToolCallStart,
    ToolResult,
    TurnComplete,
)
from llm_proxy.dialects import Dialect, DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.exchange import Request
from llm_proxy.framing import eventstream
from llm_proxy.turns import Json, Turn, Usage
from scenario_server import (
    JsonObject,
    ScenarioServer,
    scenario_document,
    serve_scenarios,
    single_turn_scenario,
    text_turn,
    tool_call_turn,
)
from scripted_provider import provider_script
from stub_upstream import upstream

CITIES: Final = ("Rome", "Oslo", "Bonn")

USAGE: Final = {
    "openai": Usage(64, 32, 96),
    "openai-responses": Usage(64, 32, 96, 0, 0, 0),
    "anthropic": Usage(64, 32),
    "bedrock": Usage(64, 32, 96),
    "local": Usage(64, 32),
    "cohere": Usage(64, 32),
    "gemini": Usage(64, 32, 96),
    "gemini-interactions": Usage(64, 32, 96),
}
RAW_REASONS: Final = {
    "openai": ("stop", "tool_calls"),
    "openai-responses": ("completed", "completed"),
    "anthropic": ("end_turn", "tool_use"),
    "bedrock": ("end_turn", "tool_use"),
    "local": ("stop", "stop"),
    "cohere": ("COMPLETE", "TOOL_CALL"),
    "gemini": ("STOP", "STOP"),
    "gemini-interactions": ("completed", "requires_action"),
}
"""The provider's finish reasons of text and of calls."""

REASONING_FIELDS: Final[dict[str, dict[str, Json]]] = {
    "openai": {"reasoning_effort": "low"},
    "openai-responses": {
        "reasoning": {"effort": "low"},
        "include": ["reasoning.encrypted_content"],
    },
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "bedrock": {
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    },
    "local": {"think": True},
    "cohere": {"thinking": {"type": "enabled"}},
    "gemini": {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
    "gemini-interactions": {"generation_config": {"thinking_level": "low"}},
}
"""The fields of a request that enable reasoning."""

SIGNED_REASONING: Final[dict[str, Part]] = {
    "openai": Reasoning("Three cities."),
    "openai-responses": Reasoning("Three cities.", redacted="ZW5jcnlwdGVk"),
    "anthropic": Reasoning("Three cities.", signature="c2lnbmF0dXJl"),
    "bedrock": Reasoning("Three cities.", signature="c2lnbmF0dXJl"),
    "local": Reasoning("Three cities."),
    "cohere": Reasoning("Three cities."),
    "gemini": Reasoning("Three cities.", signature="c2lnbmF0dXJl"),
    "gemini-interactions": Reasoning("Three cities.", signature="c2lnbmF0dXJl"),
}

REQUEST_PATHS: Final = {
    "openai": (
        "$.messages[*].tool_calls[*].id",
        "$.messages[?@.role=='tool'].tool_call_id",
        "$.messages[?@.role=='tool'].content",
        "",  # reasoning cannot be sent back
    ),
    "openai-responses": (
        "$.input[?@.type=='function_call'].call_id",
        "$.input[?@.type=='function_call_output'].call_id",
        "$.input[?@.type=='function_call_output'].output",
        "$.input[?@.type=='reasoning'].encrypted_content",
    ),
    "anthropic": (
        "$.messages[*].content[?@.type=='tool_use'].id",
        "$.messages[*].content[?@.type=='tool_result'].tool_use_id",
        "$.messages[*].content[?@.type=='tool_result'].content",
        "$.messages[*].content[?@.type=='thinking'].signature",
    ),
    "bedrock": (
        "$.messages[*].content[*].toolUse.toolUseId",
        "$.messages[*].content[*].toolResult.toolUseId",
        "$.messages[*].content[*].toolResult.content[*].text",
        "$.messages[*].content[*].reasoningContent.reasoningText.signature",
    ),
    "local": (
        "$.messages[*].tool_calls[*].id",
        "$.messages[?@.role=='tool'].tool_call_id",
        "$.messages[?@.role=='tool'].content",
        "$.messages[*].thinking",
    ),
    "cohere": (
        "$.messages[*].tool_calls[*].id",
        "$.messages[?@.role=='tool'].tool_call_id",
        "$.messages[?@.role=='tool'].content",
        "$.messages[*].content[?@.type=='thinking'].thinking",
    ),
    "gemini": (
        "$.contents[*].parts[*].functionCall.id",
        "$.contents[*].parts[*].functionResponse.id",
        "$.contents[*].parts[*].functionResponse.response.result",
        "$.contents[*].parts[*].thoughtSignature",
    ),
    "gemini-interactions": (
        "$.input[?@.type=='function_call'].id",
        "$.input[?@.type=='function_result'].call_id",
        "$.input[?@.type=='function_result'].result",
        "$.input[?@.type=='thought'].signature",
    ),
}
"""Where a request has the ids of calls, the ids of results, the results, and signed reasoning."""

SENT_REASONING: Final = {
    "openai": "",
    "openai-responses": "ZW5jcnlwdGVk",
    "anthropic": "c2lnbmF0dXJl",
    "bedrock": "c2lnbmF0dXJl",
    "local": "Three cities.",
    "cohere": "Three cities.",
    "gemini": "c2lnbmF0dXJl",
    "gemini-interactions": "c2lnbmF0dXJl",
}


def look(city: str) -> str:
    """Look at a city."""
    return f"{city}: rain"


@pytest.mark.shows("002-20", "002-23", "002-27", "002-30", "002-57")
@each_row("name", PROVIDERS)
async def test_a_text_is_passed_on_in_pieces(tmp_path: Path, name: str) -> None:
    document = single_turn_scenario("text", assistantText="Two words.", finish_reason="stop")
    document["chunks"] = {"by": "words"}
    async with serve_scenarios(tmp_path, document) as server:
        events, messages = await chat(name, server, "refund")

    parts = (Text("Two words."),)
    assert events == [
        TextEvent("Two"),
        TextEvent(" words."),
        TurnComplete(1, ResponseEnd("stop", parts, USAGE[name], RAW_REASONS[name][0])),
        Finish("complete"),
    ]
    assert messages == [Message("user", (Text("refund"),)), Message("assistant", parts)]


@each_row("name", PROVIDERS)
async def test_reasoning_comes_before_the_text(tmp_path: Path, name: str) -> None:
    thought = {"text": "A thought."}
    document = single_turn_scenario("text", assistantText="No.", reasoning=[thought])
    document["chunks"] = {"by": "words"}
    async with serve_scenarios(tmp_path, document) as server:
        events, messages = await chat(name, server, "refund")

    assert events[:3] == [
        ReasoningEvent("A"),
        ReasoningEvent(" thought."),
        TextEvent("No."),
    ]
    [*_, message] = messages
    reasoning, text = message.parts
    assert isinstance(reasoning, Reasoning)
    assert reasoning.text == "A thought."
    assert text == Text("No.")


@each_row("name", PROVIDERS)
async def test_the_token_limit_is_the_reason_of_the_end(tmp_path: Path, name: str) -> None:
    document = single_turn_scenario("text", assistantText="Two", finish_reason="length")
    async with serve_scenarios(tmp_path, document) as server:
        events, _ = await chat(name, server, "refund")

    complete = events[-2]
    assert isinstance(complete, TurnComplete)
    assert complete.response is not None
    assert complete.response.reason == "length"
    assert events[-1] == Finish("complete")


@pytest.mark.shows("002-25", "002-31", "002-33", "002-55", "002-56")
@each_row("name", PROVIDERS)
async def test_three_parallel_calls_and_signed_reasoning_are_sent_back(
    tmp_path: Path, name: str
) -> None:
    async with serve_scenarios(tmp_path, parallel_calls_scenario(name)) as server:
        events, messages = await chat(name, server, "plan")

    calls = [
        ToolCall(f"call-{number}", "look", f'{{"city":"{city}"}}')
        for number, city in enumerate(CITIES, 1)
    ]
    results = [f"{city}: rain" for city in CITIES]
    ids = "call-1\ncall-2\ncall-3"
    last_text = f'{ids}; {ids}; "Rome: rain"\n"Oslo: rain"\n"Bonn: rain"; {SENT_REASONING[name]}'
    first_parts: tuple[Part, ...] = (SIGNED_REASONING[name], Text("I look."), *calls)
    raw_stop, raw_calls = RAW_REASONS[name]
    assert events == [
        ReasoningEvent("Three cities."),
        TextEvent("I look."),
        *map(ToolCallStart, calls),
        *map(ToolCallResult, calls, results),
        TurnComplete(1, ResponseEnd("tool", first_parts, USAGE[name], raw_calls)),
        TextEvent(last_text),
        TurnComplete(2, ResponseEnd("stop", (Text(last_text),), USAGE[name], raw_stop)),
        Finish("complete"),
    ]
    assert messages == [
        Message("user", (Text("plan"),)),
        Message("assistant", first_parts),
        Message(
            "tool",
            tuple(
                ToolResult(call.id, f'"{result}"', "look")
                for call, result in zip(calls, results, strict=True)
            ),
        ),
        Message("assistant", (Text(last_text),)),
    ]


@pytest.mark.shows("002-21", "002-22", "002-24")
@each_row("name", PROVIDERS)
async def test_twenty_turns_of_calls_are_one_chat(tmp_path: Path, name: str) -> None:
    document = scenario_document(*[tool_call_turn("look")] * 19, text_turn("Done."), name="plan")
    options = ChatOptions(model="m", max_turns=20)
    async with serve_scenarios(tmp_path, document) as server:
        events, messages = await chat(name, server, "plan", options)
        requests = len(server.entries)
        stopped, _ = await chat(name, server, "plan", replace(options, max_turns=19))

    turns = [event.turn_number for event in events if isinstance(event, TurnComplete)]
    ids = [event.call.id for event in events if isinstance(event, ToolCallStart)]
    assert turns == list(range(1, 21))
    assert len(set(ids)) == 19
    assert ids == [event.call.id for event in events if isinstance(event, ToolCallResult)]
    assert requests == 20
    assert [message.role for message in messages] == [
        "user",
        *(["assistant", "tool"] * 19),
        "assistant",
    ]
    assert events[-1] == Finish("complete")
    assert stopped[-1] == Finish("max_turns")


@each_row("name", PROVIDERS)
async def test_twenty_prompts_are_one_conversation(tmp_path: Path, name: str) -> None:
    document = scenario_document(*(text_turn(f"Answer {n}.") for n in range(1, 21)), name="start")
    async with serve_scenarios(tmp_path, document) as server:
        provider = make_provider(name, server.url)
        async with ChatClient(registry(provider), options=ChatOptions(model="m")) as client:
            for number in range(1, 21):
                prompt = "start" if number == 1 else f"Question {number}."
                events = [
                    event async for event in client.chat(prompt, history=tuple(client.messages))
                ]
                assert text_of(events) == f"Answer {number}."
        messages = client.messages

    assert len(messages) == 40
    assert {message.role for message in messages[::2]} == {"user"}
    assert {message.role for message in messages[1::2]} == {"assistant"}


@each_row("name", PROVIDERS)
async def test_calls_with_one_id_get_ids_of_their_own(name: str) -> None:
    def respond(dialect: Dialect, request: Request, context: EncodeContext) -> DialectResponse:
        parts: tuple[Part, ...] = (Text("Done."),)
        if b"rain" not in request.body:
            parts = (
                ToolCall("first", "look", '{"city":"Rome"}'),
                ToolCall("other", "look", '{"city":"Oslo"}'),
            )
        response = dialect.encode_response(request, [Turn(parts)], context)
        messages = [with_first_id(message) for message in response.framed_messages]
        return replace(response, framed_messages=messages)

    async with upstream(provider_script(respond)) as server:
        provider = make_provider(name, server.url)
        client = ChatClient(registry(provider), tools=[look], options=ChatOptions(model="m"))
        async with client:
            events = [event async for event in client.chat("plan")]

    calls = [event.call for event in events if isinstance(event, ToolCallStart)]
    results = [event.call for event in events if isinstance(event, ToolCallResult)]
    _, call_message, result_message, _ = client.messages
    [*_, (_, last_body)] = server.requests
    assert [call.arguments for call in calls] == ['{"city":"Rome"}', '{"city":"Oslo"}']
    assert results == calls
    assert call_message.parts == tuple(calls)
    assert [part.call_id for part in result_message.parts if isinstance(part, ToolResult)] == [
        call.id for call in calls
    ]
    assert calls[0].id == "first"
    assert calls[1].id != "first"
    assert [last_body.count(f'"{call.id}"'.encode()) for call in calls] == [2, 2]


def with_first_id(message: bytes) -> bytes:
    """The message with the id `first` for `other`; a frame has new checksums."""
    if (frame := eventstream.parse_frame(message)) is None:
        return message.replace(b"other", b"first")
    return eventstream.encode_frame(frame.headers, frame.payload.replace(b"other", b"first"))


@each_row("is_closed", [True, False])
async def test_a_client_may_be_used_in_two_event_loops(is_closed: bool) -> None:
    """At the end of the first one it is closed, or its connections are left to Python."""

    def respond(dialect: Dialect, request: Request, context: EncodeContext) -> DialectResponse:
        return dialect.encode_response(request, [Turn((Text("Done."),))], context)

    async with upstream(provider_script(respond)) as server:
        with warnings.catch_warnings(action="error" if is_closed else "ignore"):
            texts = await texts_of_two_loops(server.url, is_closed=is_closed)
            gc.collect()

    assert texts == ["Done.", "Done."]


async def texts_of_two_loops(url: str, *, is_closed: bool) -> list[str]:
    """The texts of two chats of one client, each in an event loop of its own."""
    client = ChatClient(registry(make_provider("openai", url)))

    async def text_of_chat(*, closes: bool) -> str:
        events = [event async for event in client.chat("Hello.")]
        if closes:
            await client.providers.aclose()
        return text_of(events)

    return [
        await asyncio.to_thread(asyncio.run, text_of_chat(closes=closes))
        for closes in (is_closed, True)
    ]


async def chat(
    name: str, server: ScenarioServer, prompt: str, options: ChatOptions | None = None
) -> tuple[list[ChatEvent], list[Message]]:
    """The events and the messages of a chat with the tool `look`, without metadata."""
    options = options or ChatOptions(model="m", extra_fields=REASONING_FIELDS[name])
    async with ChatClient(
        registry(make_provider(name, server.url)), tools=[look], options=options
    ) as client:
        events = [event async for event in client.chat(prompt)]
    return [*map(event_without_metadata, events)], [
        Message(message.role, parts_without_metadata(message.parts)) for message in client.messages
    ]


def event_without_metadata(event: ChatEvent) -> ChatEvent:
    """The event without the provider's own fields, such as the ids of items."""
    match event:
        case ToolCallStart(call):
            return ToolCallStart(replace(call, metadata=()))
        case ToolCallResult(call=call):
            return replace(event, call=replace(call, metadata=()))
        case TurnComplete(response=ResponseEnd() as response):
            parts = parts_without_metadata(response.parts)
            return replace(event, response=replace(response, parts=parts))
        case _:
            return event


def parts_without_metadata(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(replace(part, metadata=()) for part in parts)


def parallel_calls_scenario(name: str) -> JsonObject:
    """Signed reasoning, text and three calls; then what the request of turn 2 has of them."""
    calls = [{"toolName": "look", "arguments": {"city": city}} for city in CITIES]
    metadata = {
        "anthropic": {"signature": "c2lnbmF0dXJl"},
        "openai": {"encrypted_content": "ZW5jcnlwdGVk"},
        "google": {"thoughtSignature": "c2lnbmF0dXJl"},
    }
    first = {
        "expectedTools": ["look"],
        "expectedReasoning": "enabled",
        "response": {
            "kind": "tool-call",
            "reasoning": [{"text": "Three cities.", "providerMetadata": metadata}],
            "assistantText": "I look.",
            "toolCalls": calls,
        },
    }
    templates = (f"{{{{ {path} }}}}" if path else "" for path in REQUEST_PATHS[name])
    second = text_turn("; ".join(templates), expectedReasoning="enabled")
    return scenario_document(first, second, name="plan", templates=True)
