"""What a fault is, and its mechanisms: replacement, one-shot, transform, meter.

`ReplaceResponse`  the answer is another one; nobody is asked for the real one
`OneShot`   at its place something happens, once: the end, a pause, other messages
`Transform`     from its place on everything goes through it
`MeteredFault`  it keeps account of the requests, and works on each in one of these ways, or in none

A fault takes values and gives actions.  It knows no socket and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from llm_proxy.actions import Action, Burst
from llm_proxy.conversation import Conversation
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.exchange import Framing, ResponseHead
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.location import Place

EVERYTHING: Final = 2**62
"""As many messages as there are."""

STREAMS: Final = frozenset({"sse", "ndjson", "eventstream", "json-array"})
"""The framings of bodies that come message by message."""
BODIES: Final = STREAMS | {"whole"}
"""All framings."""

ANYHOW: Final[frozenset[Framing]] = frozenset(("chunked", "close", "length", "none"))
"""All ways in which HTTP delimits a body, and none."""
WITH_BODY: Final = ANYHOW - {"none"}
"""All ways in which HTTP delimits a body."""

ANYWHERE: Final = frozenset({"after", "at", "bytes", "ms", "fraction"})
"""All places in a stream."""
AT_MESSAGES: Final = frozenset({"after", "at"})
"""The places that lie between messages."""
NOWHERE: Final[frozenset[str]] = frozenset()


class FaultNotApplicable(Exception):
    """A fault has no meaning in this answer, in a few words that say why."""


Chance = Callable[[str], float]
"""Rolls of chance from 0 up to 1 for one rule and request, each by the name of its purpose."""


@dataclass(frozen=True, slots=True)
class FaultContext:
    """The request that a fault meets."""

    request: DecodedRequest
    seeded_chance: Chance
    silence: float
    """The longest that anything is silent, in ms: what ends a fault that a client does not end."""
    conversation: Callable[[], Conversation | None]
    """What the request asks, where it asks for a turn."""


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where a fault strikes."""

    context: FaultContext
    at: float
    """When, in ms since the request was read in full, as the actions before it have it."""
    head: ResponseHead | None
    """None before the head."""
    codec: str
    """The framing of the body's messages; empty before the head."""
    sent_before: tuple[bytes, ...] = ()
    """The messages that have gone out whole."""
    partial_message: bytes = b""
    """What has gone out of the message that is under way."""
    taken_messages: tuple[bytes, ...] = ()
    """The next messages, as many as the fault takes; fewer where the body ends."""
    due_times: tuple[float, ...] = ()
    """When each of them was due in full, in ms."""
    body_size: int = 0
    """Bytes of the body that have gone out."""

    def require_head(self) -> ResponseHead:
        """The head, for what has no meaning before it.

        Raises `FaultNotApplicable` where none is.
        """
        if self.head is None:
            raise FaultNotApplicable("the answer had not begun")
        return self.head


@dataclass(frozen=True, slots=True)
class InjectedActions:
    """What happens in the place of what was taken."""

    actions: Burst = ()
    delay: float = 0.0
    """ms by which the actions, and all that follows them, are late."""
    ends_response: bool = False
    """Whether the answer ends with this; cleanly, unless the last action says otherwise."""
    is_timed: bool = False
    """Whether the actions wait for times of their own; else they go out when all that was taken
    had been due."""


class ActionTransform(Protocol):
    """What the actions of one answer go through."""

    def feed(self, action: Action) -> Burst:
        """What goes out for this action."""

    def close(self) -> Burst:
        """What goes out before the clean end."""


@dataclass(frozen=True, slots=True)
class ReplaceResponse:
    """The answer is another one."""

    make_response: Callable[[FaultContext], Burst]
    effect: FaultEffect | None = None
    """What it means to the client, where that is not what its kind says."""


@dataclass(frozen=True, slots=True)
class OneShot:
    """At its place something happens, once."""

    inject: Callable[[StreamPosition], InjectedActions]
    taken_count: int = 0
    """How many messages it takes out of the stream: whole ones.  One that takes everything takes
    it from the first message on, unless a place is given."""
    check: Callable[[StreamPosition], None] | None = None
    """Raises `FaultNotApplicable` at the head where the fault has no meaning in such an answer,
    before anything is held back for it."""
    changes_length: bool = False
    """Whether a body may have another length than was declared, and be right all the same."""
    cuts_stream: bool = False
    """Whether all that it does is to leave out what lies behind its place."""
    may_precede_head: bool = False
    """Whether it strikes before the head where no place is given."""
    default_location: Place | None = None
    """Where it strikes where no place is given; None is half of a body, or behind its first
    message."""
    effect: FaultEffect | None = None
    """What it means to the client, where that is not what its kind says."""


@dataclass(frozen=True, slots=True)
class Transform:
    """From its place on, or from the head on, everything goes through it."""

    make_transform: Callable[[StreamPosition], ActionTransform]
    changes_length: bool = False
    """Whether a body may have another length than was declared, and be right all the same."""
    effect: FaultEffect | None = None
    """What it means to the client, where that is not what its kind says."""
    is_quiet: bool = False
    """Whether nothing goes wrong by it: then it is no injection, and nothing is noted of it."""
    on_finished: Callable[[ResponseHead, bytes], None] | None = None
    """Is told of the answer that went out, in the end: its head and its body.  It may be called in
    another thread."""


Working = ReplaceResponse | OneShot | Transform
"""How a fault works on one request."""


class RequestMeter(Protocol):
    """The account that a rule keeps of the requests that it is meant for, while it stands."""

    def admit(self, context: FaultContext, session: str, now: float) -> Working | None:
        """How the fault works on this request, `now` ms after the rule was given; None: not."""

    def forget_session(self, session: str) -> None:
        """Begin the account of this session again."""


@dataclass(frozen=True, slots=True)
class MeteredFault:
    """It keeps account of the requests of its rule."""

    make_transform: Callable[[], RequestMeter]


Work = Working | MeteredFault


class Fault(Protocol):
    """A fault with its arguments: a frozen value."""

    def mechanism(self, place: Place | None, /) -> Work:
        """How it works at that place; None where none is given."""


@dataclass(frozen=True, slots=True)
class FaultArgument:
    """An argument of a fault."""

    parse: Callable[[str], Any]
    """Its value from text; raises `ValueError` with what it should be, to stand behind "is not"."""
    description: str
    """For the docs: a few words."""
    default: str = ""
    """As text; empty where there is none."""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A fault before its arguments are known."""

    name: str
    effect: FaultEffect
    description: str
    """For lists of faults: a few words."""
    make_fault: Callable[..., Fault]
    """The fault with these arguments, by name; one that is a keyword has an underscore behind it.
    Raises `ValueError` where they don't go together, in a sentence."""
    arguments: Mapping[str, FaultArgument] = field(default_factory=dict)
    allowed_locations: frozenset[str] = NOWHERE
    """The places that it can be given, by their words in the grammar."""
    allowed_bodies: frozenset[str] = BODIES
    """The framings that it has a meaning in."""
    needs_messages: frozenset[Framing] = ANYHOW
    """The ways in which HTTP delimits a body that it has a meaning in."""
    scope: Literal["request", "rule", "listener"] = "request"
    """What it befalls: any one request; those of a rule, of which it keeps account by itself, so
    that such a rule has no occasions and must stand; or the listener, for all clients alike."""
    example: str = ""
    """A rule that shows it, short enough for a test run: what `chaos` plays."""
