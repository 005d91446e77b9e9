"""The providers of this machine's settings: base URLs and keys of the environment.

The variables are those that official SDKs read, and that `llm-proxy` sets for a command:
`OPENAI_BASE_URL` and `OPENAI_API_KEY`, `ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY`, `OLLAMA_HOST`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from llm_chat.http_provider import HttpProvider, HttpSettings
from llm_chat.local_provider import LocalProvider, OllamaProvider
from llm_chat.registry import ProviderRegistry
from llm_proxy import providers
from llm_proxy.errors import UsageError
from llm_proxy.shell.running.environment import adopted_upstreams, providers_with_v1

_WIRE_PROVIDERS: Final = {
    "openai": ("openai", "openai-chat"),
    "openai-responses": ("openai", "openai-responses"),
    "anthropic": ("anthropic", "anthropic"),
}
"""Provider and dialect of `llm_proxy` by the name here."""
DEFAULT_PROVIDER: Final = "openai"


def providers_from_environment(environ: Mapping[str, str] = os.environ) -> ProviderRegistry:
    """A registry with all providers; `openai` is the default.

    Raises `llm_proxy.errors.UsageError` for a base URL that is no http or https URL, and for a key
    that cannot be sent.
    """
    base_urls = adopted_upstreams(environ)
    registry = ProviderRegistry()
    for name, (wire_provider, dialect) in _WIRE_PROVIDERS.items():
        registry.register(
            HttpProvider(
                name,
                dialect,
                HttpSettings(
                    providers.upstream_url(wire_provider, base_urls) or "",
                    _api_key(wire_provider, environ),
                ),
                replaces_v1=wire_provider in providers_with_v1(base_urls),
            )
        )
    settings = HttpSettings(
        providers.upstream_url("ollama", base_urls) or "", _api_key("ollama", environ)
    )
    registry.register(OllamaProvider(settings))
    registry.register(LocalProvider(replace(settings, max_retries=0)))
    registry.set_default(DEFAULT_PROVIDER)
    return registry


def _api_key(provider: str, environ: Mapping[str, str]) -> str:
    for name in providers.key_env_vars(provider):
        if key := environ.get(name, "").strip():
            if not (key.isascii() and key.isprintable()):
                raise UsageError(f"{name}: expected printable ASCII characters; correct {name}")
            return key
    return ""
