"""Applies one rule to one response."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.actions import Abort, Action, Begin, Send, SendRaw, Wait
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.fault_record import FaultRecord
from llm_proxy.faults.kind import (
    ActionTransform,
    FaultContext,
    FaultNotApplicable,
    InjectedActions,
    OneShot,
    StreamPosition,
    Transform,
)
from llm_proxy.faults.location import AtTime, Place
from llm_proxy.faults.rewriting import applicability, event_types
from llm_proxy.faults.rewriting.buffered_body import BufferedBody, due_times_of
from llm_proxy.faults.rewriting.locator import StreamLocator, resolve_location
from llm_proxy.faults.rule import FaultRule
from llm_proxy.framing import codec_of_bytes

_STRICTLY: Final = 0.001
"""ms: what is due at the moment of a fault comes before it."""


class RuleRewriter:
    """What one rule makes of the actions of an answer.

    `feed` it the actions, `close` it at the clean end; after `over` it wants no more.
    """

    def __init__(self, rule: FaultRule, work: OneShot | Transform, context: FaultContext) -> None:
        self._rule = rule
        self._mechanism = work
        self._context = context
        self._total: int | None = None
        self._offset_ms = 0.0
        self._inserted_delay_ms = 0.0
        self._head: ResponseHead | None = None
        self._codec = ""
        self._is_framing_checked = False
        """Whether the first bytes were looked at, for labels lie."""
        self._not_applicable_reason = ""
        """Why the rule has no meaning in a body of the framing that the label says."""
        self._body = BufferedBody("whole")
        self._locator: StreamLocator | None = None
        self._take_count = False
        self._output: list[Action] = []
        """What was taken out, as it came."""
        self._transform: ActionTransform | None = None
        self.is_over = False
        """Whether the answer has ended by it."""
        self.record: FaultRecord | None = None
        """What became of it; None as long as that is open."""

    def set_total_size(self, total: int) -> None:
        """The body has so many bytes: all of it is there."""
        self._total = total

    @property
    def changes_length(self) -> bool:
        """Whether a body may have another length by it than was declared, and be right."""
        return self._mechanism.changes_length

    @property
    def is_quiet(self) -> bool:
        """Whether nothing goes wrong by it."""
        return isinstance(self._mechanism, Transform) and self._mechanism.is_quiet

    @property
    def alarm_ms(self) -> float | None:
        """The moment, in ms, at which it strikes whether anything comes or not."""
        place = self._rule.location
        waits = not (self.record or self._take_count or self.is_over or self._not_applicable_reason)
        return place.ms if waits and isinstance(place, AtTime) else None

    def tick(self, ms: float) -> list[Action]:
        """It is that late: strike, if that is the moment."""
        if self.alarm_ms is None or ms < self.alarm_ms:
            return []
        self._offset_ms = self.alarm_ms + self._inserted_delay_ms
        return self._is_reached()

    def feed(self, action: Action) -> list[Action]:
        """What goes out for this action."""
        if self.is_over:
            return []
        if self.record is not None:
            return self._pass_after_injection(action)
        match action:
            case Wait(due):
                return [*self.tick(due - _STRICTLY), *self._handle_wait(action)]
            case Begin(head):
                return self._handle_begin(action, head)
            case Abort():
                return [*self._release_all_and_skip("the answer broke off before it"), action]
            case Send(data) if not self._is_framing_checked:
                return [*self._recheck_framing(data), *self.feed(action)]
            case Send() | SendRaw():
                self._body.feed(action)
                return self._release_up_to_location()

    def close(self) -> list[Action]:
        """What goes out before the clean end."""
        if self._transform is not None and not self.is_over:
            return list(self._transform.close())
        if self.is_over or self.record is not None:
            return []
        self._body.close()
        gone = self._release_up_to_location()
        if self._take_count:
            gone += self._inject_at(len(self._body.message_ends))
        if self.record is None:
            gone += self._release_all_and_skip(
                self._locator.not_found_reason() if self._locator else "there was no answer"
            )
        return gone

    def abandon(self, why: str) -> None:
        """It has not struck after all, whatever it had done by now."""
        self._record_skip(why)

    def finish_broken_off(self) -> None:
        """Nothing more comes, and it was no clean end."""
        if self.record is None:
            self._record_skip("the answer was over before it")

    def _handle_wait(self, action: Wait) -> list[Action]:
        if self.is_over or self.record is not None:
            return self.feed(action)
        if self._locator is None:
            self._offset_ms = action.due
            return [action]
        self._body.feed(action)
        return []

    def _handle_begin(self, action: Begin, head: ResponseHead) -> list[Action]:
        work = self._mechanism
        if isinstance(work, OneShot) and work.may_precede_head and self._rule.location is None:
            gone = self._inject_at(0)
            return gone if self.is_over else [*gone, action]
        self._head = head
        self._codec = applicability.visible_codec(self._context.request, head)
        return self._locate(action, head)

    def _recheck_framing(self, start: bytes) -> list[Action]:
        """Aim anew where the first bytes are of another framing than the label says."""
        gone: list[Action] = []
        label, self._codec = self._codec, codec_of_bytes(self._codec, start)
        self._is_framing_checked = True
        if self._head is not None and self._codec != label:
            self._not_applicable_reason = ""
            gone = [*self._body.release_all(), *self._locate(None, self._head)]
        if self._not_applicable_reason:
            self._record_skip(self._not_applicable_reason)
        return gone

    def _locate(self, begin: Begin | None, head: ResponseHead) -> list[Action]:
        work = self._mechanism
        total = self._total if self._total is not None else head.length
        ahead: list[Action] = [] if begin is None else [begin]
        try:
            applicability.check_applicable(self._rule.kind, work, head, self._codec)
            if isinstance(work, Transform) and self._rule.location is None:
                return self._start_transform(begin)
            takes, usual = (
                (work.taken_count, work.default_location)
                if isinstance(work, OneShot)
                else (0, None)
            )
            if isinstance(work, OneShot) and work.check is not None:
                work.check(self._position(0))
            place: Place = resolve_location(self._rule.location or usual, self._codec, total, takes)
        except FaultNotApplicable as why:
            self._not_applicable_reason = str(why)
            return ahead
        self._body = BufferedBody(self._codec)
        self._locator = StreamLocator(place, self._body, self._message_types)
        return [*ahead, *self._release_up_to_location()]

    def _message_types(self, message: bytes) -> frozenset[str]:
        assert self._head is not None  # noqa: S101 # there is no message before the head
        return event_types.event_types(
            self._context.request.dialect, self._head, self._codec, message
        )

    def _release_up_to_location(self) -> list[Action]:
        """Let go of what lies before the place, and strike where that is reached."""
        if self._locator is None:
            return self._release(self._body.release_all())
        if self._take_count:
            return self._inject_if_complete()
        spot = self._locator.locate()
        if not spot.found_offset and spot.safe_offset == self._body.fed_size:
            return self._release(self._body.release_all())
        gone = self._release(self._body.release_until(spot.safe_offset))
        return gone + self._is_reached() if spot.found_offset else gone

    def _release(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            if isinstance(action, Wait):
                self._offset_ms = action.due
        return actions

    def _is_reached(self) -> list[Action]:
        work = self._mechanism
        if isinstance(work, Transform):
            return self._start_transform(None)
        if work.taken_count:
            self._take_count = True
            return self._inject_if_complete()
        return self._inject_at(0)

    def _inject_if_complete(self) -> list[Action]:
        takes = self._mechanism.taken_count if isinstance(self._mechanism, OneShot) else 0
        return self._inject_at(takes) if self._available_message_count() >= takes else []

    def _available_message_count(self) -> int:
        return len(self._body.messages) - self._body.complete_message_count()

    def _position(self, takes: int) -> StreamPosition:
        body = self._body
        whole, size, begun = (
            body.complete_message_count(),
            body.released_size,
            body.partial_message_sent(),
        )
        taken = tuple(body.messages[whole : whole + takes])
        before = tuple(body.messages[:whole])
        ends = body.message_ends[whole : whole + len(taken)]
        self._output = body.release_until(ends[-1]) if ends else []
        dues = due_times_of(self._output, [end - size for end in ends], self._offset_ms)
        self._release(self._output)
        return StreamPosition(
            self._context,
            self._offset_ms,
            self._head,
            self._codec,
            before,
            begun,
            taken,
            dues,
            size,
        )

    def _inject_at(self, takes: int) -> list[Action]:
        work = self._mechanism
        assert isinstance(work, OneShot)  # noqa: S101 # a bend does not strike
        if work.taken_count and not self._available_message_count():
            is_empty = not self._body.fed_size
            return self._release_all_and_skip(
                "the body is empty" if is_empty else "there was no message behind it"
            )
        if work.cuts_stream and self._head is not None and self._body.released_size == self._total:
            return self._release_all_and_skip("there was nothing behind it")
        before = self._offset_ms
        position = self._position(takes)
        try:
            struck = work.inject(position)
        except FaultNotApplicable as why:
            self._record_skip(str(why))
            return [*self._output, *self._body.release_all()]
        self._record_injection(position)
        self._take_count = False
        is_late = position.at > before and not struck.is_timed
        late: list[Action] = [Wait(position.at)] if is_late else []
        return [*late, *self._emit_injection(struck, position)]

    def _emit_injection(self, struck: InjectedActions, position: StreamPosition) -> list[Action]:
        gone = list(struck.actions)
        if struck.ends_response:
            self.is_over = True
            return gone
        if struck.delay > 0:
            self._inserted_delay_ms += struck.delay
            gone.append(Wait(position.at + struck.delay))
        return gone + [
            action
            for held in self._body.release_all()
            for action in self._pass_after_injection(held)
        ]

    def _start_transform(self, begin: Begin | None) -> list[Action]:
        work = self._mechanism
        assert isinstance(work, Transform)  # noqa: S101 # a strike does not bend
        position = self._position(0)
        try:
            self._transform = work.make_transform(position)
        except FaultNotApplicable as why:
            self._record_skip(str(why))
            return [begin] if begin is not None else self._body.release_all()
        self._record_injection(position)
        ahead = [begin] if begin is not None else self._body.release_all()
        return [item for action in ahead for item in self._pass_after_injection(action)]

    def _pass_after_injection(self, action: Action) -> list[Action]:
        if self._transform is not None:
            return list(self._transform.feed(action))
        if isinstance(action, Wait) and self._inserted_delay_ms:
            return [replace(action, due=action.due + self._inserted_delay_ms)]
        return [action]

    def _release_all_and_skip(self, why: str) -> list[Action]:
        self._record_skip(why)
        return self._body.release_all()

    def _record_skip(self, why: str) -> None:
        kind, why = self._rule.kind, self._not_applicable_reason or why
        self._take_count = False
        self.record = FaultRecord(
            self._rule.text, kind.name, self._mechanism.effect or kind.effect, skipped=why
        )

    def _record_injection(self, position: StreamPosition) -> None:
        kind = self._rule.kind
        placed = position.head is not None
        self.record = FaultRecord(
            self._rule.text,
            kind.name,
            self._mechanism.effect or kind.effect,
            round(position.due_times[0] if position.due_times else position.at, 3),
            len(position.sent_before) if placed else None,
            position.body_size if placed else None,
        )
