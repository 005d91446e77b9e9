"""When the bytes of a replay go out.

A pace turns recorded offsets into due times, both in ms since the request was read in full.
Due times are absolute, so nothing drifts, and a late write makes no later one late.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from llm_proxy.actions import Abort, Action, Begin, Burst, Send, Wait
from llm_proxy.cassette import Cassette
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Ending, Head

_SPEED: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)x")
_SECONDS: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_COUNTDOWNS: Final = frozenset(("retry-after", "retry-after-ms"))


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recorded times, divided by `speed`."""

    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Instant:
    """No waiting at all: everything in one write."""


Pace = Recorded | Instant


def parse_pace(text: str) -> Pace:
    """The pace that `text` spells: `recorded`, `instant`, `4x`, `0.5x`.

    Raises `UsageError` for anything else.
    """
    match text.strip().lower():
        case "recorded":
            return Recorded()
        case "instant":
            return Instant()
        case other:
            speed = _SPEED.fullmatch(other)
            if speed is None or float(speed[1]) == 0:
                raise UsageError(
                    f"{text!r} is no pace: use recorded, instant, or a speed such as 4x or 0.5x"
                )
            return Recorded(float(speed[1]))


def due(pace: Pace, at: float) -> float:
    """When something recorded at `at` goes out, in ms."""
    match pace:
        case Recorded(speed):
            return at / speed
        case Instant():
            return 0.0


def play(cassette: Cassette, pace: Pace) -> Burst:
    """The actions that give this recording once more, ended as it ended.

    Headers that say how long to wait are scaled with the pace, never beyond what was recorded.
    """
    begin = Begin(_head(cassette, pace))
    abort = ending_action(cassette.end.ending)
    last: Burst = () if abort is None else (abort,)
    if isinstance(pace, Instant):
        return (begin, *[Send(read.data) for read in cassette.reads], *last)
    actions: list[Action] = [Wait(due(pace, cassette.head_at)), begin]
    for read in cassette.reads:
        actions += [Wait(due(pace, read.at)), Send(read.data)]
    return (*actions, Wait(due(pace, cassette.end.at)), *last)


def ending_action(ending: Ending) -> Abort | None:
    """How an ending is passed on to a client; None for the clean end."""
    match ending:
        case Ending.CLEAN:
            return None
        case Ending.FIN | Ending.CLIENT_GONE | Ending.RECORDER_ERROR | Ending.KILLED:
            return Abort("fin")
        case Ending.RST | Ending.STALLED | Ending.MALFORMED:
            return Abort("rst")


def _head(cassette: Cassette, pace: Pace) -> Head:
    """The recorded head, framed for the stored body."""
    head, size = cassette.head, cassette.end.size
    length = head.length
    if head.framing == "length":
        # A body that was cut must stay shorter than what is declared.
        cut = cassette.end.ending is not Ending.CLEAN
        length = max(head.length or 0, size + 1) if cut else size
    headers = tuple((name, _scaled(name, value, pace)) for name, value in head.headers)
    return Head(head.status, head.reason, headers, head.framing, length)


def _scaled(name: str, value: str, pace: Pace) -> str:
    """`Retry-After` in s or ms, divided by the pace's speed; HTTP dates and all else stay."""
    if name.lower() not in _COUNTDOWNS or _SECONDS.fullmatch(value) is None:
        return value
    recorded = float(value)
    scaled = math.ceil(min(recorded, due(pace, recorded)))  # whole, as RFC 9110 has it
    return str(scaled) if scaled < recorded else value
