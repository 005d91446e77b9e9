"""A request that no cassette answers, as pages, journals and reports describe it.

Journals store these as JSON and are read again, even those of another version: so every field has
a default.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MissedRequest:
    """The request that no cassette answers."""

    method: str = ""
    path: str = ""
    model: str = ""
    """Empty if the request names none."""
    provider: str = ""
    dialect: str = ""
    session: str = ""
    key: str = ""
    """The first 16 digits of the key."""

    def __str__(self) -> str:
        """Method, path and model."""
        return f"{self.method} {self.path}" + (f" ({self.model})" if self.model else "")


@dataclass(frozen=True, slots=True)
class MissDifference:
    """One field in which the nearest cassette differs from the request."""

    path: str = ""
    requested: str = ""
    """The request's value as JSON; empty if it has none."""
    stored: str = ""
    """The cassette's value as JSON; empty if it has none."""
    diff: str = ""
    """The word diff from the cassette's text to the request's, if they are long."""
    rule: str = ""
    """The rule that would ignore the difference, as `--normalise` takes it; empty if none does."""
    caution: str = ""
    """Why that rule is probably unwanted; empty if it may be right."""


@dataclass(frozen=True, slots=True)
class NearestCassette:
    """The cassette whose request is most similar to the missed one."""

    file: str = ""
    session: str = ""
    similarity: float = 0.0
    """The similarity of the two requests, from 0 to 1."""
    differences: tuple[MissDifference, ...] = ()
    """The first differences."""
    more: int = 0
    """The number of further differences."""


@dataclass(frozen=True, slots=True)
class MissReport:
    """A request that no cassette answered, and why."""

    request: MissedRequest = field(default_factory=MissedRequest)
    reason: str = ""
    """`empty` (there are no cassettes), `no_similar` (none is similar), `differs` (from the
    nearest), `unplayable` (one has the same key but is not played), `unusable` (it is invalid), or
    `no_takes_left` (all its takes were played)."""
    text: str = ""
    """The report for people, in several lines."""
    nearest: NearestCassette | None = None
    compared: int = 0
    """The number of cassettes that were compared."""
    rules: tuple[str, ...] = ()
    """The rules with which the nearest cassette would match, including those of the run; empty if
    the request should be recorded instead."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What misses of the same request for the same reason have in common."""
        # Without a key, the text of the report identifies the request.
        text = "" if self.request.key else self.text
        return self.request.session, self.request.key, self.reason, text
