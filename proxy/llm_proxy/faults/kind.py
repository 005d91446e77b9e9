"""What a fault is, and its mechanisms: replacement, one-shot, transform, meter.

`ReplaceResponse`  another response is sent; the real one is never fetched
`OneShot`          something happens once, at its location: an end, a pause, other messages
`Transform`        all actions from its location on pass through it
`MeteredFault`     counts requests, and uses one of these mechanisms for each, or none

A fault maps values to actions.  It has no access to sockets or clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from llm_proxy.actions import Abort, Action, Begin, Burst, Send, Wait
from llm_proxy.conversation import Conversation
from llm_proxy.dialects.base import DecodedRequest
from llm_proxy.exchange import Framing, ResponseHead
from llm_proxy.faults.fault_record import FaultEffect as FaultEffect  # noqa: PLC0414 # exported: kinds need it

ALL_MESSAGES: Final = 2**62
"""The `taken_message_count` of a fault that takes all remaining messages."""

STREAM_CODECS: Final = frozenset({"sse", "ndjson", "eventstream", "json-array"})
"""The codecs of bodies that consist of messages."""
ALL_CODECS: Final = STREAM_CODECS | {"whole"}
"""All codecs of bodies."""

ALL_FRAMINGS: Final[frozenset[Framing]] = frozenset(("chunked", "close", "length", "none"))
"""All ways in which HTTP delimits a body, and `none`."""
FRAMINGS_WITH_BODY: Final = ALL_FRAMINGS - {"none"}
"""All ways in which HTTP delimits a body."""


@dataclass(frozen=True, slots=True)
class AfterEvents:
    """After this many messages of the body."""

    event_count: int


@dataclass(frozen=True, slots=True)
class AfterBytes:
    """After this many bytes of the body, even within a message or a character."""

    byte_count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """At this time, in ms since the request was read in full."""

    ms: float


@dataclass(frozen=True, slots=True)
class AtFraction:
    """After this fraction (0 to 1) of the body's bytes."""

    fraction: float


@dataclass(frozen=True, slots=True)
class AtEvent:
    """Before the first message of this event type."""

    type: str


@dataclass(frozen=True, slots=True)
class AtEnd:
    """At the clean end of the body.  No rule can give it: it is the default of some faults.

    The messages before it are counted and not kept: in `StreamPosition` each is empty bytes.
    """


StreamLocation = AfterEvents | AfterBytes | AtTime | AtFraction | AtEvent | AtEnd
"""Where in the stream of a response a fault is injected."""


ALL_LOCATIONS: Final = frozenset({"after", "at", "bytes", "ms", "fraction"})
"""All kinds of location in a stream, by their names in rules."""
MESSAGE_LOCATIONS: Final = frozenset({"after", "at"})
"""The kinds of location that lie between messages."""


class FaultNotApplicable(Exception):
    """A fault is not applicable to this response; its message is the reason, a short phrase."""


UniformDraw = Callable[[str], float]
"""Draws a number from 0 up to 1 for one rule and request; each purpose has a draw of its own."""


@dataclass(frozen=True, slots=True)
class FaultContext:
    """The request that a fault applies to."""

    decoded_request: DecodedRequest
    draw_uniform: UniformDraw
    max_silence_ms: float
    """The longest silence on a connection; it ends a fault that the client does not end."""
    get_conversation: Callable[[], Conversation | None]
    """Returns the decoded conversation; None for requests that are not for a turn."""

    def silence_until_close(self, from_ms: float, silence_ms: float | None = None) -> Burst:
        """Nothing for `silence_ms`, else for the longest silence; then the connection is closed."""
        duration_ms = self.max_silence_ms if silence_ms is None else silence_ms
        return (Wait(from_ms + duration_ms), Abort("fin"))


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The state of a response at the location of a fault."""

    context: FaultContext
    at_ms: float
    """In ms since the request was read in full, by the due times of the actions before it."""
    head: ResponseHead | None
    """None before the head."""
    codec: str
    """The codec of the body's messages; empty before the head."""
    sent_messages: tuple[bytes, ...] = ()
    """The messages that were sent completely."""
    sent_message_prefix: bytes = b""
    """The part that was sent of the message that is not complete yet."""
    taken_messages: tuple[bytes, ...] = ()
    """The next messages, as many as the fault takes; fewer where the body ends before."""
    taken_due_times_ms: tuple[float, ...] = ()
    """When the last byte of each of `taken_messages` was due."""
    sent_body_byte_count: int = 0

    def require_head(self) -> ResponseHead:
        """The head.  Raises `FaultNotApplicable` before the head."""
        if self.head is None:
            raise FaultNotApplicable("the fault was due before the response began")
        return self.head


@dataclass(frozen=True, slots=True)
class InjectedActions:
    """The actions that replace the messages that were taken."""

    actions: Burst = ()
    """Sent when all messages that were taken are due, unless they begin with a `Wait`."""
    delay_ms: float = 0.0
    """Delays these actions and all that follow."""
    ends_response: bool = False
    """Whether the response ends with these actions: cleanly, unless the last is an `Abort`."""


class ActionTransform:
    """Transforms the actions of one response; this base class changes nothing."""

    def feed(self, action: Action) -> Burst:
        """The actions that replace this one."""
        return (action,)

    def close(self) -> Burst:
        """The actions to add before the clean end."""
        return ()


@dataclass(frozen=True, slots=True)
class HeadTransform(ActionTransform):
    """Changes the head of a response."""

    change: Callable[[ResponseHead], ResponseHead]

    def feed(self, action: Action) -> Burst:
        """The head, changed; any other action as it is."""
        return (Begin(self.change(action.head)),) if isinstance(action, Begin) else (action,)


@dataclass(frozen=True, slots=True)
class ReplaceResponse:
    """Replaces the whole response; the real one is never fetched."""

    make_response: Callable[[FaultContext], Burst]
    effect: FaultEffect | None = None
    """None means the effect of the fault's kind."""


@dataclass(frozen=True, slots=True)
class OneShot:
    """Injects actions once, at its location."""

    make_injected_actions: Callable[[StreamPosition], InjectedActions]
    taken_message_count: int = 0
    """How many whole messages it takes out of the stream.  A fault that takes `ALL_MESSAGES` begins
    with the first message, unless the rule has a location."""
    check_applicable: Callable[[StreamPosition], None] | None = None
    """Called at the head, before any message is held back.  Raises `FaultNotApplicable` where the
    fault does not apply to such a response."""
    changes_length: bool = False
    """Whether it may change the body's length, so that the declared length is adapted."""
    only_truncates: bool = False
    """Whether it does nothing but omit what follows its location."""
    may_precede_head: bool = False
    """Whether it is injected before the head where the rule has no location."""
    default_location: StreamLocation | None = None
    """The location where the rule has none; None is after the first message of a stream, and half
    of a whole body."""
    effect: FaultEffect | None = None
    """None means the effect of the fault's kind."""
    without_location: ReplaceResponse | None = None
    """What the fault does instead where the rule has no location; None: the same."""


def edit_messages(
    edit: Callable[[StreamPosition], Iterable[bytes]], message_count: int = 1
) -> OneShot:
    """Replaces the next messages, `message_count` of them, by those that `edit` returns."""
    return OneShot(
        lambda position: InjectedActions(tuple(map(Send, edit(position)))),
        taken_message_count=message_count,
        changes_length=True,
    )


@dataclass(frozen=True, slots=True)
class Transform:
    """Passes all actions through a transform, from its location or from the head on."""

    make_transform: Callable[[StreamPosition], ActionTransform]
    effect: FaultEffect | None = None
    """None means the effect of the fault's kind."""
    is_harmless: bool = False
    """Whether it breaks nothing: then it is neither counted nor recorded as an injection."""
    on_response_sent: Callable[[ResponseHead, bytes], None] | None = None
    """Called at the end with the head and the body that were sent, possibly in another thread."""


RequestMechanism = ReplaceResponse | OneShot | Transform
"""How a fault is applied to one request."""


class RequestMeter(Protocol):
    """Counts the requests that match a rule, for as long as the rule is in effect."""

    def mechanism_for_request(
        self, context: FaultContext, session: str, elapsed_ms: float
    ) -> RequestMechanism | None:
        """The mechanism for this request, `elapsed_ms` after the rule was set; None: no fault."""

    def forget_session(self, session: str) -> None:
        """Resets the counts of this session."""


@dataclass(frozen=True, slots=True)
class MeteredFault:
    """Decides for each request by a meter; a rule has one meter for as long as it is in effect."""

    make_meter: Callable[[], RequestMeter]
    listener_window_ms: tuple[float, float] | None = None
    """When the listening sockets are closed, in ms since the rule was set; None: never."""


Mechanism = RequestMechanism | MeteredFault


@dataclass(frozen=True, slots=True)
class FaultArgument:
    """An argument of a fault."""

    parse: Callable[[str], Any]
    """Raises `ValueError` with a description of what is expected, to follow "is not"."""
    description: str
    """A short phrase for the docs."""
    default: str = ""
    """As text; empty without a default."""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault: its name, its arguments, and what it can be applied to."""

    name: str
    effect: FaultEffect
    description: str
    """A short phrase for lists of faults."""
    make_mechanism: Callable[..., Mechanism]
    """How the fault is applied, given its arguments by name; a Python keyword as a name gets a
    trailing underscore.  Raises `UsageError`, with a sentence, where the arguments do not fit
    together."""
    arguments: Mapping[str, FaultArgument] = field(default_factory=dict)
    allowed_locations: frozenset[str] = frozenset()
    """The kinds of location that a rule may give it, by their names in rules."""
    allowed_codecs: frozenset[str] = ALL_CODECS
    """The codecs of the bodies that it is applicable to."""
    allowed_framings: frozenset[Framing] = ALL_FRAMINGS
    """The HTTP body framings that it is applicable to."""
    scope: Literal["request", "rule", "listener"] = "request"
    """What it applies to: `request`, any single request; `rule`, all requests of a rule, which its
    meter counts, so that the rule has no trigger and must be set for the run, not by a request;
    `listener`, the listening socket, for all clients alike."""
    example: str = ""
    """A rule that shows it, short enough for a test run: `chaos` runs it."""
