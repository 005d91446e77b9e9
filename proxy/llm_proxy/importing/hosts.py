"""Finds the provider of an imported request by its host."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from llm_proxy.exchange import Request
from llm_proxy.providers import PROVIDERS

_LOCAL_HOSTS: Final = frozenset(("localhost", "127.0.0.1", "::1", ""))
_PROVIDER_BY_LEGACY_HOST: Final = {"api.cohere.ai": "cohere", "api.fireworks.ai": "fireworks"}
_AZURE_HOST_SUFFIX: Final = ".azure.com"
_AZURE_PATH_PREFIX: Final = "openai/"


def provider_of_host(request: Request, host: str) -> str | None:
    """The name of the host's provider; None where the path has to decide."""
    if host in _LOCAL_HOSTS:
        return None
    if host.endswith(_AZURE_HOST_SUFFIX) and request.path.lstrip("/").startswith(
        _AZURE_PATH_PREFIX
    ):
        return "azure"
    provider_names = (
        provider.name
        for provider in PROVIDERS
        if provider.base_url and urlsplit(provider.base_url).hostname == host
    )
    return _PROVIDER_BY_LEGACY_HOST.get(host) or next(provider_names, None)


def strip_provider_base_path(request: Request, provider: str) -> Request:
    """The request as a client sends it to the provider's base URL."""
    url = next((item.base_url for item in PROVIDERS if item.name == provider), "")
    base = urlsplit(url).path.rstrip("/")
    if base and request.path.startswith(base + "/"):
        return replace(request, path=request.path.removeprefix(base))
    return request
