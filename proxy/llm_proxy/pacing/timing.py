"""When each piece of an answer is due, where its recorded times do not say.

The head goes out when the first token could.  What a piece says is due when its last token is;
what is told beside the words goes with the piece before, or with the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from llm_proxy.chance import roll
from llm_proxy.pacing.distributions import NONE, Distribution, drawn
from llm_proxy.pacing.pace import Modelled, Rate

Chance = Callable[[str, int], float]
"""The roll for a purpose, and of several for one purpose the number: the same whenever asked."""

_ROLLED: Final = 4096
"""Gaps that are drawn for the tokens of a document; more of them take as long on average."""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer that is to be paced."""

    pieces: tuple[bytes, ...]
    says: tuple[int, ...]
    """How much each piece says: 0 for what is told beside the words."""
    tokens: Callable[[], int]
    """Of all that is said; asked for where it counts."""
    prompt: Callable[[], int]
    """The tokens of the request; the same."""
    is_document: bool = False
    """Whether it means nothing before it is whole, so that its pieces go out at one time."""


@dataclass(frozen=True, slots=True)
class Times:
    """When an answer is due, in ms since the request was read in full."""

    head: float
    pieces: tuple[float, ...]
    """Of each piece, in order."""
    end: float
    """Of the body's end, or its breaking off."""


def chance(*what: object) -> Chance:
    """The chance of one answer; `what` tells it from all others: seed, session, key, ordinal."""
    return partial(roll, "pace", *what)


def times(pace: Rate | Modelled, told: Told, chance: Chance) -> Times:
    """When everything is due at this pace."""
    match pace:
        case Rate():
            head = _begun(pace.ttft, pace.prefill, told, chance)
            return _after(head, _at_a_rate(1000 / pace.tps, told))
        case Modelled():
            it = pace.latency
            head = _begun(it.ttft, it.prefill, told, chance)
            return _after(head, _gaps(it.gap, told, chance))


def _after(head: float, slots: Iterable[float]) -> Times:
    pieces = tuple(head + at for at in slots)
    return Times(head, pieces, pieces[-1] if pieces else head)


def _begun(ttft: Distribution, prefill: Distribution, told: Told, chance: Chance) -> float:
    """When the first token is due."""
    begun = drawn(ttft, chance("ttft", 0))
    if prefill == NONE:
        return begun
    return begun + drawn(prefill, chance("prefill", 0)) * told.prompt()


def _at_a_rate(each: float, told: Told) -> Iterator[float]:
    """The times after the head, of pieces whose tokens take `each` ms."""
    if told.is_document:
        yield from [each * max(0, told.tokens() - 1)] * len(told.pieces)
        return
    said, share = 0, told.tokens() / max(sum(told.says), 1)
    at = 0.0
    for says in told.says:
        said += says
        if says:
            at = each * max(0.0, said * share - 1)
        yield at


def _gaps(gap: Distribution, told: Told, chance: Chance) -> Iterator[float]:
    """The times after the head, of pieces with gaps between them."""
    if told.is_document:
        yield from [_long(gap, told.tokens() - 1, chance)] * len(told.pieces)
        return
    at, number = 0.0, 0
    for says in told.says:
        if says:
            at += drawn(gap, chance("gap", number)) if number else 0.0
            number += 1
        yield at


def _long(gap: Distribution, gaps: int, chance: Chance) -> float:
    """How long so many gaps take."""
    rolled = range(1, min(gaps, _ROLLED) + 1)
    took = sum(drawn(gap, chance("gap", number)) for number in rolled)
    return took * gaps / len(rolled) if rolled else 0.0


def capped(times: Times, longest: float) -> Times:
    """The same, with no silence longer than this many ms: what comes later moves up."""
    head, *pieces, end = _capped((times.head, *times.pieces, times.end), longest)
    return Times(head, tuple(pieces), end)


def _capped(moments: Iterable[float], longest: float) -> Iterator[float]:
    at = before = 0.0
    for moment in moments:
        at += min(moment - before, longest)
        before = moment
        yield at
