"""Computes due times for a response whose recorded times are not used.

The head is due with the first token.  A piece with output is due with its last token; a piece
without output is due with the piece before it, or with the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from llm_proxy.chance import seeded_uniform
from llm_proxy.pacing.distributions import ZERO_DURATION, DurationDistribution, draw_ms
from llm_proxy.pacing.pace import ModelledPace, TokenRatePace

IndexedUniformDraw = Callable[[str, int], float]
"""Draws a number from 0 up to 1 for a purpose and the index of the draw; repeatable."""

_MAX_DRAWN_GAPS: Final = 4096
"""How many gaps are drawn for the tokens of a whole body; further gaps take their average."""


@dataclass(frozen=True, slots=True)
class PaceInput:
    """What timing needs of a response: its pieces and token counts."""

    pieces: tuple[bytes, ...]
    output_char_counts: tuple[int, ...]
    """The output characters of each piece: 0 for a piece without output."""
    count_output_tokens: Callable[[], int]
    """Returns the output tokens of the response; called only where needed, since it may decode."""
    count_prompt_tokens: Callable[[], int]
    """Returns the tokens of the request; called only where needed."""
    is_single_document: bool = False
    """Whether it is useful only when complete, so that all pieces are due at one time."""


@dataclass(frozen=True, slots=True)
class ResponseTimes:
    """When the parts of a response are due, in ms since the request was read in full."""

    head_ms: float
    piece_times_ms: tuple[float, ...]
    """The due time of each piece, in order."""
    end_ms: float
    """The due time of the body's end, or of its abort."""


def make_seeded_draw(*values: object) -> IndexedUniformDraw:
    """The draws of one response, identified by `values`: seed, session, key, ordinal."""
    return partial(seeded_uniform, "pace", *values)


def response_times(
    pace: TokenRatePace | ModelledPace, pace_input: PaceInput, draw_uniform: IndexedUniformDraw
) -> ResponseTimes:
    """When the head, the pieces and the end are due at this pace."""
    match pace:
        case TokenRatePace():
            head_ms = _first_token_ms(pace.ttft, pace.prefill, pace_input, draw_uniform)
            return _times_after_head(
                head_ms, _times_at_rate(1000 / pace.tokens_per_second, pace_input)
            )
        case ModelledPace():
            latency_model = pace.resolved_latency
            head_ms = _first_token_ms(
                latency_model.ttft, latency_model.prefill, pace_input, draw_uniform
            )
            return _times_after_head(
                head_ms, _times_with_gaps(latency_model.gap, pace_input, draw_uniform)
            )


def _times_after_head(head_ms: float, offsets_ms: Iterable[float]) -> ResponseTimes:
    pieces_ms = tuple(head_ms + offset_ms for offset_ms in offsets_ms)
    return ResponseTimes(head_ms, pieces_ms, pieces_ms[-1] if pieces_ms else head_ms)


def _first_token_ms(
    ttft: DurationDistribution,
    prefill: DurationDistribution,
    pace_input: PaceInput,
    draw_uniform: IndexedUniformDraw,
) -> float:
    ttft_ms = draw_ms(ttft, draw_uniform("ttft", 0))
    if prefill == ZERO_DURATION:
        return ttft_ms
    return ttft_ms + draw_ms(prefill, draw_uniform("prefill", 0)) * pace_input.count_prompt_tokens()


def _times_at_rate(ms_per_token: float, pace_input: PaceInput) -> Iterator[float]:
    """When each piece is due, in ms after the head."""
    if pace_input.is_single_document:
        yield from [ms_per_token * max(0, pace_input.count_output_tokens() - 1)] * len(
            pace_input.pieces
        )
        return
    sent_chars, tokens_per_char = (
        0,
        pace_input.count_output_tokens() / max(sum(pace_input.output_char_counts), 1),
    )
    offset_ms = 0.0
    for piece_chars in pace_input.output_char_counts:
        sent_chars += piece_chars
        if piece_chars:
            offset_ms = ms_per_token * max(0.0, sent_chars * tokens_per_char - 1)
        yield offset_ms


def _times_with_gaps(
    gap: DurationDistribution, pace_input: PaceInput, draw_uniform: IndexedUniformDraw
) -> Iterator[float]:
    if pace_input.is_single_document:
        yield from [_total_gap_ms(gap, pace_input.count_output_tokens() - 1, draw_uniform)] * len(
            pace_input.pieces
        )
        return
    offset_ms, gap_index = 0.0, 0
    for piece_chars in pace_input.output_char_counts:
        if piece_chars:
            offset_ms += draw_ms(gap, draw_uniform("gap", gap_index)) if gap_index else 0.0
            gap_index += 1
        yield offset_ms


def _total_gap_ms(
    gap: DurationDistribution, gap_count: int, draw_uniform: IndexedUniformDraw
) -> float:
    drawn_indexes = range(1, min(gap_count, _MAX_DRAWN_GAPS) + 1)
    drawn_ms = sum(draw_ms(gap, draw_uniform("gap", number)) for number in drawn_indexes)
    return drawn_ms * gap_count / len(drawn_indexes) if drawn_indexes else 0.0


def cap_gaps(times: ResponseTimes, max_gap_ms: float) -> ResponseTimes:
    """The times with no gap longer than `max_gap_ms`: everything after a longer gap moves up."""
    head, *pieces, end = _cap_times(
        (times.head_ms, *times.piece_times_ms, times.end_ms), max_gap_ms
    )
    return ResponseTimes(head, tuple(pieces), end)


def _cap_times(times_ms: Iterable[float], max_gap_ms: float) -> Iterator[float]:
    capped_ms = previous_ms = 0.0
    for time_ms in times_ms:
        capped_ms += min(time_ms - previous_ms, max_gap_ms)
        previous_ms = time_ms
        yield capped_ms
