"""A fault rule: kind, location, trigger and selector."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from typing import Literal

from llm_proxy.faults.kind import Fault, FaultKind
from llm_proxy.faults.location import StreamLocation

CountScope = Literal["run", "session", "request"]
"""The scope in which requests are counted: the run, a session, or equal requests in a session."""


def matches_pattern(name: str, pattern: str) -> bool:
    """Whether a name matches a shell pattern such as `gpt-4*`, case-sensitively.

    `fnmatch` itself caches every pattern, and clients may send new ones without end.
    """
    return re.match(translate(pattern), name) is not None


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a rule applies, among the requests that its selector matches; all conditions must hold.

    A condition that is None always holds.
    """

    nth: int | None = None
    """Only the request with this number, from 1."""
    first: int | None = None
    """Only this many requests, the first ones."""
    every: int | None = None
    """Only requests whose number is a multiple of this."""
    probability: float | None = None
    """This fraction (0 to 1) of them, by seeded chance."""
    window: tuple[float, float] | None = None
    """Only requests from the first time up to the second, in ms since the rule was set."""
    times: int | None = None
    """At most this many injections in the whole run."""
    per: CountScope = "session"
    """The scope in which `nth`, `first` and `every` count."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Which requests a rule applies to; all conditions that are given must hold.

    Texts are shell patterns such as `gpt-4*`; empty matches everything.
    """

    dialect: str = ""
    provider: str = ""
    model: str = ""
    path: str = ""
    session: str = ""
    streams: bool | None = None
    """Whether the request is for a stream; None matches both."""

    def matches(self, request_attributes: Selector) -> bool:
        """Whether a request with these attributes is selected."""
        patterns = (self.dialect, self.provider, self.model, self.path, self.session)
        attributes = (
            request_attributes.dialect,
            request_attributes.provider,
            request_attributes.model,
            request_attributes.path,
            request_attributes.session,
        )
        names_match = all(
            not pattern or matches_pattern(name, pattern)
            for pattern, name in zip(patterns, attributes, strict=True)
        )
        return names_match and self.streams in (None, request_attributes.streams)


@dataclass(frozen=True, slots=True)
class FaultRule:
    """One fault rule: what goes wrong, where, when and for which requests."""

    text: str
    """As its author wrote it; the normal form where it was given as a mapping."""
    kind: FaultKind
    fault: Fault
    location: StreamLocation | None = None
    """None uses the default location of the fault."""
    trigger: Trigger = Trigger()
    selector: Selector = Selector()


@dataclass(frozen=True, slots=True)
class ScenarioRule:
    """A rule from a scenario."""

    rule: FaultRule
    scenario_location: str
    """The scenario, or its turn, that contains the rule; requests are counted for each."""
