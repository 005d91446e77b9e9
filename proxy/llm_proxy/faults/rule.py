"""A fault rule: kind, location, trigger and selector."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from typing import Literal

from llm_proxy.faults.kind import Fault, FaultKind
from llm_proxy.faults.location import Place

Per = Literal["run", "session", "request"]
"""What requests are counted by: all of them, those of a session, or those that are the same in a
session."""


def matches_pattern(name: str, pattern: str) -> bool:
    """Whether a name is as a pattern says: `gpt-4*`, letter case and all.

    `fnmatch` itself keeps every pattern that it ever met, and clients may bring new ones along.
    """
    return re.match(translate(pattern), name) is not None


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a rule strikes, among the requests that it is meant for; all that is given must hold."""

    nth: int | None = None
    """The one of this number alone, from 1."""
    first: int | None = None
    """So many of them, the first."""
    every: int | None = None
    """Each of a number that this divides."""
    probability: float | None = None
    """This share of them, by chance that repeats."""
    window: tuple[float, float] | None = None
    """Those that come between these moments, in ms since the rule was given."""
    times: int | None = None
    """At most so many in the whole run."""
    per: Per = "session"
    """What `nth`, `first` and `every` count."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Whose requests a rule is meant for; all that is given must hold.

    Names are patterns as a shell has them: `gpt-4*`.
    """

    dialect: str = ""
    provider: str = ""
    model: str = ""
    path: str = ""
    session: str = ""
    streams: bool | None = None
    """Whether a stream is asked for."""

    def matches(self, selector: Selector) -> bool:
        """Whether a request of these names is meant."""
        wanted = (self.dialect, self.provider, self.model, self.path, self.session)
        values = (
            selector.dialect,
            selector.provider,
            selector.model,
            selector.path,
            selector.session,
        )
        named = all(
            not pattern or matches_pattern(name, pattern)
            for pattern, name in zip(wanted, values, strict=True)
        )
        return named and self.streams in (None, selector.streams)


@dataclass(frozen=True, slots=True)
class FaultRule:
    """One rule."""

    text: str
    """As its author spelled it; in the grammar's own spelling where it came as a mapping."""
    kind: FaultKind
    fault: Fault
    location: Place | None = None
    """None where the fault has a place of its own."""
    trigger: Trigger = Trigger()
    selector: Selector = Selector()


@dataclass(frozen=True, slots=True)
class ScenarioRule:
    """A rule that a scenario brings along."""

    rule: FaultRule
    source_location: str
    """What brings it, and has its answers counted: a scenario, or one of its turns."""
