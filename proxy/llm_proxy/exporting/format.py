"""What a format is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llm_proxy.cassette import Cassette


@dataclass(frozen=True, slots=True)
class Exported:
    """An exchange, and where it was."""

    cassette: Cassette
    url: str


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write exchanges down."""

    name: str
    """As it is chosen on the command line."""
    write: Callable[[Sequence[Exported]], bytes]
    """The exchanges as a file.  Raises `CannotSay` where it has no words for one."""
    of_many: bool = False
    """Whether a file holds several."""
    of_partial: bool = True
    """Whether it can say of an answer that it is not all."""
    needs_address: bool = False
    """Whether a made-up host will not do."""
