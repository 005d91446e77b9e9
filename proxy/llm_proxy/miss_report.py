"""A request that no cassette answers, as pages, journals and reports describe it.

Journals hold these as JSON, and are read again, also those of another version: every field has a
default.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MissedRequest:
    """What was asked."""

    method: str = ""
    path: str = ""
    model: str = ""
    """Empty where the request names none."""
    provider: str = ""
    dialect: str = ""
    session: str = ""
    key: str = ""
    """Its first 16 digits."""

    def __str__(self) -> str:
        """In a few words."""
        return f"{self.method} {self.path}" + (f" ({self.model})" if self.model else "")


@dataclass(frozen=True, slots=True)
class MissDifference:
    """One place in which the nearest cassette differs."""

    path: str = ""
    asked: str = ""
    """The value of the request, as JSON; empty where it has none."""
    stored: str = ""
    """The value of the cassette, as JSON; empty where it has none."""
    diff: str = ""
    """How the cassette's text became the request's, word by word, where they are long."""
    rule: str = ""
    """The rule by which it would not count, as `--normalise` takes it; empty where none does."""
    caution: str = ""
    """Why that rule is hardly what is wanted; empty where it may well be."""


@dataclass(frozen=True, slots=True)
class NearestCassette:
    """The cassette that is most like a request."""

    file: str = ""
    session: str = ""
    likeness: float = 0.0
    """From 0 to 1: how alike the two requests read."""
    differences: tuple[MissDifference, ...] = ()
    """The first of them."""
    more: int = 0
    """How many there are beside those."""


@dataclass(frozen=True, slots=True)
class MissReport:
    """A request that was not answered, and why."""

    asked: MissedRequest = field(default_factory=MissedRequest)
    why: str = ""
    """`empty` (there are no cassettes), `unlike` (none is like it), `differs` (from the nearest),
    `unplayable` (one is the same, and is not played), `unusable` (it cannot be trusted), or
    `used_up` (all its takes were played)."""
    text: str = ""
    """The same for people, in some lines."""
    nearest: NearestCassette | None = None
    looked_at: int = 0
    """How many cassettes were looked at."""
    rules: tuple[str, ...] = ()
    """The rules by which the nearest cassette would answer, those of the run among them; none where
    recording is right."""
