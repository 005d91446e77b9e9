"""When the pieces of an imported answer came: as its source says, or as a pace makes it up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llm_proxy.actions import Begin, Send, Wait
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.schema import LONGEST_MS
from llm_proxy.exchange import Read
from llm_proxy.importing.source import SourceExchange
from llm_proxy.pacing import Pace
from llm_proxy.pacing.cassette_player import play
from llm_proxy.pacing.timing import chance


@dataclass(frozen=True, slots=True)
class Laid:
    """A head, pieces and an end, with their times in ms."""

    head: float
    reads: tuple[Read, ...]
    end: float


def spread(it: SourceExchange, pieces: Iterable[bytes]) -> Laid:
    """Pieces with the times of the head and the end that a source keeps, evenly between them."""
    found = list(pieces)
    head = min(it.head_at or 0.0, LONGEST_MS)
    end = min(max(it.end_at or 0.0, head), LONGEST_MS)
    step = (end - head) / len(found) if found else 0.0
    reads = tuple(Read(head + step * number, data) for number, data in enumerate(found, 1))
    return Laid(head, reads, max(end, reads[-1].at if reads else end))


def as_kept(it: SourceExchange) -> Laid:
    """The pieces and times that a source keeps, made fit: none before another, none absurd."""
    at = head = min(it.head_at or 0.0, LONGEST_MS)
    reads: list[Read] = []
    for each in it.reads:
        at = min(max(at, each.at), LONGEST_MS)
        if each.data:
            reads.append(Read(at, each.data))
    return Laid(head, tuple(reads), min(max(at, it.end_at or 0.0), LONGEST_MS))


def paced(cassette: Cassette, pace: Pace, seed: int) -> Laid:
    """The times that a pace gives to a recording without any: the same for the same seed."""
    it = cassette
    rolled = chance(seed, it.meta.session, it.meta.key, it.end.sha256)
    head = at = 0.0
    reads: list[Read] = []
    for action in play(cassette, pace, rolled):
        match action:
            case Wait(due):
                at = min(max(at, due), LONGEST_MS)
            case Begin():
                head = at
            case Send(data) if data:
                reads.append(Read(at, data))
            case _:
                continue
    return Laid(head, tuple(reads), at)
