"""The faults of one request, and their records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from llm_proxy.actions import Action, Begin, Burst, Send
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.fault_record import FaultRecord
from llm_proxy.faults.kind import (
    FaultContext,
    FaultNotApplicable,
    ReplaceResponse,
    RequestMechanism,
    Transform,
)
from llm_proxy.faults.rewriting import RewriterChain, RuleRewriter, rewrite_response
from llm_proxy.faults.rule import FaultRule
from llm_proxy.routing import RoutedRequest


@dataclass(frozen=True, slots=True)
class SelectedRule:
    """A rule that applies to a request, with its context and its mechanism for the request."""

    rule: FaultRule
    context: FaultContext
    mechanism: RequestMechanism
    on_skipped: Callable[[], None]
    """Called where the fault is not injected after all, so that it does not count."""


class RequestFaults:
    """The rules that apply to one request, in order, and the records of their faults."""

    def __init__(self, routed: RoutedRequest, request_ordinal: int) -> None:
        self.routed = routed
        self.request_ordinal = request_ordinal
        """How often this request was sent in its session, including this one."""
        self._selected_rules: list[SelectedRule] = []
        self._finished_records: list[FaultRecord] = []
        self._rewriters: list[tuple[RuleRewriter, SelectedRule]] = []
        self._sent_callbacks: list[Callable[[ResponseHead, bytes], None]] = []

    def __bool__(self) -> bool:
        """Whether any rule still applies."""
        return bool(self._selected_rules)

    def add_rules(self, rules: Iterable[SelectedRule]) -> None:
        """Adds rules after those that apply already."""
        self._selected_rules += rules

    @property
    def records(self) -> tuple[FaultRecord, ...]:
        """The records of the faults that were injected or skipped by now."""
        working = (
            rule_rewriter.record
            for rule_rewriter, _ in self._rewriters
            if not rule_rewriter.is_harmless
        )
        return (
            *self._finished_records,
            *(fault_record for fault_record in working if fault_record is not None),
        )

    def finalize_records(self) -> tuple[FaultRecord, ...]:
        """Marks all rules that are still open as skipped; returns the records of all rules."""
        for selected_rule in self._selected_rules:
            if not (
                isinstance(selected_rule.mechanism, Transform)
                and selected_rule.mechanism.is_harmless
            ):
                self._record_outcome(selected_rule, "there was no answer")
        self._selected_rules = []
        for rewriter, selected_rule in self._rewriters:
            rewriter.mark_ended_early()
            is_skipped = rewriter.record is not None and rewriter.record.skipped
            if is_skipped and not rewriter.is_harmless:  # a harmless one was never counted
                selected_rule.on_skipped()
        return self.records

    def replacement_response(self) -> Burst | None:
        """The response that a rule puts in place of the real one; None where no rule does."""
        replacement: Burst | None = None
        remaining_rules: list[SelectedRule] = []
        for selected_rule in self._selected_rules:
            mechanism = selected_rule.mechanism
            if not isinstance(mechanism, ReplaceResponse):
                remaining_rules.append(selected_rule)
            elif replacement is not None:
                self._record_outcome(selected_rule, "another fault has answered already")
            else:
                replacement = self._make_replacement(selected_rule, mechanism)
        self._selected_rules = remaining_rules
        return replacement

    def mark_skipped(self, reason: str) -> None:
        """Marks the faults of all rules as skipped, for this reason."""
        for rewriter, _ in self._rewriters:
            rewriter.mark_skipped(reason)

    def rewrite_response(self, burst: Burst) -> Burst:
        """Applies the rules to a complete response."""
        chain, _ = self.build_rewriter_chain()
        return rewrite_response(burst, chain)

    def build_rewriter_chain(self) -> tuple[RewriterChain, bool]:
        """The chain that applies the rules, and whether the body's length may change."""
        rewriters: list[RuleRewriter] = []
        may_change_length = False
        for selected_rule in self._selected_rules:
            mechanism = selected_rule.mechanism
            if isinstance(mechanism, ReplaceResponse):  # a scenario's: the response has begun
                self._record_outcome(selected_rule, "the answer had begun")
                continue
            rewriters.append(RuleRewriter(selected_rule.rule, mechanism, selected_rule.context))
            self._rewriters.append((rewriters[-1], selected_rule))
            if isinstance(mechanism, Transform) and mechanism.on_response_sent is not None:
                self._sent_callbacks.append(mechanism.on_response_sent)
            may_change_length = may_change_length or rewriters[-1].changes_length
        self._selected_rules = []
        return RewriterChain(rewriters), may_change_length

    @property
    def has_response_sent_callbacks(self) -> bool:
        """Whether any rule has to be called with the response that was sent."""
        return bool(self._sent_callbacks)

    def run_response_sent_callbacks(self, head: ResponseHead, body: bytes) -> None:
        """Calls the rules that need the head and the body that were sent."""
        for callback in self._sent_callbacks:
            callback(head, body)

    def _make_replacement(
        self, selected_rule: SelectedRule, mechanism: ReplaceResponse
    ) -> Burst | None:
        try:
            replacement = mechanism.make_response(selected_rule.context)
        except (FaultNotApplicable, NotRepresentable) as error:
            self._record_outcome(selected_rule, str(error))
            return None
        self._record_outcome(selected_rule, "")
        is_head_request = selected_rule.context.decoded_request.request.method == "HEAD"
        return tuple(_head_only(replacement)) if is_head_request else replacement

    def _record_outcome(self, selected_rule: SelectedRule, skip_reason: str) -> None:
        kind = selected_rule.rule.kind
        effect = selected_rule.mechanism.effect or kind.effect
        self._finished_records.append(
            FaultRecord(selected_rule.rule.text, kind.name, effect, skipped=skip_reason)
        )
        if skip_reason:
            selected_rule.on_skipped()


def _head_only(response: Burst) -> Iterable[Action]:
    for action in response:
        match action:
            case Begin(head):
                yield Begin(replace(head, framing="none"))
            case Send():
                pass
            case _:
                yield action
