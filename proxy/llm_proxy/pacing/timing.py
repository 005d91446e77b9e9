"""When each piece of a response is due, and the actions that send the pieces then.

Where no recorded times are used, the head is due with the first token.  A piece with output is due
with its last token; a piece without output is due with the piece before it, or with the head.

Chunks other than the recorded ones split a body into other pieces without changing its bytes.  A
new piece is due when its last byte was due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from llm_proxy.actions import Abort, Action, Begin, Burst, Send, Wait
from llm_proxy.chance import seeded_uniform
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.pacing.distributions import ZERO_DURATION, DurationDistribution, draw_ms
from llm_proxy.pacing.pace import Chunks, LatencyProfile, ModelledPace, Pace, TokenRatePace

IndexedUniformDraw = Callable[[str, int], float]
"""Draws a number from 0 up to 1 for a purpose and the index of the draw; repeatable."""

_MAX_DRAWN_GAPS: Final = 4096
"""How many gaps are drawn for the tokens of a whole body; further gaps take their average."""

TimedPiece = tuple[float, bytes]
"""A due time, in ms since the request was read in full, and the bytes to send together."""

_MAX_PIECES: Final = 100_000
"""Limits memory: every piece takes some, whatever the body's size."""


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
    latency: TokenRatePace | LatencyProfile
    if isinstance(pace, TokenRatePace):
        latency = pace
        offsets_ms = _times_at_rate(1000 / pace.tokens_per_second, pace_input)
    else:
        latency = pace.resolved_latency
        offsets_ms = _times_with_gaps(latency.gap, pace_input, draw_uniform)
    head_ms = draw_ms(latency.ttft, draw_uniform("ttft", 0))
    if latency.prefill != ZERO_DURATION:
        prefill_ms = draw_ms(latency.prefill, draw_uniform("prefill", 0))
        head_ms += prefill_ms * pace_input.count_prompt_tokens()
    pieces_ms = tuple(head_ms + offset_ms for offset_ms in offsets_ms)
    return ResponseTimes(head_ms, pieces_ms, pieces_ms[-1] if pieces_ms else head_ms)


def _times_at_rate(ms_per_token: float, pace_input: PaceInput) -> Iterator[float]:
    """When each piece is due, in ms after the head."""
    token_count = pace_input.count_output_tokens()
    if pace_input.is_single_document:
        yield from [ms_per_token * max(0, token_count - 1)] * len(pace_input.pieces)
        return
    tokens_per_char = token_count / max(sum(pace_input.output_char_counts), 1)
    sent_chars, offset_ms = 0, 0.0
    for piece_chars in pace_input.output_char_counts:
        sent_chars += piece_chars
        if piece_chars:
            offset_ms = ms_per_token * max(0.0, sent_chars * tokens_per_char - 1)
        yield offset_ms


def _times_with_gaps(
    gap: DurationDistribution, pace_input: PaceInput, draw_uniform: IndexedUniformDraw
) -> Iterator[float]:
    if pace_input.is_single_document:
        gap_count = pace_input.count_output_tokens() - 1
        drawn_indexes = range(1, min(gap_count, _MAX_DRAWN_GAPS) + 1)
        total_ms = sum(draw_ms(gap, draw_uniform("gap", index)) for index in drawn_indexes)
        if drawn_indexes:
            total_ms = total_ms * gap_count / len(drawn_indexes)
        yield from [total_ms] * len(pace_input.pieces)
        return
    offset_ms, gap_index = 0.0, 0
    for piece_chars in pace_input.output_char_counts:
        if piece_chars:
            offset_ms += draw_ms(gap, draw_uniform("gap", gap_index)) if gap_index else 0.0
            gap_index += 1
        yield offset_ms


def pace_actions(
    head: ResponseHead, pieces: Sequence[bytes], times: ResponseTimes, pace: Pace
) -> Burst:
    """The actions that send these pieces at these times, by the chunks and gap limit of `pace`."""
    timed_pieces = rechunk(zip(times.piece_times_ms, pieces, strict=True), pace.chunks)
    if pace.max_gap is not None:  # the limit holds for the pieces that are sent, after rechunking
        timed_pieces = tuple(timed_pieces)
        times = cap_gaps(
            ResponseTimes(times.head_ms, tuple(due_ms for due_ms, _ in timed_pieces), times.end_ms),
            pace.max_gap,
        )
        timed_pieces = zip(times.piece_times_ms, (piece for _, piece in timed_pieces), strict=True)
    last_due_ms = max(times.head_ms, 0.0)
    actions: list[Action] = [Wait(last_due_ms)] if last_due_ms else []
    actions.append(Begin(head))
    for due_ms, piece in timed_pieces:
        if due_ms > last_due_ms:
            actions.append(Wait(due_ms))
            last_due_ms = due_ms
        actions.append(Send(piece))
    if times.end_ms > last_due_ms:
        actions.append(Wait(times.end_ms))
    return tuple(actions)


def cap_gaps(times: ResponseTimes, max_gap_ms: float) -> ResponseTimes:
    """The times with no gap longer than `max_gap_ms`: everything after a longer gap moves up."""
    capped_times_ms: list[float] = []
    capped_ms = previous_ms = 0.0
    for time_ms in (times.head_ms, *times.piece_times_ms, times.end_ms):
        capped_ms += min(time_ms - previous_ms, max_gap_ms)
        previous_ms = time_ms
        capped_times_ms.append(capped_ms)
    head_ms, *piece_times_ms, end_ms = capped_times_ms
    return ResponseTimes(head_ms, tuple(piece_times_ms), end_ms)


def rechunk(pieces: Iterable[TimedPiece], chunks: Chunks | None) -> Iterable[TimedPiece]:
    """The pieces cut to a size in bytes, or coalesced; other values of `chunks` keep them."""
    match chunks:
        case int(piece_bytes):
            return _cut_to_size(pieces, piece_bytes)
        case "coalesced":
            pieces = tuple(pieces)
            body = b"".join(data for _, data in pieces)
            return [(pieces[-1][0], body)] if body else []
        case _:
            return pieces


def _cut_to_size(pieces: Iterable[TimedPiece], piece_bytes: int) -> Iterator[TimedPiece]:
    """Pieces of `piece_bytes` bytes; the last one has the remaining bytes.

    After `_MAX_PIECES` pieces the rest keeps its original pieces.
    """
    buffered = bytearray()
    last_due_ms, piece_count = 0.0, 0
    for due_ms, data in pieces:
        buffered += data
        last_due_ms = due_ms
        cut_bytes = min(len(buffered) // piece_bytes, _MAX_PIECES - piece_count) * piece_bytes
        yield from (
            (due_ms, bytes(buffered[start : start + piece_bytes]))
            for start in range(0, cut_bytes, piece_bytes)
        )
        piece_count += cut_bytes // piece_bytes
        del buffered[:cut_bytes]
        if piece_count == _MAX_PIECES and buffered:
            yield due_ms, bytes(buffered)
            buffered.clear()
    if buffered:
        yield last_due_ms, bytes(buffered)


def abort_of_ending(ending: Ending) -> Abort | None:
    """The abort that reproduces a recorded ending; None for a clean end."""
    match ending:
        case Ending.CLEAN:
            return None
        case Ending.FIN | Ending.CLIENT_GONE | Ending.RECORDER_ERROR | Ending.KILLED:
            return Abort("fin")
        case Ending.RST | Ending.STALLED | Ending.MALFORMED:
            return Abort("rst")
