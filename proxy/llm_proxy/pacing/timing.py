"""Computes due times for a response whose recorded times are not used.

The head goes out when the first token could.  What a piece says is due when its last token is;
what is told beside the words goes with the piece before, or with the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from llm_proxy.chance import seeded_uniform
from llm_proxy.pacing.distributions import NONE, Distribution, draw_ms
from llm_proxy.pacing.pace import ModelledPace, TokenRatePace

Chance = Callable[[str, int], float]
"""The roll for a purpose, and of several for one purpose the number: the same whenever asked."""

_ROLLED: Final = 4096
"""Gaps that are drawn for the tokens of a document; more of them take as long on average."""


@dataclass(frozen=True, slots=True)
class PacedResponse:
    """An answer that is to be paced."""

    pieces: tuple[bytes, ...]
    output_chars: tuple[int, ...]
    """How much each piece says: 0 for what is told beside the words."""
    output_tokens: Callable[[], int]
    """Of all that is said; asked for where it counts."""
    prompt_tokens: Callable[[], int]
    """The tokens of the request; the same."""
    is_single_document: bool = False
    """Whether it means nothing before it is whole, so that its pieces go out at one time."""


@dataclass(frozen=True, slots=True)
class ResponseTimes:
    """When an answer is due, in ms since the request was read in full."""

    head: float
    pieces: tuple[float, ...]
    """Of each piece, in order."""
    end: float
    """Of the body's end, or its breaking off."""


def seeded_chance(*values: object) -> Chance:
    """The chance of one answer; `what` tells it from all others: seed, session, key, ordinal."""
    return partial(seeded_uniform, "pace", *values)


def response_times(
    pace: TokenRatePace | ModelledPace, paced_response: PacedResponse, chance: Chance
) -> ResponseTimes:
    """When everything is due at this pace."""
    match pace:
        case TokenRatePace():
            head = _first_token_ms(pace.ttft, pace.prefill, paced_response, chance)
            return _times_after_head(
                head, _times_at_rate(1000 / pace.tokens_per_second, paced_response)
            )
        case ModelledPace():
            latency_model = pace.resolved_latency
            head = _first_token_ms(
                latency_model.ttft, latency_model.prefill, paced_response, chance
            )
            return _times_after_head(
                head, _times_with_gaps(latency_model.gap, paced_response, chance)
            )


def _times_after_head(head: float, slots: Iterable[float]) -> ResponseTimes:
    pieces = tuple(head + at for at in slots)
    return ResponseTimes(head, pieces, pieces[-1] if pieces else head)


def _first_token_ms(
    ttft: Distribution, prefill: Distribution, paced_response: PacedResponse, chance: Chance
) -> float:
    """When the first token is due."""
    begun = draw_ms(ttft, chance("ttft", 0))
    if prefill == NONE:
        return begun
    return begun + draw_ms(prefill, chance("prefill", 0)) * paced_response.prompt_tokens()


def _times_at_rate(number: float, paced_response: PacedResponse) -> Iterator[float]:
    """The times after the head, of pieces whose tokens take `each` ms."""
    if paced_response.is_single_document:
        yield from [number * max(0, paced_response.output_tokens() - 1)] * len(
            paced_response.pieces
        )
        return
    said, share = 0, paced_response.output_tokens() / max(sum(paced_response.output_chars), 1)
    at = 0.0
    for says in paced_response.output_chars:
        said += says
        if says:
            at = number * max(0.0, said * share - 1)
        yield at


def _times_with_gaps(
    gap: Distribution, paced_response: PacedResponse, chance: Chance
) -> Iterator[float]:
    if paced_response.is_single_document:
        yield from [_total_gap(gap, paced_response.output_tokens() - 1, chance)] * len(
            paced_response.pieces
        )
        return
    at, number = 0.0, 0
    for says in paced_response.output_chars:
        if says:
            at += draw_ms(gap, chance("gap", number)) if number else 0.0
            number += 1
        yield at


def _total_gap(gap: Distribution, gaps: int, chance: Chance) -> float:
    rolled = range(1, min(gaps, _ROLLED) + 1)
    took = sum(draw_ms(gap, chance("gap", number)) for number in rolled)
    return took * gaps / len(rolled) if rolled else 0.0


def cap_gaps(times: ResponseTimes, longest: float) -> ResponseTimes:
    """The same, with no silence longer than this many ms: what comes later moves up."""
    head, *pieces, end = _cap_moments((times.head, *times.pieces, times.end), longest)
    return ResponseTimes(head, tuple(pieces), end)


def _cap_moments(moments: Iterable[float], longest: float) -> Iterator[float]:
    at = before = 0.0
    for moment in moments:
        at += min(moment - before, longest)
        before = moment
        yield at
