"""The actions that give a recording once more, ended as it ended."""

from __future__ import annotations

import math
import re
from typing import Final

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending, Head
from llm_proxy.pacing import timing
from llm_proxy.pacing.endings import ending_action
from llm_proxy.pacing.pace import Instant, Modelled, Pace, Rate, Recorded
from llm_proxy.pacing.pace_actions import arranged
from llm_proxy.pacing.paced_response import told
from llm_proxy.pacing.timing import Chance, Times, Told
from llm_proxy.timeline import arrivals

_SECONDS: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_COUNTDOWNS: Final = frozenset(("retry-after", "retry-after-ms"))
_LARGE: Final = 2 * 1024
"""Bytes of a body that is read in a ms."""
_MANY: Final = 500
"""Pieces whose times are made in a few ms."""
_AS_READ: Final = (None, "recorded")
"""Chunks that leave a recording the pieces in which it arrived."""


def play(cassette: Cassette, pace: Pace, chance: Chance, read: Told | None = None) -> Burst:
    """The actions that play a recording at this pace.

    Headers that say how long to wait are scaled with a speed, never beyond what was recorded.
    `read` is what `told` reads of the recording, where somebody has kept it.
    """
    head = _head(cassette, pace)
    abort = ending_action(cassette.end.ending)
    last: Burst = () if abort is None else (abort,)
    if isinstance(pace, Instant) and pace.chunks in _AS_READ:  # thousands a second
        return (Begin(head), *[Send(read.data) for read in cassette.reads], *last)
    if isinstance(pace, Rate | Modelled):
        it = read or told(cassette, pace.chunks)
        pieces, times = it.pieces, timing.times(pace, it, chance)
    else:
        pieces, times = _as_recorded(cassette, pace)
    return (*arranged(head, pieces, times, pace), *last)


def is_slow(cassette: Cassette, pace: Pace, read: Told | None = None) -> bool:
    """Whether making its actions may take longer than others should wait."""
    if isinstance(pace, Instant) and pace.chunks in _AS_READ:
        return False
    must_read = isinstance(pace, Rate | Modelled) and read is None
    if (must_read or pace.chunks not in _AS_READ) and cassette.end.size > _LARGE:
        return True
    return len(cassette.reads if read is None else read.pieces) > _MANY


def due(pace: Recorded | Instant, at: float) -> float:
    """When something recorded at `at` goes out, in ms."""
    match pace:
        case Recorded(speed):
            return at / speed
        case Instant():
            return 0.0


def _as_recorded(cassette: Cassette, pace: Recorded | Instant) -> tuple[tuple[bytes, ...], Times]:
    """The pieces of a recording, and when they are due at its own times."""
    if pace.chunks in ("event", "token"):
        found = arrivals(cassette.messages, cassette.reads)
        arrived = [(it.at, it.message) for it in found]
    else:
        arrived = [(it.at, it.data) for it in cassette.reads]
    moments = tuple(due(pace, at) for at, _ in arrived)
    times = Times(due(pace, cassette.head_at), moments, due(pace, cassette.end.at))
    return tuple(data for _, data in arrived), times


def _head(cassette: Cassette, pace: Pace) -> Head:
    """The recorded head, framed for the stored body."""
    head, size = cassette.head, cassette.end.size
    length = head.length
    if head.framing == "length":
        # A body that was cut must stay shorter than what is declared.
        cut = cassette.end.ending is not Ending.CLEAN
        length = max(head.length or 0, size + 1) if cut else size
    headers = head.headers
    if isinstance(pace, Recorded | Instant):
        headers = tuple((name, _scaled(name, value, pace)) for name, value in headers)
    return Head(head.status, head.reason, headers, head.framing, length)


def _scaled(name: str, value: str, pace: Recorded | Instant) -> str:
    """`Retry-After` in s or ms, divided by the pace's speed; HTTP dates and all else stay."""
    if name.lower() not in _COUNTDOWNS or _SECONDS.fullmatch(value) is None:
        return value
    recorded = float(value)
    scaled = math.ceil(min(recorded, due(pace, recorded)))  # whole, as RFC 9110 has it
    return str(scaled) if scaled < recorded else value
