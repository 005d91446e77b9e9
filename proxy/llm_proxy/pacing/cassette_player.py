"""Plans the actions that replay a cassette at a pace."""

from __future__ import annotations

import math
import re
from typing import Final

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.pacing import timing
from llm_proxy.pacing.endings import abort_of_ending
from llm_proxy.pacing.pace import InstantPace, ModelledPace, Pace, RecordedPace, TokenRatePace
from llm_proxy.pacing.pace_actions import pace_actions
from llm_proxy.pacing.pace_input import paced_response
from llm_proxy.pacing.timing import Chance, PacedResponse, ResponseTimes
from llm_proxy.timeline import message_arrivals

_SECONDS: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_COUNTDOWNS: Final = frozenset(("retry-after", "retry-after-ms"))
_LARGE: Final = 2 * 1024
"""Bytes of a body that is read in a ms."""
_MANY: Final = 500
"""Pieces whose times are made in a few ms."""
_AS_READ: Final = (None, "recorded")
"""Chunks that leave a recording the pieces in which it arrived."""


def play_cassette(
    cassette: Cassette, pace: Pace, chance: Chance, read: PacedResponse | None = None
) -> Burst:
    """The actions that play a recording at this pace.

    Headers that say how long to wait are scaled with a speed, never beyond what was recorded.
    `read` is what `told` reads of the recording, where somebody has kept it.
    """
    head = _replayed_head(cassette, pace)
    abort = abort_of_ending(cassette.end.ending)
    last: Burst = () if abort is None else (abort,)
    if isinstance(pace, InstantPace) and pace.chunks in _AS_READ:  # thousands a second
        return (Begin(head), *[Send(read.data) for read in cassette.reads], *last)
    if isinstance(pace, TokenRatePace | ModelledPace):
        it = read or paced_response(cassette, pace.chunks)
        pieces, times = it.pieces, timing.response_times(pace, it, chance)
    else:
        pieces, times = _recorded_pieces(cassette, pace)
    return (*pace_actions(head, pieces, times, pace), *last)


def is_slow_to_plan(cassette: Cassette, pace: Pace, read: PacedResponse | None = None) -> bool:
    """Whether making its actions may take longer than others should wait."""
    if isinstance(pace, InstantPace) and pace.chunks in _AS_READ:
        return False
    must_read = isinstance(pace, TokenRatePace | ModelledPace) and read is None
    if (must_read or pace.chunks not in _AS_READ) and cassette.end.size > _LARGE:
        return True
    return len(cassette.reads if read is None else read.pieces) > _MANY


def due_ms(pace: RecordedPace | InstantPace, at: float) -> float:
    """When something recorded at `at` goes out, in ms."""
    match pace:
        case RecordedPace(speed):
            return at / speed
        case InstantPace():
            return 0.0


def _recorded_pieces(
    cassette: Cassette, pace: RecordedPace | InstantPace
) -> tuple[tuple[bytes, ...], ResponseTimes]:
    if pace.chunks in ("event", "token"):
        found = message_arrivals(cassette.messages, cassette.reads)
        arrived = [(message_arrival.at_ms, message_arrival.message) for message_arrival in found]
    else:
        arrived = [(read.at_ms, read.data) for read in cassette.reads]
    moments = tuple(due_ms(pace, at) for at, _ in arrived)
    times = ResponseTimes(
        due_ms(pace, cassette.head_at_ms), moments, due_ms(pace, cassette.end.at_ms)
    )
    return tuple(data for _, data in arrived), times


def _replayed_head(cassette: Cassette, pace: Pace) -> ResponseHead:
    head, size = cassette.head, cassette.end.size
    length = head.length
    if head.framing == "length":
        # A body that was cut must stay shorter than what is declared.
        cut = cassette.end.ending is not Ending.CLEAN
        length = max(head.length or 0, size + 1) if cut else size
    headers = head.headers
    if isinstance(pace, RecordedPace | InstantPace):
        headers = tuple((name, _scale_retry_after(name, value, pace)) for name, value in headers)
    return ResponseHead(head.status, head.reason, headers, head.framing, length)


def _scale_retry_after(name: str, value: str, pace: RecordedPace | InstantPace) -> str:
    """`Retry-After` in s or ms, divided by the pace's speed; HTTP dates and all else stay."""
    if name.lower() not in _COUNTDOWNS or _SECONDS.fullmatch(value) is None:
        return value
    recorded = float(value)
    scaled = math.ceil(min(recorded, due_ms(pace, recorded)))  # whole, as RFC 9110 has it
    return str(scaled) if scaled < recorded else value
