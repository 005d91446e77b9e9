"""The providers of this machine's settings: base URLs and keys of the environment.

The variables are those that official SDKs read, and that `llm-proxy` sets for a command, such as
`OPENAI_BASE_URL` and `OPENAI_API_KEY`.  Where `LLM_PROXY_URL` names a running proxy, it serves the
providers without a variable of their own.
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
    adopted = {} if providers.DEFAULT_PROVIDER in upstreams else _adopted(environ, upstreams)
    base_urls = {**adopted, **upstreams}
    registry = ProviderRegistry()
    for name, (wire_provider, dialect) in _WIRE_PROVIDERS.items():
        registry.register(
            HttpProvider(
                name,
                dialect,
                _http_settings(wire_provider, environ, base_urls),
                provider=wire_provider,
                replaces_v1=wire_provider in providers_with_v1(adopted),
            )
        )
    settings = _http_settings("ollama", environ, base_urls)
    registry.register(OllamaProvider(settings))
    registry.register(LocalProvider(replace(settings, max_retries=0)))
    registry.set_default(DEFAULT_PROVIDER)
    return registry


def _adopted(environ: Mapping[str, str], upstreams: Mapping[str, str]) -> dict[str, str]:
    """The base URLs of the environment, for providers that `upstreams` lacks."""
    base_urls = adopted_upstreams(environ, upstreams)
    if proxy_url := environ.get("LLM_PROXY_URL", "").rstrip("/"):
        checked_http_url("LLM_PROXY_URL", proxy_url)
        wire_providers = {wire_provider for wire_provider, _ in _WIRE_PROVIDERS.values()}
        for name in wire_providers - base_urls.keys() - upstreams.keys():
            base_urls[name] = f"{proxy_url}/~{name}"
    return base_urls


def _http_settings(
    provider: str, environ: Mapping[str, str], base_urls: Mapping[str, str]
) -> HttpSettings:
    """The settings of a provider; a signature of AWS is for its own address, not for a proxy's."""
    base_url = providers.upstream_url(provider, base_urls) or ""
    is_signed = provider == providers.SIGNED_PROVIDER and not is_local_url(base_url)
    return HttpSettings(base_url, _api_key(provider, environ), signs_requests=is_signed)


def _api_key(provider: str, environ: Mapping[str, str]) -> str:
    for name in providers.key_env_vars(provider):
        if key := environ.get(name, "").strip():
            if not (key.isascii() and key.isprintable()):
                raise UsageError(f"{name}: expected printable ASCII characters; correct {name}")
            return key
    return ""
