"""Settings of the upstream connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """Where the providers are, and how long they may be silent."""

    base_urls: Mapping[str, str]
    """Base URLs by provider name; `default` stands in for all."""
    in_place_of_v1: frozenset[str] = frozenset()
    """Providers whose address takes the place of the `/v1` that a target begins with."""
    idle_timeout: float = 300.0
    """The longest silence in seconds, before the head and between reads."""
    connect_timeout: float = 10.0
    """The longest wait for a connection, in seconds."""
    proxy: str | None = None
    """An HTTP proxy for networks that need one."""
    finish_on_disconnect: bool = False
    """Read an answer to its end for the recording when the client has left."""
