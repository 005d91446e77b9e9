"""The definition of an export format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llm_proxy.cassette import Cassette


@dataclass(frozen=True, slots=True)
class ExportedExchange:
    """An exchange, and where it was."""

    cassette: Cassette
    url: str


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A way to write exchanges down."""

    name: str
    """As it is chosen on the command line."""
    write: Callable[[Sequence[ExportedExchange]], bytes]
    """The exchanges as a file.  Raises `NotRepresentable` where it has no words for one."""
    takes_many: bool = False
    """Whether a file holds several."""
    takes_partial: bool = True
    """Whether it can say of an answer that it is not all."""
    needs_url: bool = False
    """Whether a made-up host will not do."""
