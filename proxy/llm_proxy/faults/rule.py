"""A fault rule: kind, location, trigger and selector; its counts; and what it did to a response."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from llm_proxy.faults.fault_record import FaultRecord
from llm_proxy.faults.kind import (
    FaultContext,
    FaultKind,
    Mechanism,
    OneShot,
    RequestMechanism,
    RequestMeter,
    StreamLocation,
    Transform,
    UniformDraw,
)

CountScope = Literal["run", "session", "request"]
"""The scope in which requests are counted: the run, a session, or equal requests in a session."""

RuleSpec = Annotated[
    str | Mapping[str, Any],
    Meta(description="A rule: `reset,after=3`, or `{fault: reset, after: 3}`."),
]
"""A rule as text or as a mapping, not yet parsed."""
RuleSpecs = tuple[RuleSpec, ...]
"""Rules in order, not yet parsed."""


class FaultRulesFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file with a list of fault rules."""

    faults: Annotated[RuleSpecs, Meta(description="The rules.")]


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
        return self.streams in (None, request_attributes.streams) and all(
            matches_pattern(getattr(request_attributes, name), pattern)
            for name in ("dialect", "provider", "model", "path", "session")
            if (pattern := getattr(self, name))
        )


@dataclass(frozen=True, slots=True)
class FaultRule:
    """One fault rule: what goes wrong, where, when and for which requests."""

    text: str
    """As its author wrote it; the normal form where it was given as a mapping."""
    kind: FaultKind
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the fault, by their names in Python."""
    location: StreamLocation | None = None
    """None uses the default location of the fault."""
    trigger: Trigger = Trigger()
    selector: Selector = Selector()
    mechanism: Mechanism = field(init=False, compare=False)
    """How the fault is applied."""

    def __post_init__(self) -> None:
        """Raises `UsageError`, with a sentence, where the arguments do not fit together."""
        mechanism = self.kind.make_mechanism(**self.arguments)
        if self.location is None and isinstance(mechanism, OneShot):
            mechanism = mechanism.without_location or mechanism
        object.__setattr__(self, "mechanism", mechanism)


@dataclass(frozen=True, slots=True)
class ScenarioRule:
    """A rule from a scenario."""

    rule: FaultRule
    rule_id: str
    """Where the rule stands: `refund, turn 2, fault 1`.  Requests are counted for each id."""


@dataclass(slots=True)
class ActiveRule:
    """A rule that is in effect, with its counts."""

    rule: FaultRule
    active_since_ms: float
    """When the rule was set, in ms since the run began."""
    matched_count: int = 0
    """Requests that its selector and its window match."""
    injected_count: int = 0
    """Requests in which it injected its fault."""
    matched_counts_by_scope: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Matched requests, by session and key, as far as `Trigger.per` tells them apart."""
    meter: RequestMeter | None = None
    """The meter of a `MeteredFault`; None before its first request, and for other faults."""

    def count_request(
        self, session: str, key: str, now_ms: float, draw_uniform: UniformDraw
    ) -> bool:
        """Counts a request, and tells whether the trigger holds for it.

        `now_ms` is in ms since the run began.  Outside of the window nothing is counted.
        """
        trigger = self.rule.trigger
        if trigger.window is not None:
            begin_ms, end_ms = trigger.window
            if not begin_ms <= now_ms - self.active_since_ms < end_ms:
                return False
        self.matched_count += 1
        scope = (
            "" if trigger.per == "run" else session,
            key if trigger.per == "request" else "",
        )
        self.matched_counts_by_scope[scope] += 1
        count = self.matched_counts_by_scope[scope]
        return (
            trigger.nth in (None, count)
            and (trigger.first is None or count <= trigger.first)
            and (trigger.every is None or count % trigger.every == 0)
            and (trigger.times is None or self.injected_count < trigger.times)
            and (trigger.probability is None or draw_uniform("strikes") < trigger.probability)
        )

    def to_json_fields(self) -> dict[str, str | int]:
        """The rule and its counts as JSON fields."""
        return {
            "rule": self.rule.text,
            "matched": self.matched_count,
            "injected": self.injected_count,
        }


@dataclass(slots=True)
class AppliedRule:
    """A rule that applies to one request, and the record of what it did to the response."""

    active_rule: ActiveRule
    context: FaultContext
    mechanism: RequestMechanism
    record: FaultRecord | None = None
    """None until the fault is injected or skipped."""
    not_applicable_reason: str = ""
    """Why the fault does not apply to a body such as the head declares; empty where it is."""

    @property
    def rule(self) -> FaultRule:
        """The rule itself."""
        return self.active_rule.rule

    @property
    def is_harmless(self) -> bool:
        """Whether the fault breaks nothing, and is neither counted nor recorded."""
        return isinstance(self.mechanism, Transform) and self.mechanism.is_harmless

    def set_record(
        self,
        *,
        skipped: str = "",
        at_ms: float = 0.0,
        event: int | None = None,
        byte: int | None = None,
    ) -> None:
        """Records that the fault was injected, or why it was skipped."""
        kind = self.rule.kind
        effect = self.mechanism.effect or kind.effect
        skipped = skipped and (self.not_applicable_reason or skipped)
        self.record = FaultRecord(self.rule.text, kind.name, effect, at_ms, event, byte, skipped)

    def skip(self, reason: str) -> None:
        """Records why the fault is not injected, so that it does not count."""
        self.set_record(skipped=reason)
        self.uncount()

    def uncount(self) -> None:
        """Takes back that the fault was counted as injected."""
        self.active_rule.injected_count -= not self.is_harmless
