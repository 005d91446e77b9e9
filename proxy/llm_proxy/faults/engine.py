"""Selects the rules that apply to a request, by counts, time windows and seeded chance.

A random draw is a hash of the seed, the rule, the session, the key, and how often this request has
been sent: concurrent requests, or another order of requests, do not change it.
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
    RequestMechanism,
    RequestMeter,
    Transform,
)
from llm_proxy.faults.request_faults import RequestFaults, SelectedRule
from llm_proxy.faults.rule import FaultRule, ScenarioRule, Selector, Trigger
from llm_proxy.routing import RoutedRequest
from llm_proxy.take_numbers import RequestCounter

_MAX_SILENCE_MS: Final = 660_000.0


@dataclass(frozen=True, slots=True)
class FaultEngineConfig:
    """The settings that all rules of a run share."""

    seed: int = 0
    max_silence_ms: float = _MAX_SILENCE_MS
    """The longest time in ms that a fault may keep a connection silent."""
    get_unix_time: Callable[[], int] = int
    """Returns the creation time that generated responses declare, in s since 1970."""


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
    matched_counts_by_scope: Counter[str] = field(default_factory=Counter)
    """Matched requests, by the scope that `Trigger.per` counts in."""
    meter: RequestMeter | None = None
    """The meter of a `MeteredFault`; None before its first request, and for other faults."""

    def undo_injection_count(self) -> None:
        """Reduces `injected_count`, for a counted fault that was not injected after all."""
        self.injected_count -= 1

    def to_json_fields(self) -> dict[str, str | int]:
        """The rule and its counts as JSON fields."""
        return {"rule": self.rule.text, "seen": self.matched_count, "struck": self.injected_count}


class FaultEngine:
    """The rules of a run: selects those that apply to a request, and counts."""

    def __init__(
        self, rules: Iterable[FaultRule] = (), config: FaultEngineConfig | None = None
    ) -> None:
        self._config = config or FaultEngineConfig()
        self._startup_rules = [ActiveRule(rule, 0.0) for rule in rules]
        self._runtime_rules: list[ActiveRule] = []
        self._scenario_rules: dict[tuple[str, str], ActiveRule] = {}
        self._request_counter = RequestCounter()

    @property
    def startup_rules(self) -> list[ActiveRule]:
        """The rules that were set when the run started."""
        return list(self._startup_rules)

    @property
    def runtime_rules(self) -> list[ActiveRule]:
        """The rules that were set during the run."""
        return list(self._runtime_rules)

    @property
    def scenario_rules(self) -> list[ActiveRule]:
        """The rules of those scenarios that have answered a request."""
        return list(self._scenario_rules.values())

    @property
    def active_rules(self) -> list[ActiveRule]:
        """All rules: of the start, of the run, and of scenarios."""
        return [*self._startup_rules, *self._runtime_rules, *self._scenario_rules.values()]

    def set_runtime_rules(self, rules: Iterable[FaultRule], now_ms: float) -> None:
        """Replaces the rules that were set during the run; those of the start stay.

        `now_ms` is in ms since the run began.
        """
        self._runtime_rules = [ActiveRule(rule, now_ms) for rule in rules]

    def reset_session(self, session: str) -> None:
        """Resets the counts and meters of this session."""
        self._request_counter.reset_session(session)
        for active_rule in self.active_rules:
            if active_rule.meter is not None:
                active_rule.meter.forget_session(session)
            for scope_key in [
                scope_key
                for scope_key in active_rule.matched_counts_by_scope
                if scope_key.split("\0")[:1] == [session]
            ]:
                del active_rule.matched_counts_by_scope[scope_key]

    @property
    def has_metered_rules(self) -> bool:
        """Whether any rule of the start or of the run has a fault with a meter."""
        return any(
            active_rule.rule.kind.scope == "rule"
            for active_rule in (*self._startup_rules, *self._runtime_rules)
        )

    def may_apply(self, routed: RoutedRequest) -> bool:
        """Whether any rule but those of scenarios could apply; if not, selection may be skipped."""
        return bool(self._startup_rules or self._runtime_rules or routed.requested_faults)

    def select_faults(
        self, routed: RoutedRequest, request_rules: Sequence[FaultRule], now_ms: float
    ) -> RequestFaults:
        """Selects the faults of this request, and counts it.

        `request_rules` are the rules that the request itself carries.  `now_ms` is in ms since the
        run began.
        """
        request_ordinal = self._request_counter.next_ordinal(routed.session, routed.key)
        rules = [
            *self._startup_rules,
            *self._runtime_rules,
            *(ActiveRule(rule, now_ms) for rule in request_rules),
        ]
        request_faults = RequestFaults(routed, request_ordinal)
        request_faults.add_rules(self._select_rules(rules, routed, request_ordinal, now_ms))
        return request_faults

    def select_scenario_faults(
        self,
        routed: RoutedRequest,
        request_faults: RequestFaults | None,
        rules: Sequence[ScenarioRule],
        now_ms: float,
    ) -> RequestFaults:
        """Adds the faults that the rules of the answering scenario cause to those of this request.

        The windows of scenario rules begin with the run.
        """
        if request_faults is None:
            request_faults = RequestFaults(
                routed, self._request_counter.next_ordinal(routed.session, routed.key)
            )
        active_rules = [
            self._scenario_rules.setdefault(
                (rule.scenario_location, rule.rule.text), ActiveRule(rule.rule, 0.0)
            )
            for rule in rules
        ]
        request_faults.add_rules(
            self._select_rules(active_rules, routed, request_faults.request_ordinal, now_ms)
        )
        return request_faults

    def _select_rules(
        self,
        rules: Sequence[ActiveRule],
        routed: RoutedRequest,
        request_ordinal: int,
        now_ms: float,
    ) -> list[SelectedRule]:
        """The rules that apply to this request, in order; updates their counts."""
        selected_rules: list[SelectedRule] = []
        request_attributes = _request_attributes(routed)
        for rule_index, active_rule in enumerate(rules):
            if not active_rule.rule.selector.matches(request_attributes):
                continue
            if not self._is_triggered(active_rule, routed, request_ordinal, now_ms):
                continue
            if active_rule.rule.kind.scope == "rule" and any(
                map(_replaces_response, selected_rules)
            ):
                continue  # another rule replaces the response: the meter must not count it
            context = self._fault_context(active_rule.rule, routed, request_ordinal, rule_index)
            mechanism = _mechanism_for_request(active_rule, context, routed.session, now_ms)
            if mechanism is None:
                continue
            active_rule.injected_count += not (
                isinstance(mechanism, Transform) and mechanism.is_harmless
            )
            selected_rules.append(
                SelectedRule(active_rule.rule, context, mechanism, active_rule.undo_injection_count)
            )
        return selected_rules

    def _is_triggered(
        self, active_rule: ActiveRule, routed: RoutedRequest, request_ordinal: int, now_ms: float
    ) -> bool:
        trigger = active_rule.rule.trigger
        if trigger.window is not None:
            begin_ms, end_ms = (
                active_rule.active_since_ms + offset_ms for offset_ms in trigger.window
            )
            if not begin_ms <= now_ms < end_ms:
                return False
        active_rule.matched_count += 1
        if not self._is_triggered_by_count(active_rule, routed, trigger):
            return False
        if trigger.times is not None and active_rule.injected_count >= trigger.times:
            return False
        uniform_draw = self._seeded_uniform(active_rule.rule, routed, request_ordinal, "strikes")
        return trigger.probability is None or uniform_draw < trigger.probability

    @staticmethod
    def _is_triggered_by_count(
        active_rule: ActiveRule, routed: RoutedRequest, trigger: Trigger
    ) -> bool:
        scope_key = {
            "run": "",
            "session": routed.session,
            "request": f"{routed.session}\0{routed.key}",
        }[trigger.per]
        active_rule.matched_counts_by_scope[scope_key] += 1
        count = active_rule.matched_counts_by_scope[scope_key]
        if trigger.nth is not None and count != trigger.nth:
            return False
        if trigger.first is not None and count > trigger.first:
            return False
        return trigger.every is None or count % trigger.every == 0

    def _fault_context(
        self, rule: FaultRule, routed: RoutedRequest, request_ordinal: int, rule_index: int
    ) -> FaultContext:
        config = self._config
        seed = "\0".join(
            (str(config.seed), routed.session, routed.key, str(request_ordinal), "fault")
        )
        encode_context = EncodeContext(
            f"{seed}\0{rule_index}", config.get_unix_time(), provider=routed.provider
        )
        decoded_request = DecodedRequest(
            routed.dialect, routed.decompressed_request, encode_context
        )
        return FaultContext(
            decoded_request,
            lambda purpose: self._seeded_uniform(rule, routed, request_ordinal, purpose),
            config.max_silence_ms,
            lambda: routed.conversation,
        )

    def _seeded_uniform(
        self, rule: FaultRule, routed: RoutedRequest, request_ordinal: int, purpose: str
    ) -> float:
        return seeded_uniform(
            self._config.seed, rule.text, routed.session, routed.key, request_ordinal, purpose
        )


def _replaces_response(selected_rule: SelectedRule) -> bool:
    return isinstance(selected_rule.mechanism, ReplaceResponse)


def _mechanism_for_request(
    active_rule: ActiveRule, context: FaultContext, session: str, now_ms: float
) -> RequestMechanism | None:
    """The mechanism of a rule's fault for this request; None where its meter lets it pass."""
    rule = active_rule.rule
    mechanism = rule.fault.make_mechanism(rule.location)
    if not isinstance(mechanism, MeteredFault):
        return mechanism
    active_rule.meter = active_rule.meter or mechanism.make_meter()
    return active_rule.meter.mechanism_for_request(
        context, session, now_ms - active_rule.active_since_ms
    )


def _request_attributes(routed: RoutedRequest) -> Selector:
    return Selector(
        routed.dialect.name,
        routed.provider,
        routed.model,
        routed.decompressed_request.path,
        routed.session,
        routed.dialect.streams(routed.decompressed_request),
    )
