"""Message arrival times as figures and bars.

A message has arrived when its last byte has, so its time is that of the read with that byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.exchange import Read

_BAR_BLOCKS: Final = "▏▎▍▌▋▊▉█"
_LEVELS: Final = " ▁▂▃▄▅▆▇█"
_ASCII_LEVELS: Final = " .:-=+*#@"


@dataclass(frozen=True, slots=True)
class MessageArrival:
    """One message of a response, and when it arrived."""

    number: int
    """From 1."""
    message_bytes: bytes
    at_ms: float
    """ms since the request was read in full."""
    gap_ms: float
    """ms since the previous message; for the first, since the request."""
    read_count: int
    """The number of reads since the previous message: 0 if both ended in the same read."""


def message_arrivals(
    messages: Sequence[bytes], reads: Sequence[Read]
) -> tuple[MessageArrival, ...]:
    """The arrival of each message; joined, `reads` must equal `messages`."""
    arrivals: list[MessageArrival] = []
    position = read_bytes = 0
    at_ms = previous_at_ms = 0.0
    remaining_reads = iter(reads)
    for number, message in enumerate(messages, 1):
        position += len(message)
        read_count = 0
        while read_bytes < position:
            read = next(remaining_reads)
            read_bytes += len(read.received_bytes)
            at_ms = read.at_ms
            read_count += 1
        arrivals.append(MessageArrival(number, message, at_ms, at_ms - previous_at_ms, read_count))
        previous_at_ms = at_ms
    return tuple(arrivals)


def render_bar(value: float, largest: float, width: int, *, ascii_only: bool = False) -> str:
    """A bar for `value`, where `largest` fills `width` columns; never empty unless it is 0."""
    if value <= 0 or largest <= 0:
        return ""
    eighths = max(1, round(min(value / largest, 1) * width * 8))
    if ascii_only:
        return "#" * max(1, eighths // 8)
    full, rest = divmod(eighths, 8)
    return _BAR_BLOCKS[-1] * full + (_BAR_BLOCKS[rest - 1] if rest else "")


def render_sparkline(
    reads: Sequence[Read], end_ms: float, width: int, *, ascii_only: bool = False
) -> str:
    """Bytes received over the time from the request to `end_ms`, in `width` columns."""
    columns = [0] * width
    for read in reads:
        column = int(read.at_ms / end_ms * width) if end_ms > 0 else 0
        columns[min(column, width - 1)] += len(read.received_bytes)
    levels = _ASCII_LEVELS if ascii_only else _LEVELS
    largest = max(columns, default=0) or 1
    top = len(levels) - 1
    return "".join(levels[-(-size * top // largest)] for size in columns)
