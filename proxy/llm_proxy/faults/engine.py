"""Selects the rules that apply to a request: counted, timed and seeded, the same in each run.

A roll of chance is a hash of the seed, the rule, the session, the key, and how often this request
has been asked: requests that come at once, or in another order, change none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.chance import seeded_uniform
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.faults.kind import (
    FaultContext,
    MeteredFault,
    ReplaceResponse,
    RequestMeter,
    Transform,
    Working,
)
from llm_proxy.faults.request_faults import RequestFaults, SelectedRule
from llm_proxy.faults.rule import FaultRule, ScenarioRule, Selector, Trigger
from llm_proxy.routing import RoutedRequest
from llm_proxy.take_numbers import RequestCounter

_LONGEST_SILENCE: Final = 660_000.0


@dataclass(frozen=True, slots=True)
class FaultConditions:
    """What holds for all rules of a run."""

    seed: int = 0
    silence: float = _LONGEST_SILENCE
    """The longest that anything is silent, in ms."""
    created: Callable[[], int] = int
    """The time that made answers name, in s since 1970."""


@dataclass(slots=True)
class ActiveRule:
    """A rule that holds, and what has come of it."""

    rule: FaultRule
    active_since: float
    """When it was given, in ms since the run began."""
    seen_count: int = 0
    """Requests that it is meant for."""
    injected_count: int = 0
    """Requests that it struck."""
    matched_counts: Counter[str] = field(default_factory=Counter)
    """Requests that it is meant for, by what `per` counts."""
    meter: RequestMeter | None = None
    """The account that its fault keeps, where it keeps one."""

    def uncount_injection(self) -> None:
        """A fault that was to strike came to nothing."""
        self.injected_count -= 1

    def to_document(self) -> dict[str, str | int]:
        """For people and programs."""
        return {"rule": self.rule.text, "seen": self.seen_count, "struck": self.injected_count}


class FaultEngine:
    """The rules of a run, as they stand."""

    def __init__(
        self, rules: Iterable[FaultRule] = (), conditions: FaultConditions | None = None
    ) -> None:
        self._conditions = conditions or FaultConditions()
        self._startup_rules = [ActiveRule(rule, 0.0) for rule in rules]
        self._runtime_rules: list[ActiveRule] = []
        self._scenario_rules: dict[tuple[str, str], ActiveRule] = {}
        self._request_counter = RequestCounter()

    @property
    def startup_rules(self) -> list[ActiveRule]:
        """The rules that the run was started with."""
        return list(self._startup_rules)

    @property
    def runtime_rules(self) -> list[ActiveRule]:
        """The rules that were given while it runs."""
        return list(self._runtime_rules)

    @property
    def scenario_rules(self) -> list[ActiveRule]:
        """The rules of scenarios that have been met."""
        return list(self._scenario_rules.values())

    @property
    def active_rules(self) -> list[ActiveRule]:
        """All of them."""
        return [*self._startup_rules, *self._runtime_rules, *self._scenario_rules.values()]

    def set_rules(self, rules: Iterable[FaultRule], now: float) -> None:
        """Have these hold from now on, in place of those that were given while it runs.

        `now` is in ms since the run began.
        """
        self._runtime_rules = [ActiveRule(rule, now) for rule in rules]

    def reset_session(self, session: str) -> None:
        """Count the requests of this session from 1 again."""
        self._request_counter.reset_session(session)
        for standing in self.active_rules:
            if standing.meter is not None:
                standing.meter.forget_session(session)
            for scope in [
                matched_count
                for matched_count in standing.matched_counts
                if matched_count.split("\0")[:1] == [session]
            ]:
                del standing.matched_counts[scope]

    @property
    def has_meters(self) -> bool:
        """Whether any rule keeps account of what is asked."""
        return any(
            active_rule.rule.kind.scope == "rule"
            for active_rule in (*self._startup_rules, *self._runtime_rules)
        )

    def may_apply(self, routed: RoutedRequest) -> bool:
        """Whether any rule may strike this request at all."""
        return bool(self._startup_rules or self._runtime_rules or routed.requested_faults)

    def faults_for(
        self, routed: RoutedRequest, own_rules: Sequence[FaultRule], now: float
    ) -> RequestFaults:
        """What strikes this request; `own` are the rules that it brings along.

        `now` is in ms since the run began.
        """
        ordinal = self._request_counter.next_ordinal(routed.session, routed.key)
        rules = [
            *self._startup_rules,
            *self._runtime_rules,
            *(ActiveRule(rule, now) for rule in own_rules),
        ]
        injection = RequestFaults(routed, ordinal)
        injection.add_rules(self._select_rules(rules, routed, ordinal, now))
        return injection

    def add_scenario_rules(
        self,
        routed: RoutedRequest,
        injection: RequestFaults | None,
        rules: Sequence[ScenarioRule],
        now: float,
    ) -> RequestFaults:
        """What strikes this request with the rules of the scenario that answers it.

        Their windows begin with the run.
        """
        if injection is None:
            injection = RequestFaults(
                routed, self._request_counter.next_ordinal(routed.session, routed.key)
            )
        standing = [
            self._scenario_rules.setdefault(
                (rule.source_location, rule.rule.text), ActiveRule(rule.rule, 0.0)
            )
            for rule in rules
        ]
        injection.add_rules(self._select_rules(standing, routed, injection.ordinal, now))
        return injection

    def _select_rules(
        self, rules: Sequence[ActiveRule], routed: RoutedRequest, ordinal: int, now: float
    ) -> list[SelectedRule]:
        """The rules that strike, in their order."""
        meant: list[SelectedRule] = []
        who = _selector_names(routed)
        for number, standing in enumerate(rules):
            if not standing.rule.selector.matches(who):
                continue
            if not self._applies(standing, routed, ordinal, now):
                continue
            if standing.rule.kind.scope == "rule" and any(map(_replaces_response, meant)):
                continue  # another has answered: that is none of its account
            context = self._fault_context(standing.rule, routed, ordinal, number)
            work = _mechanism_for(standing, context, routed.session, now)
            if work is None:
                continue
            standing.injected_count += not (isinstance(work, Transform) and work.is_quiet)
            meant.append(SelectedRule(standing.rule, context, work, standing.uncount_injection))
        return meant

    def _applies(
        self, standing: ActiveRule, routed: RoutedRequest, ordinal: int, now: float
    ) -> bool:
        occasion = standing.rule.trigger
        if occasion.window is not None:
            begin, end = (standing.active_since + number for number in occasion.window)
            if not begin <= now < end:
                return False
        standing.seen_count += 1
        if not self._is_due_by_count(standing, routed, occasion):
            return False
        if occasion.times is not None and standing.injected_count >= occasion.times:
            return False
        rolled = self._seeded_uniform(standing.rule, routed, ordinal, "strikes")
        return occasion.probability is None or rolled < occasion.probability

    @staticmethod
    def _is_due_by_count(standing: ActiveRule, routed: RoutedRequest, occasion: Trigger) -> bool:
        scope = {
            "run": "",
            "session": routed.session,
            "request": f"{routed.session}\0{routed.key}",
        }[occasion.per]
        standing.matched_counts[scope] += 1
        count = standing.matched_counts[scope]
        if occasion.nth is not None and count != occasion.nth:
            return False
        if occasion.first is not None and count > occasion.first:
            return False
        return occasion.every is None or count % occasion.every == 0

    def _fault_context(
        self, rule: FaultRule, routed: RoutedRequest, ordinal: int, number: int
    ) -> FaultContext:
        conditions = self._conditions
        seed = "\0".join((str(conditions.seed), routed.session, routed.key, str(ordinal), "fault"))
        delivery = EncodeContext(
            f"{seed}\0{number}", conditions.created(), provider=routed.provider
        )
        decoded_request = DecodedRequest(routed.dialect, routed.decompressed, delivery)
        return FaultContext(
            decoded_request,
            lambda label: self._seeded_uniform(rule, routed, ordinal, label),
            conditions.silence,
            lambda: routed.conversation,
        )

    def _seeded_uniform(
        self, rule: FaultRule, routed: RoutedRequest, ordinal: int, label: str
    ) -> float:
        return seeded_uniform(
            self._conditions.seed, rule.text, routed.session, routed.key, ordinal, label
        )


def _replaces_response(selected_rule: SelectedRule) -> bool:
    return isinstance(selected_rule.mechanism, ReplaceResponse)


def _mechanism_for(
    standing: ActiveRule, context: FaultContext, session: str, now: float
) -> Working | None:
    """How a rule's fault works on this request; None where its account says that it does not."""
    rule = standing.rule
    work = rule.fault.mechanism(rule.location)
    if not isinstance(work, MeteredFault):
        return work
    standing.meter = standing.meter or work.make_transform()
    return standing.meter.admit(context, session, now - standing.active_since)


def _selector_names(routed: RoutedRequest) -> Selector:
    return Selector(
        routed.dialect.name,
        routed.provider,
        routed.model,
        routed.decompressed.path,
        routed.session,
        routed.dialect.streams(routed.decompressed),
    )
