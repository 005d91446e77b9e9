"""The registry of providers.  Source: owner's document 002, "Provider Registry"."""

from __future__ import annotations

from contextlib import AsyncExitStack

from llm_chat.errors import ChatError
from llm_chat.provider import Closable, Provider


class ProviderRegistry:
    """Providers by name, one of which may be the default."""

    def __init__(self) -> None:
        self._providers: dict[str, Provider] = {}
        self._default_name: str | None = None

    def register(self, provider: Provider) -> None:
        """Add a provider; it replaces one of the same name."""
        self._providers[provider.name] = provider

    def get(self, name: str | None = None) -> Provider | None:
        """The provider of this name, without one the default; None if there is none."""
        known_name = self._default_name if name is None else name
        return None if known_name is None else self._providers.get(known_name)

    def set_default(self, name: str) -> None:
        """Make a registered provider the default.  Raises `ChatError` for an unknown name."""
        if name not in self._providers:
            raise ChatError(f'Provider "{name}" not registered')
        self._default_name = name

    def get_default(self) -> Provider:
        """The default provider.  Raises `ChatError` if there is none."""
        if self._default_name is None:
            raise ChatError("No default provider set")
        if (provider := self.get()) is None:
            raise ChatError(f'Default provider "{self._default_name}" not found')
        return provider

    def list(self) -> list[str]:
        """The names of all providers, in the order of their registration."""
        return [*self._providers]

    async def aclose(self) -> None:
        """Close the connections of all providers, even if one of them raises."""
        async with AsyncExitStack() as closing:
            for provider in self._providers.values():
                if isinstance(provider, Closable):
                    closing.push_async_callback(provider.aclose)
