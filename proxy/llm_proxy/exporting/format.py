"""The definition of an export format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llm_proxy.cassette import Cassette


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
