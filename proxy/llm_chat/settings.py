"""The providers of this machine's settings: base URLs and keys of the environment.

The variables are those that official SDKs read, and that `llm-proxy` sets for a command, such as
`OPENAI_BASE_URL` and `OPENAI_API_KEY`.  If `LLM_PROXY_URL` is set, that proxy serves the providers
whose base URL is not set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from llm_chat.http_provider import HttpProvider, HttpSettings
from llm_chat.local_provider import LocalProvider, OllamaProvider
from llm_chat.registry import ProviderRegistry
from llm_proxy import providers
from llm_proxy.errors import UsageError
from llm_proxy.shell.running.environment import (
    adopted_upstreams,
    is_local_url,
    providers_with_v1,
)
from llm_proxy.shell.running.settings import checked_http_url

_WIRE_PROVIDERS: Final = {
    "openai": ("openai", "openai-chat"),
    "openai-responses": ("openai", "openai-responses"),
    "openai-completions": ("openai", "openai-completions"),
    "anthropic": ("anthropic", "anthropic"),
    "gemini": ("gemini", "gemini"),
    "gemini-interactions": ("gemini", "gemini-interactions"),
    "cohere": ("cohere", "cohere"),
    "bedrock": ("bedrock", "bedrock"),
    **{
        name: (name, "openai-chat")
        for name in ("mistral", "groq", "deepseek", "openrouter", "xai", "vllm", "llamacpp")
    },
}
"""Provider and dialect of `llm_proxy` by the name here."""
DEFAULT_PROVIDER: Final = "openai"
_NO_UPSTREAMS: Final[Mapping[str, str]] = MappingProxyType({})


def providers_from_environment(
    environ: Mapping[str, str] = os.environ, upstreams: Mapping[str, str] = _NO_UPSTREAMS
) -> ProviderRegistry:
    """A registry with all providers; `openai` is the default.

    `upstreams` are base URLs by provider, which replace those of the environment; that of `default`
    is for all others.  Raises `llm_proxy.errors.UsageError` for a base URL that is no http or https
    URL, and for a key that cannot be sent.
    """
    has_default = providers.DEFAULT_PROVIDER in upstreams
    adopted = {} if has_default else adopted_upstreams(environ, upstreams)
    base_urls = {**adopted, **upstreams}
    proxy_url = "" if has_default else environ.get("LLM_PROXY_URL", "").rstrip("/")
    if proxy_url:
        checked_http_url("LLM_PROXY_URL", proxy_url)

    def settings_of(provider: str) -> HttpSettings:
        is_own = provider in base_urls or not (has_default or proxy_url)
        base_url = providers.upstream_url(provider, base_urls) or ""
        if proxy_url and not is_own:
            base_url = f"{proxy_url}/~{provider}"
        # A signature is for AWS, or for an address that is given for it: not for a proxy.
        is_signed = provider == providers.SIGNED_PROVIDER and is_own and not is_local_url(base_url)
        return HttpSettings(base_url, _api_key(provider, environ), signs_requests=is_signed)

    registry = ProviderRegistry()
    for name, (wire_provider, dialect) in _WIRE_PROVIDERS.items():
        registry.register(
            HttpProvider(
                name,
                dialect,
                settings_of(wire_provider),
                provider=wire_provider,
                replaces_v1=wire_provider in providers_with_v1(adopted),
            )
        )
    settings = settings_of("ollama")
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
