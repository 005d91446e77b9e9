"""Finds the provider of an imported request by its host."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from llm_proxy.exchange import Request
from llm_proxy.providers import PROVIDERS

_HERE: Final = frozenset(("localhost", "127.0.0.1", "::1", ""))
_OLDER: Final = {"api.cohere.ai": "cohere", "api.fireworks.ai": "fireworks"}
_AZURE: Final = ".azure.com"
_OF_AZURE: Final = "openai/"


def provider_of_host(request: Request, host: str) -> str | None:
    """The name of the provider that lives there; None where the path has to tell."""
    if host in _HERE:
        return None
    if host.endswith(_AZURE) and request.path.lstrip("/").startswith(_OF_AZURE):
        return "azure"
    known = (
        provider.name
        for provider in PROVIDERS
        if provider.url and urlsplit(provider.url).hostname == host
    )
    return _OLDER.get(host) or next(known, None)


def relative_to_base_url(request: Request, provider: str) -> Request:
    """The request as a client sends it to the provider's base URL."""
    url = next((item.url for item in PROVIDERS if item.name == provider), "")
    base = urlsplit(url).path.rstrip("/")
    if base and request.path.startswith(base + "/"):
        return replace(request, path=request.path.removeprefix(base))
    return request
