"""Rewrites the actions of a response by the rules that apply to it.

`BufferedBody`   the bytes of a body that are held or released, and where its messages end
`RuleRewriter`   one rule: the actions before its location, at it, and after it
`RewriterChain`  several rules, on a response that arrives bit by bit or is complete
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from llm_proxy import framing
from llm_proxy.actions import Abort, Action, Begin, Burst, Send, SendRaw, Wait
from llm_proxy.display import count_with_noun
from llm_proxy.exchange import Framing, ResponseHead
from llm_proxy.faults import framed_message_contents
from llm_proxy.faults.kind import (
    ALL_MESSAGES,
    STREAM_CODECS,
    ActionTransform,
    AfterBytes,
    AfterEvents,
    AtEnd,
    AtEvent,
    AtFraction,
    AtTime,
    FaultNotApplicable,
    OneShot,
    StreamLocation,
    StreamPosition,
    Transform,
)
from llm_proxy.faults.rule import AppliedRule

_EPSILON_MS: Final = 0.001
"""An action that is due at the same time as a fault precedes it."""
_MAX_REWRITTEN_ACTIONS: Final = 300_000
"""Actions that the rules of one response may rewrite, added up: some seconds of work."""
_MAX_ADDED_BYTES: Final = 64 * 1024 * 1024
"""Bytes by which the rules of one response may make its body longer: where each rule repeats what
the one before has repeated, the body grows exponentially."""
_FRAMING_DESCRIPTIONS: Final[Mapping[Framing, str]] = {
    "chunked": "a chunked body",
    "close": "a body that ends when the connection is closed",
    "length": "a body with a Content-Length",
    "none": "a response without a body",
}


class BufferedBody:
    """Holds the actions of a body until they are released.

    Offsets are in bytes from the beginning of the body.
    """

    def __init__(self, codec: str, *, keeps_messages: bool = True) -> None:
        """Without `keeps_messages`, each of `messages` is empty."""
        self._codec = framing.new_codec(codec)
        self._keeps_messages = keeps_messages
        self._held_actions: deque[Action] = deque()
        self._open_message = bytearray()
        """The bytes after the last complete message."""
        self.fed_bytes = 0
        """Bytes that were fed."""
        self.released_bytes = 0
        """Bytes that were released, to be sent or to be replaced."""
        self.messages: list[bytes] = []
        """The complete messages, released or not."""
        self.boundaries = [0]
        """The offsets between the messages: message n begins at the n-th, counted from 0."""

    def feed(self, action: Action) -> None:
        """Adds an action after those that are held."""
        self._held_actions.append(action)
        if isinstance(action, Send):
            self.fed_bytes += len(action.data)
            self._open_message += action.data
            self._complete_messages(self._codec.feed(action.data))

    def close(self) -> None:
        """Ends the body: the bytes that are left become its last message."""
        self._complete_messages(self._codec.close())

    def _complete_messages(self, messages: list[bytes]) -> None:
        """Moves these messages from the open one to the complete ones."""
        for message in messages:
            self.messages.append(message if self._keeps_messages else b"")
            self.boundaries.append(self.boundaries[-1] + len(message))
            del self._open_message[: len(message)]

    def release_until(self, end: int) -> list[Action]:
        """Releases the actions up to that offset; a `Wait` before the next byte stays held."""
        released: list[Action] = []
        pending_waits: list[Action] = []
        while self._held_actions and self.released_bytes < end:
            action = self._held_actions.popleft()
            if not isinstance(action, Send):
                pending_waits.append(action)
                continue
            remaining_bytes = end - self.released_bytes
            released_data, held_data = action.data[:remaining_bytes], action.data[remaining_bytes:]
            released += [*pending_waits, Send(released_data)]
            pending_waits = []
            self.released_bytes += len(released_data)
            if held_data:
                self._held_actions.appendleft(Send(held_data))
        self._held_actions.extendleft(reversed(pending_waits))
        return released

    def release_all(self) -> list[Action]:
        """Releases all actions that are held."""
        released = list(self._held_actions)
        self._held_actions.clear()
        self.released_bytes = self.fed_bytes
        return released

    @property
    def released_message_count(self) -> int:
        """How many messages were released completely."""
        return bisect_right(self.boundaries, self.released_bytes) - 1

    def released_prefix(self) -> bytes:
        """The released part of the message that is not released completely."""
        index = self.released_message_count
        message = self.messages[index] if index < len(self.messages) else self._open_message
        return bytes(message[: self.released_bytes - self.boundaries[index]])


class _Delay(ActionTransform):
    """Delays all actions."""

    def __init__(self, delay_ms: float) -> None:
        self._delay_ms = delay_ms

    def feed(self, action: Action) -> Burst:
        return (Wait(action.due + self._delay_ms) if isinstance(action, Wait) else action,)


class RuleRewriter:
    """Applies one rule to the actions of a response.

    `feed` it the actions, and `close` it at the clean end; feed nothing more once `is_over`.
    """

    def __init__(self, applied_rule: AppliedRule, mechanism: OneShot | Transform) -> None:
        self._applied_rule = applied_rule
        self._mechanism = mechanism
        self._context = applied_rule.context
        self._last_due_ms = 0.0
        self._head: ResponseHead | None = None
        self._codec = ""
        self._is_framing_checked = False
        """Whether the first bytes were checked, since the declared content type may be wrong."""
        self._body = BufferedBody("whole")
        self._location: StreamLocation | None = None
        """None before the head, and where the fault is not applicable."""
        self._compared_message_count = 0
        """Messages whose types were compared with the location's."""
        self._is_taking = False
        self._transform = ActionTransform()
        """What all actions pass after the injection."""
        self.total_bytes: int | None = None
        """The size of a body that is complete from the start; None for others."""
        self.is_over = False
        """Whether the rule has ended the response."""

    @property
    def changes_length(self) -> bool:
        """Whether the fault may change the body's length; then the declared length is adapted."""
        return isinstance(self._mechanism, OneShot) and self._mechanism.changes_length

    def _is_done(self) -> bool:
        return self._applied_rule.record is not None

    @property
    def trigger_at_ms(self) -> float | None:
        """When a rule located by time is due, even if no action arrives; None for other rules.

        In ms since the request was read in full.
        """
        location = self._applied_rule.rule.location
        if not isinstance(location, AtTime) or self._applied_rule.not_applicable_reason:
            return None
        return None if self._is_done() or self._is_taking else location.ms

    def tick(self, now_ms: float) -> list[Action]:
        """Injects the fault of a rule located by time, if it is due by now."""
        if self.trigger_at_ms is None or now_ms < self.trigger_at_ms:
            return []
        self._last_due_ms = self.trigger_at_ms
        return self._inject()

    def feed(self, action: Action) -> list[Action]:
        """The actions that replace this one."""
        if self.is_over:
            return []
        if self._is_done():
            return list(self._transform.feed(action))
        match action:
            case Wait(due):
                output = self.tick(due - _EPSILON_MS)
                if self._is_done():
                    return output + self.feed(action)
                if self._location is not None:
                    self._body.feed(action)
                    return output
                self._last_due_ms = due
                return [*output, action]
            case Begin(head):
                return self._feed_head(action, head)
            case Abort():
                return [*self._skip("the response was cut off before the fault's location"), action]
            case Send(data) if not self._is_framing_checked:
                return [*self._check_framing(data), *self.feed(action)]
            case Send() | SendRaw():
                self._body.feed(action)
                return self._release_to_location()

    def close(self) -> list[Action]:
        """The actions to add before the clean end."""
        if self._is_done():
            return list(self._transform.close())
        body = self._body
        body.close()
        output = self._release_to_location()
        if self._is_taking or isinstance(self._location, AtEnd):
            output += self._inject(is_complete=True)
        if self._is_done():
            return output
        match self._location:
            case AfterEvents():
                reason = f"the body contained only {count_with_noun(len(body.messages), 'event')}"
            case AfterBytes():
                reason = f"the body contained only {count_with_noun(body.fed_bytes, 'byte')}"
            case AtEvent(type=event_type):
                reason = f"the body contained no event of type {event_type}"
            case AtTime(ms):
                reason = f"the response ended before the fault's location ms={ms:g}"
            case _:
                reason = "there was no response"
        return output + self._skip(reason)

    def _feed_head(self, action: Begin, head: ResponseHead) -> list[Action]:
        mechanism, decoded_request = self._mechanism, self._context.decoded_request
        has_location = self._applied_rule.rule.location is not None
        if isinstance(mechanism, OneShot) and mechanism.may_precede_head and not has_location:
            return self._inject() + self.feed(action)
        self._head = head
        self._codec = (
            "whole"  # no messages can be read
            if framed_message_contents.content_coding(head)
            else decoded_request.dialect.codec_name(decoded_request.request, head)
        )
        output = self._start_locating(head)
        begins_with_head = isinstance(mechanism, Transform) and not has_location
        return [*(self._transform.feed(action) if begins_with_head else (action,)), *output]

    def _check_framing(self, first_bytes: bytes) -> list[Action]:
        """Locates again where the first bytes have another codec than the head declares."""
        output: list[Action] = []
        declared_codec = self._codec
        self._codec = framing.codec_name_for_body(declared_codec, first_bytes)
        self._is_framing_checked = True
        if self._head is not None and self._codec != declared_codec:
            self._applied_rule.not_applicable_reason = ""
            output = self._body.release_all() + self._start_locating(self._head)
        if reason := self._applied_rule.not_applicable_reason:
            self._applied_rule.set_record(skipped=reason)
        return output

    def _start_locating(self, head: ResponseHead) -> list[Action]:
        try:
            self._check_applicable(head)
            if isinstance(self._mechanism, Transform) and self._applied_rule.rule.location is None:
                return self._inject()
            self._location = self._resolve_location(head)
        except FaultNotApplicable as error:
            self._applied_rule.not_applicable_reason = str(error)
            return []
        is_at_end = isinstance(self._location, AtEnd)
        self._body = BufferedBody(self._codec, keeps_messages=not is_at_end)
        return self._release_to_location()

    def _check_applicable(self, head: ResponseHead) -> None:
        """Raises `FaultNotApplicable` where the fault is not applicable to such a body."""
        kind, mechanism, codec = self._applied_rule.rule.kind, self._mechanism, self._codec
        needs_messages = "whole" not in kind.allowed_codecs or (
            isinstance(mechanism, OneShot) and mechanism.taken_message_count
        )
        if needs_messages and (content_coding := framed_message_contents.content_coding(head)):
            raise FaultNotApplicable(f"the body is compressed with {content_coding}")
        body_description = ""
        if head.framing not in kind.allowed_framings:
            body_description = _FRAMING_DESCRIPTIONS[head.framing]
        elif codec not in kind.allowed_codecs:
            body_description = (
                "a body without events" if codec == "whole" else f"a body in the format {codec}"
            )
        if body_description:
            raise FaultNotApplicable(f"{kind.name} does not apply to {body_description}")
        if isinstance(mechanism, OneShot) and mechanism.check_applicable is not None:
            mechanism.check_applicable(self._take_messages(0)[0])

    def _resolve_location(self, head: ResponseHead) -> StreamLocation:
        """The location to search for in this body.

        The default is after the first message; in a whole body, half of its bytes, or its beginning
        for a fault that takes messages.  A fault that takes all messages begins before the first.
        Raises `FaultNotApplicable` where the location does not exist in such a body.
        """
        location, taken_message_count = self._applied_rule.rule.location, 0
        if isinstance(self._mechanism, OneShot):
            location = location or self._mechanism.default_location
            taken_message_count = self._mechanism.taken_message_count
        total_bytes = head.content_length if self.total_bytes is None else self.total_bytes
        is_stream = self._codec in STREAM_CODECS
        match location:
            case None if taken_message_count:
                return AfterEvents(1 if is_stream and taken_message_count != ALL_MESSAGES else 0)
            case None if is_stream:
                return AfterEvents(1)
            case None:
                return AfterBytes(1 if total_bytes is None else total_bytes // 2)
            case AtFraction(share):
                if total_bytes is None:
                    raise FaultNotApplicable("fraction= requires a known body length")
                return AfterBytes(round(total_bytes * share))
            case AfterEvents() | AtEvent() if location != AfterEvents(0) and not is_stream:
                raise FaultNotApplicable("the body contains no events")
            case _:
                return location

    def _release_to_location(self) -> list[Action]:
        """Releases what precedes the location, and injects the fault where that is reached."""
        if self._is_taking:
            return self._inject()
        offset, is_found = self._locate()
        releases_all = offset == self._body.fed_bytes and not is_found
        released = self._body.release_all() if releases_all else self._body.release_until(offset)
        for action in released:
            if isinstance(action, Wait):
                self._last_due_ms = action.due
        return released + self._inject() if is_found else released

    def _locate(self) -> tuple[int, bool]:
        """How many bytes precede the location for certain, and whether it is right after them."""
        body = self._body
        match self._location:
            case AfterEvents(events) if events < len(body.boundaries):
                return max(body.boundaries[events], body.released_bytes), True
            case AfterBytes(size) if size <= body.fed_bytes:
                return size, True
            case AtEvent(type=event_type):
                assert self._head is not None  # noqa: S101 # it is located after the head
                for message in body.messages[self._compared_message_count :]:
                    if event_type in framed_message_contents.event_types(
                        self._context.decoded_request.dialect, self._head, self._codec, message
                    ):
                        return body.boundaries[self._compared_message_count], True
                    self._compared_message_count += 1
                return body.boundaries[-1], False
            case _:
                return body.fed_bytes, False

    def _inject(self, *, is_complete: bool = False) -> list[Action]:
        """Injects the fault, as soon as the messages that it takes are there, or all are."""
        mechanism, body, begin_ms = self._mechanism, self._body, self._last_due_ms
        if isinstance(mechanism, Transform):
            position, _ = self._take_messages(0)
            try:
                self._transform = mechanism.make_transform(position)
            except FaultNotApplicable as error:
                return self._skip(str(error))
            self._record_injection(position)
            return self._release_transformed()
        available_count = len(body.messages) - body.released_message_count
        if not is_complete and available_count < mechanism.taken_message_count:
            self._is_taking = True
            return []
        if mechanism.taken_message_count and not available_count:
            return self._skip(
                "no event followed the fault's location" if body.fed_bytes else "the body is empty"
            )
        is_at_end = self._head is not None and body.released_bytes == self.total_bytes
        if mechanism.only_truncates and is_at_end:
            return self._skip("nothing followed the fault's location")
        position, taken_actions = self._take_messages(mechanism.taken_message_count)
        try:
            injected = mechanism.make_injected_actions(position)
        except FaultNotApplicable as error:
            return taken_actions + self._skip(str(error))
        self._record_injection(position)
        output = list(injected.actions)
        if position.at_ms > begin_ms and not (output and isinstance(output[0], Wait)):
            output.insert(0, Wait(position.at_ms))
        if injected.ends_response:
            self.is_over = True
            return output
        if injected.delay_ms > 0:
            self._transform = _Delay(injected.delay_ms)
            output.append(Wait(position.at_ms + injected.delay_ms))
        return output + self._release_transformed()

    def _take_messages(self, max_count: int) -> tuple[StreamPosition, list[Action]]:
        """The state of the response when so many messages are taken, and the actions with them."""
        body, index = self._body, self._body.released_message_count
        sent_prefix, sent_bytes = body.released_prefix(), body.released_bytes
        messages = body.messages[index : index + max_count]
        ends = body.boundaries[index + 1 : index + 1 + len(messages)]
        actions = body.release_until(ends[-1]) if ends else []
        send_ends, send_times_ms = [sent_bytes], [self._last_due_ms]
        for action in actions:
            if isinstance(action, Wait):
                self._last_due_ms = action.due
            elif isinstance(action, Send):
                send_ends.append(send_ends[-1] + len(action.data))
                send_times_ms.append(self._last_due_ms)
        position = StreamPosition(
            self._context,
            self._last_due_ms,
            self._head,
            self._codec,
            tuple(body.messages[:index]),
            sent_prefix,
            tuple(messages),
            tuple(send_times_ms[bisect_left(send_ends, end)] for end in ends),
            sent_bytes,
        )
        return position, actions

    def _release_transformed(self) -> list[Action]:
        """Releases all actions that are held, through the transform."""
        return list(chain.from_iterable(map(self._transform.feed, self._body.release_all())))

    def _skip(self, reason: str) -> list[Action]:
        """Records the fault as skipped; returns all actions that are held."""
        self._applied_rule.set_record(skipped=reason)
        self._is_taking = False
        return self._body.release_all()

    def _record_injection(self, position: StreamPosition) -> None:
        self._is_taking = False
        self._applied_rule.set_record(
            at_ms=round(next(iter(position.taken_due_times_ms), position.at_ms), 3),
            event=None if position.head is None else len(position.sent_messages),
            byte=None if position.head is None else position.sent_body_byte_count,
        )


class RewritingTooExpensive(Exception):
    """The rules of one response together rewrite too many actions, or add too many bytes."""

    def __init__(self) -> None:
        super().__init__(
            "the fault rules change too many writes of the response, or add too many bytes"
        )


class RewriterChain:
    """Applies rules to the actions of a response; each rule gets the output of the one before."""

    def __init__(self, rewriters: Sequence[RuleRewriter]) -> None:
        self.rewriters = tuple(rewriters)
        self.is_over = False
        """Whether a rule has ended the response: no further action of its source is needed."""
        self._changes_length = any(rewriter.changes_length for rewriter in rewriters)
        self._rewritten_count = 0
        self._added_bytes = 0

    @property
    def next_trigger_ms(self) -> float | None:
        """When the next rule located by time is due, even if no action arrives; None without one.

        In ms since the request was read in full.
        """
        trigger_times_ms = [rewriter.trigger_at_ms for rewriter in self.rewriters]
        return min((time_ms for time_ms in trigger_times_ms if time_ms is not None), default=None)

    def feed(self, actions: Sequence[Action]) -> list[Action]:
        """The actions that replace these.  Raises `RewritingTooExpensive`.

        A declared length that may change is left out: then the body is chunked.
        """
        output: list[Action] = []
        for action in actions:
            passed = self._pass_on([action])
            if self._changes_length and isinstance(action, Begin):
                passed = list(map(_without_length, passed))
            output += passed
            if self.is_over:
                break
        return output

    def tick(self, now_ms: float) -> list[Action]:
        """The actions of rules that are due by now.  Raises `RewritingTooExpensive`."""
        output: list[Action] = []
        for index, rewriter in enumerate(self.rewriters, 1):
            ticked = rewriter.tick(now_ms)
            output += self._pass_on(ticked, index, is_end=rewriter.is_over)
            if self.is_over:
                break
        return output

    def close(self) -> list[Action]:
        """The actions to add before the clean end.  Raises `RewritingTooExpensive`."""
        return [] if self.is_over else self._pass_on([], is_end=True)

    def rewrite_response(self, burst: Burst) -> Burst:
        """The actions that replace a complete response.  Raises `RewritingTooExpensive`.

        The declared length is adapted for rules whose `changes_length` is set.
        """
        return tuple(self._pass_on(list(burst), is_end=True, is_whole=True))

    def _pass_on(
        self,
        actions: list[Action],
        first_index: int = 0,
        *,
        is_end: bool = False,
        is_whole: bool = False,
    ) -> list[Action]:
        """Passes actions through the rules from one on; closes them where the response ends.

        With `is_whole` the actions are the complete response.
        """
        for rewriter in self.rewriters[first_index:]:
            self._rewritten_count += len(actions)
            if self._rewritten_count > _MAX_REWRITTEN_ACTIONS:
                raise RewritingTooExpensive
            body_bytes = _body_byte_count(actions)
            if is_whole:
                rewriter.total_bytes = body_bytes
            output = list(chain.from_iterable(map(rewriter.feed, actions)))
            if is_end and not _ends_in_abort(actions):
                output += rewriter.close()
            added_bytes = _body_byte_count(output) - body_bytes
            self._added_bytes += added_bytes
            if self._added_bytes > _MAX_ADDED_BYTES:
                raise RewritingTooExpensive
            if is_whole and rewriter.changes_length and not _ends_in_abort(output):
                output = [_with_longer_body(action, added_bytes) for action in output]
            is_end = is_end or rewriter.is_over
            actions = output
        self.is_over = is_end
        return actions


def _ends_in_abort(actions: Sequence[Action]) -> bool:
    return bool(actions) and isinstance(actions[-1], Abort)


def _body_byte_count(actions: Sequence[Action]) -> int:
    return sum(len(action.data) for action in actions if isinstance(action, Send))


def _without_length(action: Action) -> Action:
    if isinstance(action, Begin) and action.head.framing == "length":
        return Begin(replace(action.head, framing="chunked", content_length=None))
    return action


def _with_longer_body(action: Action, added_bytes: int) -> Action:
    match action:
        case Begin(ResponseHead(framing="length", content_length=int(length)) as head):
            return Begin(replace(head, content_length=length + added_bytes))
        case _:
            return action
