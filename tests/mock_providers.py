"""Mock providers of `llm_chat`: scripted events, errors, pauses and token counts (002-69)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar

import orjson

from llm_chat import (
    ChatClient,
    ChatOptions,
    Conversation,
    Finish,
    Message,
    ProviderEvent,
    ProviderRegistry,
    ResponseEnd,
    TextEvent,
    Tool,
    ToolCallResult,
    ToolCallStart,
    ToolResult,
)
from llm_proxy.turns import Json, ToolCall

T = TypeVar("T")

Step = ProviderEvent | BaseException | asyncio.Event
"""An event is yielded, an exception is raised, and an `asyncio.Event` is awaited."""


class MockProvider:
    """Gives one response after the other, and the last one again and again."""

    def __init__(self, *responses: Sequence[Step], name: str = "mock") -> None:
        self.name = name
        self.requests: list[Conversation] = []
        self.open_streams = 0
        """The responses that have begun and are not closed."""
        self.closed = asyncio.Event()
        """Set when a response is closed."""
        self._responses = responses

    async def chat_stream(self, request: Conversation) -> AsyncGenerator[ProviderEvent, None]:
        """Play the next response."""
        self.requests.append(request)
        self.open_streams += 1
        try:
            for step in self._responses[min(len(self.requests), len(self._responses)) - 1]:
                match step:
                    case BaseException():
                        raise step
                    case asyncio.Event():
                        await step.wait()
                    case _:
                        yield step
        finally:
            self.open_streams -= 1
            self.closed.set()


class UncleanProvider:
    """Yields events, then the end of the response; each stream raises `error` when it is closed."""

    def __init__(self, *events: ProviderEvent, error: BaseException | None = None) -> None:
        self.name = "unclean"
        self._events = events
        self._error = error or OSError("cannot close")

    async def chat_stream(self, request: Conversation) -> AsyncGenerator[ProviderEvent, None]:
        """Yield the events."""
        try:
            for event in (*self._events, ResponseEnd("stop")):
                yield event
        finally:
            raise self._error


class CountingProvider(MockProvider):
    """Counts the same number of tokens in each request; an exception is raised instead."""

    def __init__(self, tokens: int | Exception, *responses: Sequence[Step]) -> None:
        super().__init__(*responses)
        self._tokens = tokens

    async def count_tokens(self, request: Conversation) -> int:
        """The given number."""
        if isinstance(self._tokens, Exception):
            raise self._tokens
        return self._tokens


def text_response(*pieces: str) -> tuple[ProviderEvent, ...]:
    """A response without calls."""
    return (*map(TextEvent, pieces), ResponseEnd("stop"))


def call_response(*calls: ToolCall) -> tuple[ProviderEvent, ...]:
    """A response that calls tools."""
    return (*map(ToolCallStart, calls), ResponseEnd("tool"))


def make_call(name: str, call_id: str = "call-1", /, **args: Json) -> ToolCall:
    """A call of a tool."""
    return ToolCall(call_id, name, orjson.dumps(args).decode())


DONE: Final = text_response("Done.")


def make_registry(*providers: Any) -> ProviderRegistry:
    """A registry whose default is the first of these providers."""
    registry = ProviderRegistry()
    for provider in providers:
        registry.register(provider)
    registry.set_default(providers[0].name)
    return registry


def make_client(provider: Any, /, *tools: Tool | Callable[..., Any], **options: Any) -> ChatClient:
    """A client of one provider; its chats have these options."""
    return ChatClient(make_registry(provider), tools=tools, options=ChatOptions(**options))


async def all_of(events: AsyncGenerator[T, None]) -> list[T]:
    """All events; the stream is closed afterwards."""
    async with aclosing(events):
        return [event async for event in events]


def results_in(events: Sequence[object]) -> list[Json]:
    """The results of tools among these events."""
    return [event.result for event in events if isinstance(event, ToolCallResult)]


def finish_reasons(events: Sequence[object]) -> list[str]:
    """The reasons of all `Finish` events."""
    return [event.reason for event in events if isinstance(event, Finish)]


def sent_results(message: Message) -> list[tuple[str, Json]]:
    """The name of the tool and the result of each part of a tool message."""
    assert message.role == "tool"
    return [
        (part.name, orjson.loads(part.content))
        for part in message.parts
        if isinstance(part, ToolResult)
    ]


def pending_tasks() -> set[asyncio.Task[Any]]:
    """The tasks of the event loop besides the current one."""
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
