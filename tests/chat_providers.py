"""The providers of `llm_chat` that a server of a test can serve, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from case_tables import each_row
from llm_chat import (
    ChatEvent,
    Conversation,
    HttpProvider,
    HttpSettings,
    LocalProvider,
    Message,
    ProviderEvent,
    ProviderRegistry,
    Text,
    TextEvent,
)

_DIALECTS: Final = {
    "openai": ("openai-chat", "/v1"),
    "openai-responses": ("openai-responses", "/v1"),
    "anthropic": ("anthropic", ""),
    "cohere": ("cohere", ""),
    "bedrock": ("bedrock", ""),
    "gemini": ("gemini", ""),
    "gemini-interactions": ("gemini-interactions", ""),
}
"""The dialect, and the end of the base URL."""

PROVIDERS: Final = (
    *("openai", "openai-responses", "anthropic", "local"),
    *("gemini", "gemini-interactions", "cohere", "bedrock"),
)

with_every_provider = each_row("name", PROVIDERS)


class Waits:
    """Records the waits between attempts instead of making them."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def make_provider(
    name: str,
    url: str,
    *,
    sleep: Callable[[float], Awaitable[object]] | None = None,
    **changes: Any,
) -> HttpProvider:
    """A provider whose server is at `url`; `changes` are settings, by default without retries."""
    settings = {"max_retries": 0} | changes
    sleep = sleep or Waits()
    if name == "local":
        return LocalProvider(HttpSettings(url, **settings), sleep=sleep)
    dialect, path = _DIALECTS[name]
    return HttpProvider(
        name,
        dialect,
        HttpSettings(url + path, "test-key", **settings),
        replaces_v1=bool(path),
        sleep=sleep,
    )


def registry(provider: HttpProvider) -> ProviderRegistry:
    """A registry with this provider as its default."""
    providers = ProviderRegistry()
    providers.register(provider)
    providers.set_default(provider.name)
    return providers


def request(prompt: str = "Hello.", **fields: Any) -> Conversation:
    """A request with one message of the user."""
    return Conversation((Message("user", (Text(prompt),)),), model="m", **fields)


async def response_events(
    provider: HttpProvider, conversation: Conversation | None = None
) -> list[ProviderEvent]:
    """All events of one response; the provider's connections are closed afterwards."""
    try:
        async with aclosing(provider.chat_stream(conversation or request())) as events:
            return [event async for event in events]
    finally:
        await provider.aclose()


def text_of(events: Sequence[ProviderEvent | ChatEvent]) -> str:
    """The text of all text events."""
    return "".join(event.text for event in events if isinstance(event, TextEvent))
