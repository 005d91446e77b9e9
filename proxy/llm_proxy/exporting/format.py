"""The definition of an export format, and the URLs of stored requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from llm_proxy import providers
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import DEFAULT_SESSION


@dataclass(frozen=True, slots=True)
class ExportedExchange:
    """A recorded exchange and its URL."""

    cassette: Cassette
    url: str


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A file format for exchanges."""

    name: str
    """The name on the command line."""
    serialize: Callable[[Sequence[ExportedExchange]], bytes]
    """The exchanges as a file.  Raises `NotRepresentable` for one that the format cannot hold."""
    allows_several: bool = False
    """Whether a file can hold several exchanges."""
    allows_incomplete_response: bool = True
    """Whether a file can mark a response as incomplete; else incomplete ones are left out."""
    needs_real_url: bool = False
    """Whether it needs a real URL, and not a placeholder."""


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
