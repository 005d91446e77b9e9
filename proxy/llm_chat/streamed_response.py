"""Decodes a response to events as its bytes arrive, and judges whether it is complete."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import chain
from typing import Final

from llm_chat.errors import ChatError
from llm_chat.events import (
    ErrorEvent,
    ProviderEvent,
    ReasoningEvent,
    ResponseEnd,
    ResponseReason,
    TextEvent,
    ToolCallStart,
    made_call_id,
)
from llm_proxy import framing, providers
from llm_proxy.dialects import Completeness, Dialect, DialectResponse, json_api
from llm_proxy.dialects.lenient_json import parse_json
from llm_proxy.exchange import Headers, Request, ResponseHead, header_value, retry_after_ms
from llm_proxy.framing import eventstream, sse
from llm_proxy.shell.content_decoders import (
    MAX_DECODED_BYTES,
    InvalidContentCoding,
    strip_content_coding,
)
from llm_proxy.turns import FinishReason, Part, Reasoning, Refusal, Text, ToolCall, Turn

_RETRIED_STATUSES: Final = frozenset((408, 409, 429))
_MAX_RETRY_AFTER_S: Final = 60.0
"""After a longer wait the request is not sent again, as by official SDKs."""
_MAX_ERROR_BYTES: Final = 1024 * 1024
"""The longest body of an error: more is not read."""
_MAX_CALLS: Final = 1000
"""The most tool calls of a response."""
_BLOCKED: Final = (FinishReason.CONTENT_FILTER, FinishReason.REFUSAL, FinishReason.ERROR)
_MAX_DETAIL_CHARS: Final = 2000
"""The part of a provider's error message that an error has."""
_MAX_MESSAGES: Final = 200_000
"""The most messages of a response."""


class InvalidResponse(ChatError):
    """A response that violates its format."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt at a request."""

    error: ErrorEvent
    is_temporary: bool = False
    """Whether the request may succeed if it is sent again."""
    retry_after_s: float | None = None
    """When the server wants it to be sent again; None if it names no time."""


class StreamedResponse:
    """One response: `begin` with its head, `feed` its bytes, and `end` it."""

    def __init__(
        self, dialect: Dialect, request: Request, *, skips_malformed_messages: bool = False
    ) -> None:
        self.progress = 0
        """Grows with the head and with all content, also that of a call that is incomplete."""
        self._dialect = dialect
        self._request = request
        self._skips_malformed_messages = skips_malformed_messages
        self._head: ResponseHead | None = None
        self._messages: list[bytes] = []
        self._byte_count = 0
        self._received_calls: set[tuple[str, str, str]] = set()
        """Id, name and arguments of each call so far, to ignore one that is sent again."""
        self._calls_by_wire_id: defaultdict[str, deque[ToolCall]] = defaultdict(deque)
        """The calls so far, with ids of their own, by the ids that the response has."""
        self._call_ids: set[str] = set()
        self._has_text = False
        self._judged_message_count = 0
        """The number of messages when `is_complete` was computed."""
        self._is_complete = False

    def begin(self, head: ResponseHead) -> None:
        """Take the head."""
        self.progress += 1
        self._head, _, self._content_decoder = strip_content_coding(head)
        self._codec = self._dialect.codec_name(self._request, head)
        self._splitter = framing.new_codec(self._codec)
        self._decoder = self._dialect.response_decoder(self._codec)

    @property
    def has_begun(self) -> bool:
        """Whether it has a head."""
        return self._head is not None

    @property
    def is_error(self) -> bool:
        """Whether the head has the status of an error."""
        return self._head is not None and not json_api.succeeded(self._head)

    @property
    def is_complete(self) -> bool:
        """Whether the bytes so far are a complete response."""
        if len(self._messages) > self._judged_message_count:
            self._judged_message_count = len(self._messages)
            self._is_complete = self._completeness.is_complete
        return self._is_complete

    def feed(self, data: bytes) -> Iterator[ProviderEvent]:
        """Take bytes and yield the events that they complete.  Raises `InvalidResponse`."""
        try:
            decoded = (
                [data] if self._content_decoder is None else self._content_decoder.decode(data)
            )
            for piece in decoded:
                self._byte_count += len(piece)
                if self._codec == "whole" and not self.is_error and piece.strip():
                    self.progress += 1
                limit = _MAX_ERROR_BYTES if self.is_error else MAX_DECODED_BYTES
                if self._byte_count > limit:
                    raise InvalidResponse(f"it has more than {limit} bytes")
                yield from self._events(self._splitter.feed(piece))
        except InvalidContentCoding as error:
            raise InvalidResponse(str(error)) from error

    def end(self, *, is_aborted: bool, ends_without_terminator: bool) -> Iterator[ProviderEvent]:
        """End the body and yield the last events."""
        yield from self._events(self._splitter.close(), are_cut=True)
        if self._codec == "whole":
            for piece in self._decoder.feed(self._response().body):
                yield from self._events_of_piece(piece)
        if not self._byte_count and not is_aborted:
            yield ErrorEvent("No response body", "NO_BODY")
            return
        turns = self._decoder.turns()
        turn = turns[0] if turns else Turn(())
        completeness = self._completeness
        is_incomplete = not (completeness.is_complete or ends_without_terminator)
        has_nothing = not (turn.parts or turn.finish or ends_without_terminator)
        if (failure := turn.failure) is not None:
            message = failure.message or "the provider reported an error"
            yield ErrorEvent(message, failure.code or failure.type or "PROVIDER_ERROR")
        elif not completeness.is_complete and is_aborted:
            message = "the connection was lost before the response was complete"
            yield ErrorEvent(message, "CONNECTION_LOST", completeness.reason)
        elif is_incomplete and self._codec != "whole":
            message = "the response ended before it was complete"
            yield ErrorEvent(message, "INCOMPLETE_RESPONSE", completeness.reason)
        elif is_incomplete or has_nothing or not turns:
            detail = completeness.reason if is_incomplete else "no content and no finish reason"
            yield ErrorEvent("the response is invalid", "INVALID_RESPONSE", detail)
        else:
            yield from self._last_events(turn)

    def failed_attempt(self) -> FailedAttempt:
        """The failure of a response whose status is an error."""
        assert self._head is not None  # noqa: S101 # `is_error` is true
        head = self._head
        self._messages += self._splitter.close()
        phrase = head.reason or _phrase(head.status)
        detail = json_api.decode_http_error(self._response()).message[:_MAX_DETAIL_CHARS]
        error = ErrorEvent(
            f"HTTP {head.status}: {phrase}",
            str(head.status),
            "" if detail == f"HTTP {head.status} {phrase}" else detail,
            refuses_tools=providers.refuses_tools(detail),
        )
        should_retry = header_value(head.headers, "x-should-retry")
        is_temporary = head.status in _RETRIED_STATUSES or head.status >= 500
        if should_retry in ("true", "false"):
            is_temporary = should_retry == "true"
        wait_s = _retry_after_s(head.headers)
        is_too_long = wait_s is not None and wait_s > _MAX_RETRY_AFTER_S
        may_retry = is_temporary and not is_too_long and not error.refuses_tools
        return FailedAttempt(error, may_retry, wait_s)

    def _response(self) -> DialectResponse:
        assert self._head is not None  # noqa: S101 # called after `begin`
        return DialectResponse(self._head, self._codec, self._messages)

    @property
    def _completeness(self) -> Completeness:
        return self._dialect.completeness(self._response())

    def _events(
        self, messages: Sequence[bytes], *, are_cut: bool = False
    ) -> Iterator[ProviderEvent]:
        """The events of messages; of those that the end of the body cuts, none is malformed."""
        if self._codec != "whole":
            messages = [message for message in messages if not message.isspace()]
        self._messages += messages
        if len(self._messages) > _MAX_MESSAGES:
            raise InvalidResponse(f"it has more than {_MAX_MESSAGES} messages")
        if self.is_error or self._codec == "whole":
            return
        must_be_json = not (are_cut or self._skips_malformed_messages)
        messages_without_pieces: list[bytes] = []
        for message in messages:
            if len(message) >= framing.MAX_MESSAGE_BYTES:  # the splitter has cut it
                limit = framing.MAX_MESSAGE_BYTES
                raise InvalidResponse(f"a message of its stream has more than {limit} bytes")
            pieces = self._decoder.feed(message)
            if not pieces:
                messages_without_pieces.append(message)
                if must_be_json and self._is_malformed(message):
                    kind = "an event" if self._codec == eventstream.CODEC_NAME else "JSON"
                    raise InvalidResponse(f"a message of its stream is not {kind}")
            for piece in pieces:
                yield from self._events_of_piece(piece)
        # Pieces of arguments are content too, but give no events.
        self.progress += len(messages_without_pieces) < len(messages) or any(
            self._dialect.output_chars(self._codec, message) for message in messages_without_pieces
        )

    def _is_malformed(self, message: bytes) -> bool:
        """Whether a message that must be JSON, or a frame with JSON, is not."""
        data: bytes | None = message
        if self._codec == "sse":
            data = sse.parse_event(message).data
        elif self._codec == eventstream.CODEC_NAME:
            if (frame := eventstream.parse_frame(message)) is None:
                return True
            data = frame.payload
        if data is None or not data.strip() or data.strip() == sse.DONE_DATA:
            return False
        try:
            parse_json(data)
        except ValueError:
            return True
        return False

    def _events_of_piece(self, piece: Part) -> Iterator[ProviderEvent]:
        match piece:
            case Text(text=text) | Refusal(text=text):
                self._has_text = True
                yield TextEvent(text)
            case Reasoning(text=text):
                yield ReasoningEvent(text)
            case ToolCall():
                yield from self._call_event(piece)
            case _:
                pass

    def _call_event(self, wire_call: ToolCall) -> Iterator[ToolCallStart]:
        """The event of a call, with an id that is unique; none for a call that is sent again."""
        if len(self._call_ids) == _MAX_CALLS:
            raise InvalidResponse(f"it has more than {_MAX_CALLS} tool calls")
        identity = (wire_call.id, wire_call.name, wire_call.arguments)
        if wire_call.id and identity in self._received_calls:
            return
        call = wire_call
        if not call.id or call.id in self._call_ids:
            seed = b"%d %b" % (len(self._call_ids), self._request.body)
            call = replace(call, id=made_call_id(seed))
        self._received_calls.add(identity)
        self._call_ids.add(call.id)
        self._calls_by_wire_id[wire_call.id].append(call)
        yield ToolCallStart(call)

    def _last_events(self, turn: Turn) -> Iterator[ProviderEvent]:
        """The calls and the text that no event had, and the end of the response."""
        if not self._has_text and turn.text:
            yield from self._events_of_piece(Text(turn.text))
        parts: list[Part] = []
        for part in turn.parts:
            if not json_api.is_client_call(part):
                parts.append(part)
                continue
            if not self._calls_by_wire_id[part.id]:
                yield from self._call_event(part)
            if calls := self._calls_by_wire_id[part.id]:
                parts.append(replace(part, id=calls.popleft().id))
        # A result without its call would be refused.
        parts += chain.from_iterable(self._calls_by_wire_id.values())
        is_cut_off = turn.finish in (FinishReason.LENGTH, FinishReason.CONTEXT_FULL)
        reason: ResponseReason = "length" if is_cut_off else "tool" if self._call_ids else "stop"
        is_blocked = turn.finish in _BLOCKED
        yield ResponseEnd(reason, tuple(parts), turn.usage, turn.finish_raw, is_blocked=is_blocked)


def _phrase(status: int) -> str:
    """The standard reason phrase of a status; empty for an unknown status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _retry_after_s(headers: Headers) -> float | None:
    """Seconds until the time that the server names, by a number or a date; None without one."""
    if (wait_ms := retry_after_ms(headers)) is not None:
        return wait_ms / 1000
    value = header_value(headers, "retry-after") or ""
    if value.isdecimal():  # more digits than a delay has
        return math.inf
    try:
        date = parsedate_to_datetime(value)
        date = date if date.tzinfo else date.replace(tzinfo=UTC)  # RFC 9110, 5.6.7
        return max(0.0, (date - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None
