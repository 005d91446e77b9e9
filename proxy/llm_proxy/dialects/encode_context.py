"""What encoding needs beside the turn: identifiers, time, and how texts are split.

Nothing here rolls dice or looks at a clock: the same `EncodeContext` gives the same bytes.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID

_PIECE: Final = re.compile(r"\s*\S{1,12}|\s+")
"""A word with the space before it, as tokens go; twelve characters of a longer one."""


def token_pieces(text: str) -> list[str]:
    """A text in the pieces of a stream, about a token each; joined, they are the text."""
    return _PIECE.findall(text)


@dataclass(frozen=True, slots=True)
class RateLimitWindow:
    """What is left of a limit, as providers count it down."""

    limit: int
    remaining: int
    reset: float
    """Seconds until the limit is whole again."""


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """The limits of an account, for the headers of providers that tell them."""

    requests: RateLimitWindow | None = None
    """None where there is no such limit."""
    tokens: RateLimitWindow | None = None

    @property
    def windows_by_name(self) -> tuple[tuple[str, RateLimitWindow], ...]:
        """The limits that there are, each by what it counts."""
        both = (("requests", self.requests), ("tokens", self.tokens))
        return tuple((name, window) for name, window in both if window is not None)


@dataclass(frozen=True, slots=True)
class EncodeContext:
    """How a turn is told, as far as the turn does not say."""

    seed: str
    """What identifiers are made of: the same seed gives the same ones."""
    created: int
    """When it is told, in s since 1970 (UTC)."""
    split_text: Callable[[str], Iterable[str]] = token_pieces
    """How a text becomes the pieces of a stream: none is empty, and joined they are the text."""
    provider: str = ""
    """Which member of a dialect's family speaks: a name of `llm_proxy.providers`."""
    models: tuple[str, ...] = ()
    """The models that a list of models names."""
    quota: AccountLimits | None = None
    """None where the limits of the account are not told."""
    turns_are_successive: bool = False
    """Whether several choices come one after the other and finish once, as choice 0; else they take
    turns and each finishes.  Only streams of the OpenAI family know the former."""
    signs_reasoning: bool = True
    """Whether reasoning without a seal is given a made one, where clients hand seals back."""

    def identifier(self, prefix: str, ordinal: int = 0, length: int = 24) -> str:
        """A made identifier: `prefix`, and `length` (at most 52) lower-case letters and digits."""
        return prefix + b32encode(self._digest(prefix, ordinal)).decode().lower()[:length]

    def uuid(self, purpose: str, ordinal: int = 0) -> str:
        """A made UUID."""
        return str(UUID(bytes=self._digest(purpose, ordinal)[:16], version=4))

    def _digest(self, purpose: str, ordinal: int) -> bytes:
        return sha256(f"{self.seed}\0{purpose}\0{ordinal}".encode()).digest()
