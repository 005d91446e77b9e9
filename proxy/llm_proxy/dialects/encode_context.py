"""What encoding needs in addition to the turn: identifiers, time, and how texts are split.

Nothing here uses randomness or a clock: the same `EncodeContext` gives the same bytes.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID

_TOKEN_PATTERN: Final = re.compile(r"\s*\S{1,12}|\s+")
"""A word with the space before it, like a token; at most 12 characters of a longer one."""


def token_pieces(text: str) -> list[str]:
    """Splits a text into pieces of about a token each; joined, they are the text."""
    return _TOKEN_PATTERN.findall(text)


@dataclass(frozen=True, slots=True)
class RateLimitWindow:
    """The state of one rate limit, as providers report it in headers."""

    limit: int
    remaining: int
    reset_s: float
    """Seconds until the full limit is available again."""


@dataclass(frozen=True, slots=True)
class AccountLimits:
    """The rate limits of an account, for providers that report them in headers."""

    request_window: RateLimitWindow | None = None
    """None if there is no such limit."""
    token_window: RateLimitWindow | None = None

    @property
    def named_windows(self) -> tuple[tuple[str, RateLimitWindow], ...]:
        """The existing limits, each after its name: `requests`, `tokens`."""
        windows = (("requests", self.request_window), ("tokens", self.token_window))
        return tuple((name, window) for name, window in windows if window is not None)


@dataclass(frozen=True, slots=True)
class EncodeContext:
    """How to encode a turn, as far as the turn does not determine it."""

    seed: str
    """The seed of identifiers: the same seed gives the same ones."""
    created_unix_s: int
    """The time of the response, in s since 1970 (UTC)."""
    split_text: Callable[[str], Iterable[str]] = token_pieces
    """Splits a text into the pieces of a stream: none is empty, and joined they are the text."""
    provider: str = ""
    """The provider within a dialect's family: a name of `llm_proxy.providers`."""
    models: tuple[str, ...] = ()
    """The names in a list of models."""
    account_limits: AccountLimits | None = None
    """None if the limits of the account are not reported."""
    choices_are_successive: bool = False
    """Whether several choices come one after the other and finish once, as choice 0; else they are
    interleaved and each finishes.  Only streams of the OpenAI family have the former."""
    signs_reasoning: bool = True
    """Whether unsigned reasoning gets a fake signature, if clients must send signatures back."""

    def fake_identifier(self, prefix: str, ordinal: int = 0, length: int = 24) -> str:
        """A fake identifier: `prefix`, and `length` (at most 52) lower-case letters and digits.

        The same seed, prefix and ordinal give the same identifier.
        """
        return prefix + b32encode(self._seeded_digest(prefix, ordinal)).decode().lower()[:length]

    def fake_uuid(self, purpose: str, ordinal: int = 0) -> str:
        """A fake UUID; the same seed, purpose and ordinal give the same one."""
        return str(UUID(bytes=self._seeded_digest(purpose, ordinal)[:16], version=4))

    def _seeded_digest(self, purpose: str, ordinal: int) -> bytes:
        return sha256(f"{self.seed}\0{purpose}\0{ordinal}".encode()).digest()
