"""What a fault is, and the ways in which it works.

`Instead`  the answer is another one; nobody is asked for the real one
`Strike`   at its place something happens, once: the end, a pause, other messages
`Bend`     from its place on everything goes through it
`Metered`  it keeps account of the requests, and works on each in one of these ways, or in none

A fault takes values and gives actions.  It knows no socket and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from llm_proxy.actions import Action, Burst
from llm_proxy.conversation import Conversation
from llm_proxy.dialects.decoded_request import Asked
from llm_proxy.exchange import Framing, Head
from llm_proxy.faults.fault_record import Effect
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


class CannotInject(Exception):
    """A fault has no meaning in this answer, in a few words that say why."""


Chance = Callable[[str], float]
"""Rolls of chance from 0 up to 1 for one rule and request, each by the name of its purpose."""


@dataclass(frozen=True, slots=True)
class Met:
    """The request that a fault meets."""

    asked: Asked
    chance: Chance
    silence: float
    """The longest that anything is silent, in ms: what ends a fault that a client does not end."""
    conversation: Callable[[], Conversation | None]
    """What the request asks, where it asks for a turn."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a fault strikes."""

    met: Met
    at: float
    """When, in ms since the request was read in full, as the actions before it have it."""
    head: Head | None
    """None before the head."""
    codec: str
    """The framing of the body's messages; empty before the head."""
    before: tuple[bytes, ...] = ()
    """The messages that have gone out whole."""
    begun: bytes = b""
    """What has gone out of the message that is under way."""
    taken: tuple[bytes, ...] = ()
    """The next messages, as many as the fault takes; fewer where the body ends."""
    dues: tuple[float, ...] = ()
    """When each of them was due in full, in ms."""
    size: int = 0
    """Bytes of the body that have gone out."""

    def begun_head(self) -> Head:
        """The head, for what has no meaning before it.  Raises `CannotInject` where none is."""
        if self.head is None:
            raise CannotInject("the answer had not begun")
        return self.head


@dataclass(frozen=True, slots=True)
class Struck:
    """What happens in the place of what was taken."""

    actions: Burst = ()
    delay: float = 0.0
    """ms by which the actions, and all that follows them, are late."""
    over: bool = False
    """Whether the answer ends with this; cleanly, unless the last action says otherwise."""
    timed: bool = False
    """Whether the actions wait for times of their own; else they go out when all that was taken
    had been due."""


class Bending(Protocol):
    """What the actions of one answer go through."""

    def feed(self, action: Action) -> Burst:
        """What goes out for this action."""

    def close(self) -> Burst:
        """What goes out before the clean end."""


@dataclass(frozen=True, slots=True)
class Instead:
    """The answer is another one."""

    answer: Callable[[Met], Burst]
    effect: Effect | None = None
    """What it means to the client, where that is not what its kind says."""


@dataclass(frozen=True, slots=True)
class Strike:
    """At its place something happens, once."""

    strike: Callable[[Moment], Struck]
    takes: int = 0
    """How many messages it takes out of the stream: whole ones.  One that takes everything takes
    it from the first message on, unless a place is given."""
    check: Callable[[Moment], None] | None = None
    """Raises `CannotInject` at the head where the fault has no meaning in such an answer, before
    anything is held back for it."""
    resizes: bool = False
    """Whether a body may have another length than was declared, and be right all the same."""
    cuts: bool = False
    """Whether all that it does is to leave out what lies behind its place."""
    before_head: bool = False
    """Whether it strikes before the head where no place is given."""
    usual: Place | None = None
    """Where it strikes where no place is given; None is half of a body, or behind its first
    message."""
    effect: Effect | None = None
    """What it means to the client, where that is not what its kind says."""


@dataclass(frozen=True, slots=True)
class Bend:
    """From its place on, or from the head on, everything goes through it."""

    begin: Callable[[Moment], Bending]
    resizes: bool = False
    """Whether a body may have another length than was declared, and be right all the same."""
    effect: Effect | None = None
    """What it means to the client, where that is not what its kind says."""
    quiet: bool = False
    """Whether nothing goes wrong by it: then it is no injection, and nothing is noted of it."""
    afterwards: Callable[[Head, bytes], None] | None = None
    """Is told of the answer that went out, in the end: its head and its body.  It may be called in
    another thread."""


Working = Instead | Strike | Bend
"""How a fault works on one request."""


class Meter(Protocol):
    """The account that a rule keeps of the requests that it is meant for, while it stands."""

    def admit(self, met: Met, session: str, now: float) -> Working | None:
        """How the fault works on this request, `now` ms after the rule was given; None: not."""

    def forget(self, session: str) -> None:
        """Begin the account of this session again."""


@dataclass(frozen=True, slots=True)
class Metered:
    """It keeps account of the requests of its rule."""

    begin: Callable[[], Meter]


Work = Working | Metered


class Fault(Protocol):
    """A fault with its arguments: a frozen value."""

    def work(self, place: Place | None, /) -> Work:
        """How it works at that place; None where none is given."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a fault."""

    read: Callable[[str], Any]
    """Its value from text; raises `ValueError` with what it should be, to stand behind "is not"."""
    meaning: str
    """For the docs: a few words."""
    default: str = ""
    """As text; empty where there is none."""
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault before its arguments are known."""

    name: str
    effect: Effect
    meaning: str
    """For lists of faults: a few words."""
    make: Callable[..., Fault]
    """The fault with these arguments, by name; one that is a keyword has an underscore behind it.
    Raises `ValueError` where they don't go together, in a sentence."""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    places: frozenset[str] = NOWHERE
    """The places that it can be given, by their words in the grammar."""
    bodies: frozenset[str] = BODIES
    """The framings that it has a meaning in."""
    delimited: frozenset[Framing] = ANYHOW
    """The ways in which HTTP delimits a body that it has a meaning in."""
    scope: Literal["request", "rule", "listener"] = "request"
    """What it befalls: any one request; those of a rule, of which it keeps account by itself, so
    that such a rule has no occasions and must stand; or the listener, for all clients alike."""
    example: str = ""
    """A rule that shows it, short enough for a test run: what `chaos` plays."""
