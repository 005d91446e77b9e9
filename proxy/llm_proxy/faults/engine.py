"""Selects the rules that apply to a request, and applies them to its response.

A random draw is a hash of the seed, the rule, the session, the key, and how often this request has
been sent: concurrent requests, or another order of requests, do not change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.chance import seeded_uniform
from llm_proxy.dialects.base import DecodedRequest
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.fault_record import FaultRecord
from llm_proxy.faults.kind import (
    FaultContext,
    FaultNotApplicable,
    MeteredFault,
    ReplaceResponse,
    Transform,
)
from llm_proxy.faults.rewriting import RewriterChain, RuleRewriter
from llm_proxy.faults.rule import ActiveRule, AppliedRule, FaultRule, ScenarioRule, Selector
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


class FaultEngine:
    """The rules of a run: selects those that apply to a request, and counts."""

    def __init__(
        self, rules: Iterable[FaultRule] = (), config: FaultEngineConfig | None = None
    ) -> None:
        self._config = config or FaultEngineConfig()
        self.startup_rules = [ActiveRule(rule, 0.0) for rule in rules]
        """The rules that were set when the run started."""
        self.runtime_rules: list[ActiveRule] = []
        """The rules that were set during the run."""
        self.session_rules: dict[str, list[ActiveRule]] = {}
        """Further rules for the requests of one session, by session."""
        self._scenario_rules: dict[tuple[str, str], ActiveRule] = {}
        self._request_counter = RequestCounter()

    @property
    def scenario_rules(self) -> list[ActiveRule]:
        """The rules of those scenarios that have answered a request."""
        return list(self._scenario_rules.values())

    @property
    def active_rules(self) -> list[ActiveRule]:
        """All rules: of the start, of the run, of sessions, and of scenarios."""
        return [*self.run_rules, *self.scenario_rules]

    @property
    def run_rules(self) -> list[ActiveRule]:
        """The rules of the start, of the run, and of sessions."""
        session_rules = [rule for rules in self.session_rules.values() for rule in rules]
        return [*self.startup_rules, *self.runtime_rules, *session_rules]

    def set_runtime_rules(self, rules: Iterable[FaultRule], now_ms: float) -> None:
        """Replaces the rules that were set during the run; those of the start stay.

        `now_ms` is in ms since the run began.
        """
        self.runtime_rules = [ActiveRule(rule, now_ms) for rule in rules]

    def set_session_rules(self, session: str, rules: Iterable[FaultRule], now_ms: float) -> None:
        """Replaces the rules of a session."""
        self.session_rules.pop(session, None)
        if active_rules := [ActiveRule(rule, now_ms) for rule in rules]:
            self.session_rules[session] = active_rules

    def reset_session(self, session: str) -> None:
        """Resets the counts and meters of this session."""
        self._request_counter.reset_session(session)
        for active_rule in self.active_rules:
            if active_rule.meter is not None:
                active_rule.meter.forget_session(session)
            counts = active_rule.matched_counts_by_scope
            for scope in [scope for scope in counts if scope[0] == session]:
                del counts[scope]

    @property
    def has_metered_rules(self) -> bool:
        """Whether any rule of the start or of the run has a fault with a meter."""
        return any(active_rule.rule.kind.scope == "rule" for active_rule in self.run_rules)

    def select_faults(
        self, routed: RoutedRequest, request_rules: Sequence[FaultRule], now_ms: float
    ) -> RequestFaults:
        """Selects the faults of this request, and counts it.

        `request_rules` are the rules that the request itself carries.  `now_ms` is in ms since the
        run began.
        """
        request_active_rules = [ActiveRule(rule, now_ms) for rule in request_rules]
        session_rules = self.session_rules.get(routed.session, ())
        rules = (
            *self.startup_rules,
            *self.runtime_rules,
            *session_rules,
            *request_active_rules,
        )
        return self._select_rules(rules, routed, None, now_ms)

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
        active_rules = [
            self._scenario_rules.setdefault(
                (rule.rule_id, rule.rule.text), ActiveRule(rule.rule, 0.0)
            )
            for rule in rules
        ]
        return self._select_rules(active_rules, routed, request_faults, now_ms)

    def _select_rules(
        self,
        rules: Sequence[ActiveRule],
        routed: RoutedRequest,
        request_faults: RequestFaults | None,
        now_ms: float,
    ) -> RequestFaults:
        """Adds those of these rules that apply to this request, in order; updates their counts."""
        if request_faults is None:
            ordinal = self._request_counter.next_ordinal(routed.session, routed.key)
            request_faults = RequestFaults(ordinal)
        is_replaced = False
        config, dialect, request = self._config, routed.dialect, routed.decompressed_request
        ordinal = request_faults.request_ordinal
        request_attributes = Selector(
            dialect.name,
            routed.provider,
            routed.model,
            request.path,
            routed.session,
            dialect.streams(request),
        )
        for rule_index, active_rule in enumerate(rules):
            rule = active_rule.rule
            if not rule.selector.matches(request_attributes):
                continue
            draw_uniform = partial(
                seeded_uniform, config.seed, rule.text, routed.session, routed.key, ordinal
            )
            if not active_rule.count_request(routed.session, routed.key, now_ms, draw_uniform):
                continue
            if rule.kind.scope == "rule" and is_replaced:
                continue  # another rule replaces the response: the meter must not count it
            seed = f"{config.seed}\0{routed.session}\0{routed.key}\0{ordinal}\0fault\0{rule_index}"
            encode_context = EncodeContext(seed, config.get_unix_time(), provider=routed.provider)
            context = FaultContext(
                DecodedRequest(dialect, request, encode_context),
                draw_uniform,
                config.max_silence_ms,
                lambda: routed.conversation,
            )
            mechanism = rule.mechanism
            if isinstance(mechanism, MeteredFault):
                active_rule.meter = active_rule.meter or mechanism.make_meter()
                metered_mechanism = active_rule.meter.mechanism_for_request(
                    context, routed.session, now_ms - active_rule.active_since_ms
                )
                if metered_mechanism is None:
                    continue
                mechanism = metered_mechanism
            is_replaced = is_replaced or isinstance(mechanism, ReplaceResponse)
            applied_rule = AppliedRule(active_rule, context, mechanism)
            active_rule.injected_count += not applied_rule.is_harmless
            request_faults.rules.append(applied_rule)
        return request_faults


class RequestFaults:
    """The rules that apply to one request, in order, and the records of their faults."""

    def __init__(self, request_ordinal: int) -> None:
        self.request_ordinal = request_ordinal
        """How often this request was sent in its session, including this one."""
        self.rules: list[AppliedRule] = []
        self._has_response = False

    @property
    def records(self) -> tuple[FaultRecord, ...]:
        """The records of the faults that were injected or skipped by now, replacements first."""
        rules = sorted(self.rules, key=lambda rule: not isinstance(rule.mechanism, ReplaceResponse))
        return tuple(
            applied_rule.record
            for applied_rule in rules
            if applied_rule.record is not None and not applied_rule.is_harmless
        )

    def finalize_records(self) -> tuple[FaultRecord, ...]:
        """Marks all rules that are still open as skipped; returns the records of all rules."""
        reason = (
            "the response ended before the fault's location"
            if self._has_response
            else "there was no response"
        )
        for applied_rule in self.rules:
            if applied_rule.record is None:
                applied_rule.skip(reason)
            elif applied_rule.record.skipped and not isinstance(
                applied_rule.mechanism, ReplaceResponse
            ):
                applied_rule.uncount()
        return self.records

    def replacement_response(self) -> Burst | None:
        """The response that a rule puts in place of the real one; None where no rule does."""
        replacement: Burst | None = None
        for applied_rule in self.rules:
            mechanism = applied_rule.mechanism
            if not isinstance(mechanism, ReplaceResponse) or applied_rule.record is not None:
                continue
            if replacement is not None:
                applied_rule.skip("an earlier rule already replaced the response")
                continue
            try:
                replacement = mechanism.make_response(applied_rule.context)
            except (FaultNotApplicable, NotRepresentable) as error:
                applied_rule.skip(str(error))
                continue
            if applied_rule.context.decoded_request.request.method == "HEAD":
                replacement = tuple(
                    Begin(replace(action.head, framing="none"))
                    if isinstance(action, Begin)
                    else action
                    for action in replacement
                    if not isinstance(action, Send)
                )
            applied_rule.set_record()
        return replacement

    def mark_skipped(self, reason: str) -> None:
        """Marks the faults of all rules that rewrite the response as skipped, for this reason."""
        for applied_rule in self.rules:
            if not isinstance(applied_rule.mechanism, ReplaceResponse):
                applied_rule.set_record(skipped=reason)

    def rewrite_response(self, burst: Burst) -> Burst:
        """Applies the rules to a complete response."""
        return self.build_rewriter_chain().rewrite_response(burst)

    def build_rewriter_chain(self) -> RewriterChain:
        """The chain that applies the rules to the response that has begun."""
        self._has_response = True
        rewriters = []
        for applied_rule in self.rules:
            if not isinstance(applied_rule.mechanism, ReplaceResponse):
                rewriters.append(RuleRewriter(applied_rule, applied_rule.mechanism))
            elif applied_rule.record is None:  # a scenario's
                applied_rule.skip("the response had already started, so it could not be replaced")
        return RewriterChain(rewriters)

    @property
    def response_sent_callbacks(self) -> list[Callable[[ResponseHead, bytes], None]]:
        """What has to be called with the head and the body that were sent."""
        return [
            applied_rule.mechanism.on_response_sent
            for applied_rule in self.rules
            if isinstance(applied_rule.mechanism, Transform)
            and applied_rule.mechanism.on_response_sent is not None
        ]
