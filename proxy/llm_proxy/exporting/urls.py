"""Where a stored request was sent, or could have been: cassettes name providers, not hosts."""

from __future__ import annotations

from collections.abc import Mapping

from llm_proxy import providers
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cassette_views import asked


def url_of(it: Cassette, upstreams: Mapping[str, str]) -> str | None:
    """The URL of its request; None where nobody knows the provider's address."""
    base = providers.address(it.meta.provider, upstreams)
    return None if base is None else providers.join(base, asked(it).target)


def invented_url(it: Cassette) -> str:
    """A URL that nobody can reach, for a format that must have one."""
    return f"https://{it.meta.provider}.invalid{asked(it).target}"


def url_through(it: Cassette, proxy: str) -> str:
    """Its URL by way of a proxy of ours, in its session and to its provider."""
    request = asked(it)
    session = "" if it.meta.session == DEFAULT_SESSION else f"/@{it.meta.session}"
    named = providers.provider_of(request) != it.meta.provider
    provider = f"/~{it.meta.provider}" if named else ""
    return f"{proxy.rstrip('/')}{session}{provider}{request.target}"
