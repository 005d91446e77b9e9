"""Message arrival times as figures and bars.

A message has arrived when its last byte has, so its time is that of the read which brought it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.exchange import Read

_EIGHTHS: Final = "▏▎▍▌▋▊▉█"
_LEVELS: Final = " ▁▂▃▄▅▆▇█"
_ASCII_LEVELS: Final = " .:-=+*#@"


@dataclass(frozen=True, slots=True)
class MessageArrival:
    """One message on its way in."""

    number: int
    """From 1."""
    message: bytes
    at_ms: float
    """ms since the request was read in full."""
    gap_ms: float
    """ms since the message before it; for the first, since the request."""
    reads: int
    """How many reads it took since the message before: 0 where it came along with that one."""


def message_arrivals(
    messages: Sequence[bytes], reads: Sequence[Read]
) -> tuple[MessageArrival, ...]:
    """When each message arrived; `reads` joined are `messages` joined."""
    found: list[MessageArrival] = []
    position = passed = 0
    at = before = 0.0
    left = iter(reads)
    for number, message in enumerate(messages, 1):
        position += len(message)
        begun = 0
        while passed < position:
            read = next(left)
            passed += len(read.data)
            at = read.at_ms
            begun += 1
        found.append(MessageArrival(number, message, at, at - before, begun))
        before = at
    return tuple(found)


def render_bar(value: float, largest: float, width: int, *, ascii_only: bool = False) -> str:
    """A bar as long as `value`, where `largest` fills `width` columns; seen unless it is 0."""
    if value <= 0 or largest <= 0:
        return ""
    eighths = max(1, round(min(value / largest, 1) * width * 8))
    if ascii_only:
        return "#" * max(1, eighths // 8)
    full, rest = divmod(eighths, 8)
    return _EIGHTHS[-1] * full + (_EIGHTHS[rest - 1] if rest else "")


def render_sparkline(
    reads: Sequence[Read], end: float, width: int, *, ascii_only: bool = False
) -> str:
    """The bytes that arrived, over the time from the request to `end`, in `width` columns."""
    columns = [0] * width
    for read in reads:
        column = int(read.at_ms / end * width) if end > 0 else 0
        columns[min(column, width - 1)] += len(read.data)
    levels = _ASCII_LEVELS if ascii_only else _LEVELS
    largest = max(columns, default=0) or 1
    top = len(levels) - 1
    return "".join(levels[-(-size * top // largest)] for size in columns)
