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
    Transform,
    Working,
)
from llm_proxy.faults.rewriting import RewriterChain, RuleRewriter, rewrite_response
from llm_proxy.faults.rule import FaultRule
from llm_proxy.routing import RoutedRequest


@dataclass(frozen=True, slots=True)
class SelectedRule:
    """A rule that strikes, what it is told of the request, and how it works on it."""

    rule: FaultRule
    context: FaultContext
    mechanism: Working
    on_skip: Callable[[], None]
    """Is told where it came to nothing, so that it does not count."""


class RequestFaults:
    """The rules that strike one request, in their order."""

    def __init__(self, routed: RoutedRequest, ordinal: int) -> None:
        self.call = routed
        self.ordinal = ordinal
        """How often this request has been asked in its session, with this time."""
        self._selected_rules: list[SelectedRule] = []
        self._finished_records: list[FaultRecord] = []
        self._rewriters: list[tuple[RuleRewriter, SelectedRule]] = []
        self._meter_callbacks: list[Callable[[ResponseHead, bytes], None]] = []

    def __bool__(self) -> bool:
        """Whether any rule strikes."""
        return bool(self._selected_rules)

    def add_rules(self, rules: Iterable[SelectedRule]) -> None:
        """Let these strike, too."""
        self._selected_rules += rules

    @property
    def records(self) -> tuple[FaultRecord, ...]:
        """What has come of it by now."""
        working = (
            rule_rewriter.record
            for rule_rewriter, _ in self._rewriters
            if not rule_rewriter.is_quiet
        )
        return (
            *self._finished_records,
            *(fault_record for fault_record in working if fault_record is not None),
        )

    def final_records(self) -> tuple[FaultRecord, ...]:
        """What has come of it in the end: of every rule that strikes."""
        for meant in self._selected_rules:
            if not (isinstance(meant.mechanism, Transform) and meant.mechanism.is_quiet):
                self._record_replacement(meant, "there was no answer")
        self._selected_rules = []
        for rewriter, meant in self._rewriters:
            rewriter.finish_broken_off()
            came_to_nothing = rewriter.record is not None and rewriter.record.skipped
            if came_to_nothing and not rewriter.is_quiet:  # which was never counted
                meant.on_skip()
        return self.records

    def replacement_response(self) -> Burst | None:
        """The answer that takes the place of the real one, where a rule has one."""
        answer: Burst | None = None
        left: list[SelectedRule] = []
        for meant in self._selected_rules:
            work = meant.mechanism
            if not isinstance(work, ReplaceResponse):
                left.append(meant)
            elif answer is not None:
                self._record_replacement(meant, "another fault has answered already")
            else:
                answer = self._make_replacement(meant, work)
        self._selected_rules = left
        return answer

    def abandon(self, why: str) -> None:
        """No rule has struck after all."""
        for rewriter, _ in self._rewriters:
            rewriter.abandon(why)

    def rewrite_burst(self, burst: Burst) -> Burst:
        """A whole answer as it goes out."""
        chain, _ = self.rewriter_chain()
        return rewrite_response(burst, chain)

    def rewriter_chain(self) -> tuple[RewriterChain, bool]:
        """What an answer goes through, and whether its length may come out otherwise."""
        rewriters: list[RuleRewriter] = []
        resizes = False
        for meant in self._selected_rules:
            work = meant.mechanism
            if isinstance(work, ReplaceResponse):  # a scenario's, beside another that has answered
                self._record_replacement(meant, "the answer had begun")
                continue
            rewriters.append(RuleRewriter(meant.rule, work, meant.context))
            self._rewriters.append((rewriters[-1], meant))
            if isinstance(work, Transform) and work.on_finished is not None:
                self._meter_callbacks.append(work.on_finished)
            resizes = resizes or rewriters[-1].changes_length
        self._selected_rules = []
        return RewriterChain(rewriters), resizes

    @property
    def has_meters(self) -> bool:
        """Whether any rule wants to know what goes out."""
        return bool(self._meter_callbacks)

    def report_to_meters(self, head: ResponseHead, body: bytes) -> None:
        """Tell them: this is what went out."""
        for afterwards in self._meter_callbacks:
            afterwards(head, body)

    def _make_replacement(self, meant: SelectedRule, work: ReplaceResponse) -> Burst | None:
        try:
            answer = work.make_response(meant.context)
        except (FaultNotApplicable, NotRepresentable) as why:
            self._record_replacement(meant, str(why))
            return None
        self._record_replacement(meant, "")
        is_bodiless = meant.context.request.request.method == "HEAD"
        return tuple(_head_only(answer)) if is_bodiless else answer

    def _record_replacement(self, meant: SelectedRule, why: str) -> None:
        kind = meant.rule.kind
        effect = meant.mechanism.effect or kind.effect
        self._finished_records.append(FaultRecord(meant.rule.text, kind.name, effect, skipped=why))
        if why:
            meant.on_skip()


def _head_only(answer: Burst) -> Iterable[Action]:
    for action in answer:
        match action:
            case Begin(head):
                yield Begin(replace(head, framing="none"))
            case Send():
                pass
            case _:
                yield action
