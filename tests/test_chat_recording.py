"""Conversations of `llm_chat` through a proxy that records them, and their cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

import stub_upstream
from case_tables import each_row
from chat_providers import PROVIDERS, make_provider, registry, text_of
from in_process_proxy import load_cassettes, proxy
from llm_chat import (
    ChatClient,
    ChatEvent,
    ChatOptions,
    Finish,
    Message,
    ReasoningEvent,
    Retry,
    TextEvent,
    ToolCallStart,
)
from llm_proxy.framing import eventstream
from llm_proxy.pacing import InstantPace
from scenario_server import JsonObject, scenario_document, text_turn, write_scenarios
from stub_upstream import Connection

CANCEL_LIMIT_S: Final = 0.1
"""Seconds after which a server must have seen the end of a cancelled request."""
BUSY_LIMIT_S: Final = 5.0
"""The same on a busy machine, for every attempt but the fastest."""
ATTEMPTS: Final = 3

BEGINNINGS: Final = {
    "openai": b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n',
    "openai-responses": (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
        b'"item_id":"m","output_index":0,"content_index":0,"delta":"Hello"}\n\n'
    ),
    "anthropic": (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"Hello"}}\n\n'
    ),
    "local": b'{"message": {"role": "assistant", "content": "Hello"}}\n',
    "cohere": (
        b'event: content-delta\ndata: {"type":"content-delta","index":0,'
        b'"delta":{"message":{"content":{"text":"Hello"}}}}\n\n'
    ),
    "bedrock": eventstream.encode_frame(
        ((":event-type", "contentBlockDelta"), (":message-type", "event")),
        b'{"contentBlockIndex":0,"delta":{"text":"Hello"}}',
    ),
    "gemini": b'data: {"candidates":[{"content":{"parts":[{"text":"Hello"}]}}]}\r\n\r\n',
    "gemini-interactions": (
        b'event: step.delta\ndata: {"event_type":"step.delta","index":0,'
        b'"delta":{"type":"text","text":"Hello"}}\n\n'
    ),
}
"""A piece of a response."""


def look(city: str) -> dict[str, str]:
    """Look at a city."""
    return {"city": city, "weather": "räin"}


def conversation_scenario() -> JsonObject:
    """Four turns of reasoning, text and two calls each, a text, and a turn for a second prompt."""
    turns: list[JsonObject] = [
        {
            "expectedTools": ["look"],
            "response": {
                "kind": "tool-call",
                "reasoning": [{"text": f"Thought {number}."}],
                "assistantText": f"Look {number}.",
                "toolCalls": [
                    {"toolName": "look", "arguments": {"city": f"{city} {number}"}}
                    for city in ("Rome", "Oslo")
                ],
            },
        }
        for number in range(1, 5)
    ]
    last = [text_turn("Rain everywhere."), text_turn("You are welcome.")]
    return scenario_document(*turns, *last, name="plan", chunks={"by": "words"})


@each_row("name", PROVIDERS)
async def test_a_recorded_conversation_is_replayed_without_a_miss(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    scenarios = write_scenarios(folder, conversation_scenario())
    async with (
        proxy("simulate", folder, scenarios=scenarios) as simulated,
        proxy("record", folder, upstream=simulated.url) as recording,
    ):
        recorded = await converse(name, recording.url)
    cassettes = load_cassettes(folder)
    async with proxy("replay", folder, pace=InstantPace()) as replaying:
        replays = [await converse(name, replaying.url) for _ in range(2)]
        entries = list(replaying.journal.entries)

    events, messages = recorded
    assert sum(isinstance(event, ToolCallStart) for event in events) == 8
    assert sum(isinstance(event, ReasoningEvent) for event in events) > 0
    assert text_of(events).endswith("Rain everywhere.You are welcome.")
    assert [event for event in events if isinstance(event, Finish)] == [Finish("complete")] * 2
    assert len(cassettes) == 6
    assert replays == [(events, messages)] * 2
    assert [entry.status for entry in entries] == [200] * 12


async def converse(name: str, url: str) -> tuple[list[ChatEvent], list[Message]]:
    """The events and messages of two chats, the second of which continues the first."""
    options = ChatOptions(model="m", system_prompt="Be brief.")
    client = ChatClient(registry(make_provider(name, url)), tools=[look], options=options)
    async with client:
        events = [event async for event in client.chat("plan")]
        history = tuple(client.messages)
        events += [event async for event in client.chat("Thank you.", history=history)]
    return events, client.messages


# Cancellation


class WaitingServer:
    """Sends the beginning of a response, and notes when its client has left."""

    def __init__(self, beginning: bytes) -> None:
        self.has_request = asyncio.Event()
        self.is_client_gone = asyncio.Event()
        self.gone_at_s = 0.0
        self._beginning = beginning

    async def __call__(self, connection: Connection) -> None:
        if self._beginning:
            has_frames = eventstream.begins_eventstream(self._beginning)
            content_type = eventstream.CONTENT_TYPE if has_frames else "text/event-stream"
            await connection.begin(content_type=content_type)
            await connection.chunk(self._beginning)
        self.has_request.set()
        await connection.reader.read()
        self.gone_at_s = asyncio.get_running_loop().time()
        self.is_client_gone.set()


@pytest.mark.shows("002-65")
@each_row("name", PROVIDERS)
async def test_cancelling_in_mid_stream_closes_the_connection_at_once(name: str) -> None:
    async def cancelled(cancel: asyncio.Event, server: WaitingServer, url: str) -> None:
        events: list[ChatEvent] = []
        client = chat_client(name, url)
        async with client:
            async for event in client.chat("Hello.", cancel=cancel):
                events.append(event)
                if isinstance(event, TextEvent):
                    cancel.set()
            await server.is_client_gone.wait()  # before the client is closed
        assert events == [TextEvent("Hello"), Finish("cancelled")]
        assert [message.role for message in client.messages] == ["user"]

    await assert_soon_gone(f"{name}, in mid-stream", BEGINNINGS[name], cancelled)


@each_row("name", PROVIDERS)
async def test_cancelling_before_a_response_closes_the_connection_at_once(name: str) -> None:
    async def cancelled(cancel: asyncio.Event, server: WaitingServer, url: str) -> None:
        client = chat_client(name, url)

        async def cancel_request() -> None:
            await server.has_request.wait()
            cancel.set()

        async with client:
            cancelling = asyncio.create_task(cancel_request())
            events = [event async for event in client.chat("Hello.", cancel=cancel)]
            await server.is_client_gone.wait()
            await cancelling
        assert events == [Finish("cancelled")]

    await assert_soon_gone(f"{name}, before a response", b"", cancelled)


@each_row("name", PROVIDERS)
async def test_closing_the_events_closes_the_connection_at_once(name: str) -> None:
    async def cancelled(cancel: asyncio.Event, server: WaitingServer, url: str) -> None:
        async with chat_client(name, url) as client:
            events = client.chat("Hello.")
            assert await anext(events) == TextEvent("Hello")
            cancel.set()  # only notes the time
            await events.aclose()
            await server.is_client_gone.wait()

    await assert_soon_gone(f"{name}, closed events", BEGINNINGS[name], cancelled)


async def test_a_request_that_is_cancelled_twice_still_ends() -> None:
    server = WaitingServer(BEGINNINGS["openai"])
    async with stub_upstream.upstream(server) as upstream, asyncio.timeout(BUSY_LIMIT_S):
        async with chat_client("openai", upstream.url) as client:

            async def chat() -> list[ChatEvent]:
                return [event async for event in client.chat("Hello.")]

            chatting = asyncio.create_task(chat())
            await server.has_request.wait()
            chatting.cancel()
            await asyncio.sleep(0)
            chatting.cancel()
            await asyncio.wait([chatting])
            await server.is_client_gone.wait()

    assert chatting.cancelled()


async def test_cancelling_ends_the_wait_before_a_retry() -> None:
    serve = stub_upstream.fixed_length(b"", status="503 Service Unavailable")
    cancel = asyncio.Event()
    async with stub_upstream.upstream(serve) as server:
        provider = make_provider("openai", server.url, max_retries=2, sleep=asyncio.sleep)
        events: list[ChatEvent] = []
        async with ChatClient(registry(provider), options=ChatOptions(model="m")) as client:
            async for event in client.chat("Hello.", cancel=cancel):
                events.append(event)
                cancel.set()

    assert [type(event) for event in events] == [Retry, Finish]
    assert events[-1] == Finish("cancelled")
    assert len(server.requests) == 1


async def assert_soon_gone(
    label: str,
    beginning: bytes,
    cancelled: Callable[[asyncio.Event, WaitingServer, str], Awaitable[None]],
) -> None:
    """Run a request that `cancelled` cancels; the server sees its end within the limit.

    Only the fastest of several attempts has the limit: the others may wait for the processor.
    """
    waits_s: list[float] = []
    for _ in range(ATTEMPTS):
        server = WaitingServer(beginning)
        cancel = TimedEvent()
        async with stub_upstream.upstream(server) as upstream, asyncio.timeout(BUSY_LIMIT_S):
            await cancelled(cancel, server, upstream.url)
        assert len(upstream.requests) == 1
        waits_s.append(server.gone_at_s - cancel.set_at_s)
    print(f"{label}: gone after {', '.join(f'{1000 * wait_s:.0f} ms' for wait_s in waits_s)}")  # noqa: T201 # shown with -s
    assert min(waits_s) < CANCEL_LIMIT_S


class TimedEvent(asyncio.Event):
    """An event that notes when it was set."""

    set_at_s = 0.0

    def set(self) -> None:
        self.set_at_s = asyncio.get_running_loop().time()
        super().set()


def chat_client(name: str, url: str) -> ChatClient:
    """A client of one provider."""
    return ChatClient(registry(make_provider(name, url)), options=ChatOptions(model="m"))
