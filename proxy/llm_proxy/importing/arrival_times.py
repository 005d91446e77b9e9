"""Arrival times of imported responses: from the source, or from a pace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llm_proxy.actions import Begin, Send, Wait
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import MAX_OFFSET_MS
from llm_proxy.exchange import Read
from llm_proxy.importing.source import SourceExchange
from llm_proxy.pacing import Pace
from llm_proxy.pacing.cassette_player import replay_actions
from llm_proxy.pacing.timing import make_seeded_draw


@dataclass(frozen=True, slots=True)
class TimedBody:
    """A response body with the times, in ms after the request, of head, reads and end."""

    head_at_ms: float
    reads: tuple[Read, ...]
    end_at_ms: float


def evenly_timed_body(source_exchange: SourceExchange, pieces: Iterable[bytes]) -> TimedBody:
    """The pieces at equal intervals between the source's times of the head and the end."""
    messages = list(pieces)
    head_at_ms = min(source_exchange.head_at_ms or 0.0, MAX_OFFSET_MS)
    end_at_ms = min(max(source_exchange.end_at_ms or 0.0, head_at_ms), MAX_OFFSET_MS)
    step_ms = (end_at_ms - head_at_ms) / len(messages) if messages else 0.0
    reads = tuple(
        Read(head_at_ms + step_ms * number, data) for number, data in enumerate(messages, 1)
    )
    return TimedBody(head_at_ms, reads, max(end_at_ms, reads[-1].at_ms if reads else end_at_ms))


def source_timed_body(source_exchange: SourceExchange) -> TimedBody:
    """The source's reads, their times made monotonic and limited to `MAX_OFFSET_MS`."""
    at_ms = head_at_ms = min(source_exchange.head_at_ms or 0.0, MAX_OFFSET_MS)
    reads: list[Read] = []
    for read in source_exchange.reads:
        at_ms = min(max(at_ms, read.at_ms), MAX_OFFSET_MS)
        if read.received_bytes:
            reads.append(Read(at_ms, read.received_bytes))
    return TimedBody(
        head_at_ms, tuple(reads), min(max(at_ms, source_exchange.end_at_ms or 0.0), MAX_OFFSET_MS)
    )


def paced_timed_body(cassette: Cassette, pace: Pace, seed: int) -> TimedBody:
    """The reads of a cassette at the times of a pace: deterministic for a seed."""
    recording = cassette
    chance = make_seeded_draw(
        seed, recording.meta.session, recording.meta.key, recording.response_end.sha256
    )
    head_at_ms = at_ms = 0.0
    reads: list[Read] = []
    for action in replay_actions(cassette, pace, chance):
        match action:
            case Wait(due):
                at_ms = min(max(at_ms, due), MAX_OFFSET_MS)
            case Begin():
                head_at_ms = at_ms
            case Send(data) if data:
                reads.append(Read(at_ms, data))
            case _:
                continue
    return TimedBody(head_at_ms, tuple(reads), at_ms)
