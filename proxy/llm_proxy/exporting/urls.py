"""The URLs of stored requests; cassettes name providers, not hosts."""

from __future__ import annotations

from collections.abc import Mapping

from llm_proxy import providers
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import DEFAULT_SESSION


def exchange_url(cassette: Cassette, upstreams: Mapping[str, str]) -> str | None:
    """The URL of the request at its provider; None where the provider's address is unknown."""
    base = providers.upstream_url(cassette.meta.provider, upstreams)
    return None if base is None else providers.join_url(base, cassette.request.request_target)


def placeholder_url(cassette: Cassette) -> str:
    """An unreachable URL (`.invalid`), for a format that must have one."""
    return f"https://{cassette.meta.provider}.invalid{cassette.request.request_target}"


def url_through_proxy(cassette: Cassette, proxy_url: str) -> str:
    """The URL of the request through an llm-proxy, with its session and provider."""
    request = cassette.request
    session = "" if cassette.meta.session == DEFAULT_SESSION else f"/@{cassette.meta.session}"
    needs_provider = providers.provider_of_request(request) != cassette.meta.provider
    provider = f"/~{cassette.meta.provider}" if needs_provider else ""
    return f"{proxy_url.rstrip('/')}{session}{provider}{request.request_target}"
