"""Times of imported responses: from the source, or from a pace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llm_proxy.actions import Begin, Send, Wait
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.schema import LONGEST_MS
from llm_proxy.exchange import Read
from llm_proxy.importing.source import SourceExchange
from llm_proxy.pacing import Pace
from llm_proxy.pacing.cassette_player import play_cassette
from llm_proxy.pacing.timing import seeded_chance


@dataclass(frozen=True, slots=True)
class TimedBody:
    """A head, pieces and an end, with their times in ms."""

    head: float
    reads: tuple[Read, ...]
    end: float


def spread_evenly(source_exchange: SourceExchange, pieces: Iterable[bytes]) -> TimedBody:
    """Pieces with the times of the head and the end that a source keeps, evenly between them."""
    found = list(pieces)
    head = min(source_exchange.head_at or 0.0, LONGEST_MS)
    end = min(max(source_exchange.end_at or 0.0, head), LONGEST_MS)
    step = (end - head) / len(found) if found else 0.0
    reads = tuple(Read(head + step * number, data) for number, data in enumerate(found, 1))
    return TimedBody(head, reads, max(end, reads[-1].at_ms if reads else end))


def source_times(source_exchange: SourceExchange) -> TimedBody:
    """The pieces and times that a source keeps, made fit: none before another, none absurd."""
    at = head = min(source_exchange.head_at or 0.0, LONGEST_MS)
    reads: list[Read] = []
    for read in source_exchange.reads:
        at = min(max(at, read.at_ms), LONGEST_MS)
        if read.data:
            reads.append(Read(at, read.data))
    return TimedBody(head, tuple(reads), min(max(at, source_exchange.end_at or 0.0), LONGEST_MS))


def paced_times(cassette: Cassette, pace: Pace, seed: int) -> TimedBody:
    """The times that a pace gives to a recording without any: the same for the same seed."""
    it = cassette
    rolled = seeded_chance(seed, it.meta.session, it.meta.key, it.end.sha256)
    head = at = 0.0
    reads: list[Read] = []
    for action in play_cassette(cassette, pace, rolled):
        match action:
            case Wait(due):
                at = min(max(at, due), LONGEST_MS)
            case Begin():
                head = at
            case Send(data) if data:
                reads.append(Read(at, data))
            case _:
                continue
    return TimedBody(head, tuple(reads), at)
