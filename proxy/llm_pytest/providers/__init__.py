"""The providers that let a model carry out tests, by name.

Source: owner's document 003, "Register the Provider".
"""

from __future__ import annotations

from typing import Final

from llm_pytest.errors import UnknownProvider
from llm_pytest.providers import chat
from llm_pytest.providers.base import LLMProvider, ProviderContext
from llm_pytest.providers.claude_code import ClaudeCodeProvider

PROVIDERS: Final[dict[str, type[LLMProvider]]] = {
    provider.name: provider
    for provider in (
        ClaudeCodeProvider,
        chat.OpenAIProvider,
        chat.OpenAIResponsesProvider,
        chat.AnthropicProvider,
        chat.GeminiProvider,
        chat.OllamaProvider,
        chat.BedrockProvider,
    )
}
PROVIDER_NAMES: Final = tuple(PROVIDERS)
DEFAULT_PROVIDER: Final = ClaudeCodeProvider.name


def get_provider(name: str, context: ProviderContext) -> LLMProvider:
    """A provider by its name.  Raises `UnknownProvider`, a `ValueError`."""
    if name not in PROVIDERS:
        raise UnknownProvider(f"Unknown provider: {name}. Available: {[*PROVIDERS]}")
    return PROVIDERS[name](context)
