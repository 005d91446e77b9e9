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
from llm_proxy.faults.location import AtTime, StreamLocation
from llm_proxy.faults.rewriting import applicability, event_types
from llm_proxy.faults.rewriting.buffered_body import BufferedBody, offset_due_times_ms
from llm_proxy.faults.rewriting.locator import StreamLocator, resolve_location
from llm_proxy.faults.rule import FaultRule
from llm_proxy.framing import codec_name_for_body

_EPSILON_MS: Final = 0.001
"""An action that is due at the same time as a fault precedes it."""


class RuleRewriter:
    """Applies one rule to the actions of a response.

    `feed` it the actions, and `close` it at the clean end; feed nothing more once `is_over`.
    """

    def __init__(
        self, rule: FaultRule, mechanism: OneShot | Transform, context: FaultContext
    ) -> None:
        self._rule = rule
        self._mechanism = mechanism
        self._context = context
        self._total_bytes: int | None = None
        self._last_due_ms = 0.0
        self._inserted_delay_ms = 0.0
        self._head: ResponseHead | None = None
        self._codec = ""
        self._is_framing_checked = False
        """Whether the first bytes were checked, since the declared content type may be wrong."""
        self._not_applicable_reason = ""
        """Why the fault is not applicable to a body of the declared codec; empty where it is."""
        self._body = BufferedBody("whole")
        self._locator: StreamLocator | None = None
        self._is_taking = False
        self._taken_actions: list[Action] = []
        """The actions that contain the messages taken, to be sent where the injection fails."""
        self._transform: ActionTransform | None = None
        self.is_over = False
        """Whether the rule has ended the response."""
        self.record: FaultRecord | None = None
        """None until the fault is injected or skipped."""

    def set_total_bytes(self, total_bytes: int) -> None:
        """Sets the size of a body that is complete from the start."""
        self._total_bytes = total_bytes

    @property
    def changes_length(self) -> bool:
        """Whether the fault may change the body's length; then the declared length is adapted."""
        return self._mechanism.changes_length

    @property
    def is_harmless(self) -> bool:
        """Whether the fault breaks nothing, and is not recorded."""
        return isinstance(self._mechanism, Transform) and self._mechanism.is_harmless

    @property
    def trigger_at_ms(self) -> float | None:
        """When a rule located by time is due, even if no action arrives; None for other rules.

        In ms since the request was read in full.
        """
        location = self._rule.location
        is_pending = not (
            self.record or self._is_taking or self.is_over or self._not_applicable_reason
        )
        return location.ms if is_pending and isinstance(location, AtTime) else None

    def tick(self, now_ms: float) -> list[Action]:
        """Injects the fault of a rule located by time, if it is due by now."""
        if self.trigger_at_ms is None or now_ms < self.trigger_at_ms:
            return []
        self._last_due_ms = self.trigger_at_ms + self._inserted_delay_ms
        return self._start_injection()

    def feed(self, action: Action) -> list[Action]:
        """The actions that replace this one."""
        if self.is_over:
            return []
        if self.record is not None:
            return self._pass_after_injection(action)
        match action:
            case Wait(due):
                return [*self.tick(due - _EPSILON_MS), *self._hold_or_pass_wait(action)]
            case Begin(head):
                return self._rewrite_head_action(action, head)
            case Abort():
                return [*self._release_all_and_skip("the answer broke off before it"), action]
            case Send(data) if not self._is_framing_checked:
                return [*self._recheck_framing(data), *self.feed(action)]
            case Send() | SendRaw():
                self._body.feed(action)
                return self._release_to_location()

    def close(self) -> list[Action]:
        """The actions to add before the clean end."""
        if self._transform is not None and not self.is_over:
            return list(self._transform.close())
        if self.is_over or self.record is not None:
            return []
        self._body.close()
        output = self._release_to_location()
        if self._is_taking:
            output += self._inject_one_shot(len(self._body.message_ends))
        if self.record is None:
            output += self._release_all_and_skip(
                self._locator.not_found_reason() if self._locator else "there was no answer"
            )
        return output

    def mark_skipped(self, reason: str) -> None:
        """Records the fault as skipped, even if it was injected."""
        self._record_skip(reason)

    def mark_ended_early(self) -> None:
        """Records the fault as skipped if it is still open: the response ended before it."""
        if self.record is None:
            self._record_skip("the answer was over before it")

    def _hold_or_pass_wait(self, action: Wait) -> list[Action]:
        if self.is_over or self.record is not None:
            return self.feed(action)
        if self._locator is None:
            self._last_due_ms = action.due
            return [action]
        self._body.feed(action)
        return []

    def _rewrite_head_action(self, action: Begin, head: ResponseHead) -> list[Action]:
        mechanism = self._mechanism
        if (
            isinstance(mechanism, OneShot)
            and mechanism.may_precede_head
            and self._rule.location is None
        ):
            output = self._inject_one_shot(0)
            return output if self.is_over else [*output, action]
        self._head = head
        self._codec = applicability.readable_codec(self._context.decoded_request, head)
        return self._start_locating(action, head)

    def _recheck_framing(self, first_bytes: bytes) -> list[Action]:
        """Locates again where the first bytes have another codec than the head declares."""
        output: list[Action] = []
        declared_codec, self._codec = self._codec, codec_name_for_body(self._codec, first_bytes)
        self._is_framing_checked = True
        if self._head is not None and self._codec != declared_codec:
            self._not_applicable_reason = ""
            output = [*self._body.release_all(), *self._start_locating(None, self._head)]
        if self._not_applicable_reason:
            self._record_skip(self._not_applicable_reason)
        return output

    def _start_locating(self, begin: Begin | None, head: ResponseHead) -> list[Action]:
        mechanism = self._mechanism
        total_bytes = self._total_bytes if self._total_bytes is not None else head.content_length
        head_actions: list[Action] = [] if begin is None else [begin]
        try:
            applicability.check_applicable(self._rule.kind, mechanism, head, self._codec)
            if isinstance(mechanism, Transform) and self._rule.location is None:
                return self._start_transform(begin)
            taken_message_count, default_location = (
                (mechanism.taken_message_count, mechanism.default_location)
                if isinstance(mechanism, OneShot)
                else (0, None)
            )
            if isinstance(mechanism, OneShot) and mechanism.check_applicable is not None:
                mechanism.check_applicable(self._build_stream_position(0))
            location: StreamLocation = resolve_location(
                self._rule.location or default_location,
                self._codec,
                total_bytes,
                taken_message_count,
            )
        except FaultNotApplicable as error:
            self._not_applicable_reason = str(error)
            return head_actions
        self._body = BufferedBody(self._codec)
        self._locator = StreamLocator(location, self._body, self._event_types)
        return [*head_actions, *self._release_to_location()]

    def _event_types(self, message: bytes) -> frozenset[str]:
        assert self._head is not None  # noqa: S101 # there is no message before the head
        return event_types.event_types(
            self._context.decoded_request.dialect, self._head, self._codec, message
        )

    def _release_to_location(self) -> list[Action]:
        """Releases what precedes the location, and injects the fault where that is reached."""
        if self._locator is None:
            return self._track_due_time(self._body.release_all())
        if self._is_taking:
            return self._inject_if_complete()
        locator_state = self._locator.locate()
        if not locator_state.is_found and locator_state.safe_offset == self._body.fed_bytes:
            return self._track_due_time(self._body.release_all())
        released = self._track_due_time(self._body.release_until(locator_state.safe_offset))
        return released + self._start_injection() if locator_state.is_found else released

    def _track_due_time(self, actions: list[Action]) -> list[Action]:
        for action in actions:
            if isinstance(action, Wait):
                self._last_due_ms = action.due
        return actions

    def _start_injection(self) -> list[Action]:
        mechanism = self._mechanism
        if isinstance(mechanism, Transform):
            return self._start_transform(None)
        if mechanism.taken_message_count:
            self._is_taking = True
            return self._inject_if_complete()
        return self._inject_one_shot(0)

    def _inject_if_complete(self) -> list[Action]:
        needed_count = (
            self._mechanism.taken_message_count if isinstance(self._mechanism, OneShot) else 0
        )
        return (
            self._inject_one_shot(needed_count)
            if self._available_message_count() >= needed_count
            else []
        )

    def _available_message_count(self) -> int:
        return len(self._body.messages) - self._body.released_message_count()

    def _build_stream_position(self, taken_message_count: int) -> StreamPosition:
        body = self._body
        sent_message_count, sent_body_bytes, partial_message = (
            body.released_message_count(),
            body.released_bytes,
            body.released_message_prefix(),
        )
        taken_messages = tuple(
            body.messages[sent_message_count : sent_message_count + taken_message_count]
        )
        sent_messages = tuple(body.messages[:sent_message_count])
        message_ends = body.message_ends[
            sent_message_count : sent_message_count + len(taken_messages)
        ]
        self._taken_actions = body.release_until(message_ends[-1]) if message_ends else []
        due_times = offset_due_times_ms(
            self._taken_actions, [end - sent_body_bytes for end in message_ends], self._last_due_ms
        )
        self._track_due_time(self._taken_actions)
        return StreamPosition(
            self._context,
            self._last_due_ms,
            self._head,
            self._codec,
            sent_messages,
            partial_message,
            taken_messages,
            due_times,
            sent_body_bytes,
        )

    def _inject_one_shot(self, taken_message_count: int) -> list[Action]:
        mechanism = self._mechanism
        assert isinstance(mechanism, OneShot)  # noqa: S101 # not called for a transform
        if mechanism.taken_message_count and not self._available_message_count():
            is_empty = not self._body.fed_bytes
            return self._release_all_and_skip(
                "the body is empty" if is_empty else "there was no message behind it"
            )
        if (
            mechanism.only_truncates
            and self._head is not None
            and self._body.released_bytes == self._total_bytes
        ):
            return self._release_all_and_skip("there was nothing behind it")
        last_due_ms = self._last_due_ms
        position = self._build_stream_position(taken_message_count)
        try:
            injected = mechanism.make_injected_actions(position)
        except FaultNotApplicable as error:
            self._record_skip(str(error))
            return [*self._taken_actions, *self._body.release_all()]
        self._record_injection(position)
        self._is_taking = False
        needs_wait = position.at_ms > last_due_ms and not injected.has_own_timing
        waits: list[Action] = [Wait(position.at_ms)] if needs_wait else []
        return [*waits, *self._emit_injection(injected, position)]

    def _emit_injection(self, injected: InjectedActions, position: StreamPosition) -> list[Action]:
        output = list(injected.actions)
        if injected.ends_response:
            self.is_over = True
            return output
        if injected.delay_ms > 0:
            self._inserted_delay_ms += injected.delay_ms
            output.append(Wait(position.at_ms + injected.delay_ms))
        return output + [
            action
            for held in self._body.release_all()
            for action in self._pass_after_injection(held)
        ]

    def _start_transform(self, begin: Begin | None) -> list[Action]:
        mechanism = self._mechanism
        assert isinstance(mechanism, Transform)  # noqa: S101 # not called for a one-shot
        position = self._build_stream_position(0)
        try:
            self._transform = mechanism.make_transform(position)
        except FaultNotApplicable as error:
            self._record_skip(str(error))
            return [begin] if begin is not None else self._body.release_all()
        self._record_injection(position)
        held_actions = [begin] if begin is not None else self._body.release_all()
        return [
            output_action
            for action in held_actions
            for output_action in self._pass_after_injection(action)
        ]

    def _pass_after_injection(self, action: Action) -> list[Action]:
        if self._transform is not None:
            return list(self._transform.feed(action))
        if isinstance(action, Wait) and self._inserted_delay_ms:
            return [replace(action, due=action.due + self._inserted_delay_ms)]
        return [action]

    def _release_all_and_skip(self, reason: str) -> list[Action]:
        self._record_skip(reason)
        return self._body.release_all()

    def _record_skip(self, reason: str) -> None:
        kind, reason = self._rule.kind, self._not_applicable_reason or reason
        self._is_taking = False
        self.record = FaultRecord(
            self._rule.text, kind.name, self._mechanism.effect or kind.effect, skipped=reason
        )

    def _record_injection(self, position: StreamPosition) -> None:
        kind = self._rule.kind
        has_head = position.head is not None
        self.record = FaultRecord(
            self._rule.text,
            kind.name,
            self._mechanism.effect or kind.effect,
            round(
                position.taken_due_times_ms[0] if position.taken_due_times_ms else position.at_ms, 3
            ),
            len(position.sent_messages) if has_head else None,
            position.sent_body_byte_count if has_head else None,
        )
