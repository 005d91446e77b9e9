"""What a provider offers: the protocol, and the two parts of it that not every provider has.

Source: owner's document 002, "Provider Adapter Interface".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from llm_chat.events import ErrorEvent, ProviderEvent, ResponseEnd, Retry
from llm_proxy.conversation import Conversation
from llm_proxy.turns import Json


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that a provider has."""

    name: str
    size_bytes: int | None = None
    modified_at: str = ""
    """As the provider writes it, usually RFC 3339."""
    details: Json = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """Texts by names such as `context length`; only from `show_model`."""
    document: Json = field(default=None, repr=False, compare=False)
    """The description that the provider sent, unchanged."""


@dataclass(frozen=True, slots=True)
class PullProgress:
    """The state of a model's download."""

    status: str
    completed: int | None = None
    """Bytes downloaded of the current layer."""
    total: int | None = None
    """Bytes of the current layer."""
    digest: str = ""
    """Identifies the current layer; empty if the status is that of the whole download."""
    retry: Retry | None = None
    """Why the connection was lost; the next report is of a new request, which resumes."""


class Provider(Protocol):
    """A source of responses.  Any object with a name and this method is one."""

    @property
    def name(self) -> str:
        """The name in the registry."""

    def chat_stream(self, request: Conversation) -> AsyncGenerator[ProviderEvent, None]:
        """Request a response and yield its events: the last is a `ResponseEnd` or an `ErrorEvent`.

        Closing the generator cancels the request.
        """


@runtime_checkable
class ManagesModels(Protocol):
    """A provider that stores models."""

    async def list_models(self) -> Sequence[ModelInfo]:
        """The models that it has."""

    async def pull_model(
        self, name: str, on_progress: Callable[[PullProgress], None] | None = None
    ) -> None:
        """Download a model; a download that was interrupted is resumed."""

    async def delete_model(self, name: str) -> None:
        """Delete a model."""

    async def show_model(self, name: str) -> ModelInfo:
        """Information on one model."""


@runtime_checkable
class Closable(Protocol):
    """A provider that keeps connections."""

    async def aclose(self) -> None:
        """Close all connections."""


async def provider_events(
    provider: Provider, request: Conversation
) -> AsyncGenerator[ProviderEvent, None]:
    """The events of a response, up to its end or an error: also anything that is raised is one."""
    end: ResponseEnd | ErrorEvent = ResponseEnd("stop")
    is_left = False
    try:
        async with aclosing(provider.chat_stream(request)) as events:
            async for event in events:
                if isinstance(event, ResponseEnd | ErrorEvent):
                    end = event
                    break
                is_left = True  # unless the consumer comes back for the next event
                yield event
                is_left = False
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if is_left or task is None or task.cancelling():
            raise
        end = ErrorEvent.from_exception(error)  # the provider's own
    except Exception as error:  # of any provider, also an application's own
        if is_left:
            raise
        end = ErrorEvent.from_exception(error)
    yield end
