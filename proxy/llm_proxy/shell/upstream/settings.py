"""Settings of the upstream connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """Base URLs of the providers, timeouts and the HTTP proxy."""

    base_urls: Mapping[str, str]
    """Base URLs by provider name; `default` applies to the providers without an entry."""
    replacing_v1: frozenset[str] = frozenset()
    """Providers whose base URL replaces the `/v1` that a request target begins with."""
    idle_timeout_s: float = 300.0
    """Maximum silence in seconds, before the head and between reads."""
    connect_timeout_s: float = 10.0
    """Maximum time to connect, in seconds."""
    proxy_url: str | None = None
    """URL of the HTTP proxy to use, if any."""
    finish_on_disconnect: bool = False
    """Whether a response is read to its end for the recording after the client has left."""
