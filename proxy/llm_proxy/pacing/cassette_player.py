"""Plans the actions that replay a cassette at a pace, from its pieces and their characters."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import Final

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, stored_dialect_response
from llm_proxy.dialects import OPAQUE
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.pacing import tokens
from llm_proxy.pacing.pace import (
    Chunks,
    InstantPace,
    ModelledPace,
    Pace,
    RecordedPace,
    TokenRatePace,
)
from llm_proxy.pacing.timing import (
    IndexedUniformDraw,
    PaceInput,
    ResponseTimes,
    abort_of_ending,
    pace_actions,
    response_times,
)
from llm_proxy.timeline import message_arrivals

_NUMBER_PATTERN: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_RETRY_DELAY_HEADERS: Final = frozenset(("retry-after", "retry-after-ms"))
_FAST_BODY_BYTES: Final = 2 * 1024
"""The size of a body that is decoded within a ms."""
_FAST_PIECE_COUNT: Final = 500
"""The number of pieces whose times are computed within a few ms."""
_RECORDED_CHUNKS: Final = (None, "recorded")
"""The values of `Pace.chunks` that keep the reads of a recording as its pieces."""


def replay_actions(
    cassette: Cassette,
    pace: Pace,
    draw_uniform: IndexedUniformDraw,
    cached_input: PaceInput | None = None,
) -> Burst:
    """The actions that replay a recording at this pace.

    `Retry-After` and `Retry-After-Ms` are scaled with the speed, never beyond the recorded delay.
    `cached_input` is the result of `read_pace_input`, where the caller has it.
    """
    head = _replayed_head(cassette, pace)
    abort = abort_of_ending(cassette.response_end.ending)
    ending_actions: Burst = () if abort is None else (abort,)
    if isinstance(pace, InstantPace) and pace.chunks in _RECORDED_CHUNKS:  # thousands per second
        return (
            Begin(head),
            *[Send(read.received_bytes) for read in cassette.reads],
            *ending_actions,
        )
    if isinstance(pace, TokenRatePace | ModelledPace):
        pace_input = cached_input or read_pace_input(cassette, pace.chunks)
        pieces, times = pace_input.pieces, response_times(pace, pace_input, draw_uniform)
    else:
        pieces, times = _recorded_pieces(cassette, pace)
    return (*pace_actions(head, pieces, times, pace), *ending_actions)


def is_slow_to_plan(cassette: Cassette, pace: Pace, cached_input: PaceInput | None = None) -> bool:
    """Whether computing the actions may take so long that it must not block other requests."""
    if isinstance(pace, InstantPace) and pace.chunks in _RECORDED_CHUNKS:
        return False
    must_decode = isinstance(pace, TokenRatePace | ModelledPace) and cached_input is None
    if (
        must_decode or pace.chunks not in _RECORDED_CHUNKS
    ) and cassette.response_end.size_bytes > _FAST_BODY_BYTES:
        return True
    return len(cassette.reads if cached_input is None else cached_input.pieces) > _FAST_PIECE_COUNT


def replay_due_ms(pace: RecordedPace | InstantPace, recorded_ms: float) -> float:
    """When something recorded at `recorded_ms` is due in the replay, in ms."""
    match pace:
        case RecordedPace(speed):
            return recorded_ms / speed
        case InstantPace():
            return 0.0


def _recorded_pieces(
    cassette: Cassette, pace: RecordedPace | InstantPace
) -> tuple[tuple[bytes, ...], ResponseTimes]:
    if pace.chunks in ("event", "token"):
        arrivals = message_arrivals(cassette.framed_messages, cassette.reads)
        timed_pieces = [(arrival.at_ms, arrival.message_bytes) for arrival in arrivals]
    else:
        timed_pieces = [(read.at_ms, read.received_bytes) for read in cassette.reads]
    due_times_ms = tuple(replay_due_ms(pace, at) for at, _ in timed_pieces)
    times = ResponseTimes(
        replay_due_ms(pace, cassette.response_head_at_ms),
        due_times_ms,
        replay_due_ms(pace, cassette.response_end.at_ms),
    )
    return tuple(data for _, data in timed_pieces), times


def _replayed_head(cassette: Cassette, pace: Pace) -> ResponseHead:
    head, size = cassette.response_head, cassette.response_end.size_bytes
    length = head.content_length
    if head.framing == "length":
        # A body that was cut must stay shorter than the declared length.
        is_cut = cassette.response_end.ending is not Ending.CLEAN
        length = max(head.content_length or 0, size + 1) if is_cut else size
    headers = head.headers
    if isinstance(pace, RecordedPace | InstantPace):
        headers = tuple((name, _scale_retry_after(name, value, pace)) for name, value in headers)
    return ResponseHead(head.status, head.reason, headers, head.framing, length)


def _scale_retry_after(name: str, value: str, pace: RecordedPace | InstantPace) -> str:
    """`Retry-After` in s or ms, divided by the pace's speed; HTTP dates and other headers stay."""
    if name.lower() not in _RETRY_DELAY_HEADERS or _NUMBER_PATTERN.fullmatch(value) is None:
        return value
    recorded_delay = float(value)
    # RFC 9110 allows integers only.
    scaled_delay = math.ceil(min(recorded_delay, replay_due_ms(pace, recorded_delay)))
    return str(scaled_delay) if scaled_delay < recorded_delay else value


def read_pace_input(cassette: Cassette, chunks: Chunks | None) -> PaceInput:
    """The response of a recording: one piece per message, or per read for recorded chunks.

    Of an opaque response, whose contents are unknown, each message, or each read of a whole body,
    counts as a token.
    """
    dialect = cassette_dialect(cassette)
    reads = tuple(read.received_bytes for read in cassette.reads)
    output_chars: tuple[int, ...]
    is_document = False
    if dialect.name == OPAQUE.name:
        pieces = reads if cassette.codec_name == "whole" else tuple(cassette.framed_messages)
        message_count = len(pieces)
        output_chars = (1,) * message_count
        count_output_tokens, count_prompt_tokens = (lambda: message_count), (lambda: 0)
    else:
        response = stored_dialect_response(cassette)
        pieces = tuple(response.framed_messages)
        output_chars = tuple(dialect.output_chars(response.codec_name, piece) for piece in pieces)
        is_document = response.codec_name == "whole"
        streamed_chars = None if is_document else sum(output_chars)

        @cache
        def count_output_tokens() -> int:
            turns = dialect.decode_response(response)
            characters = (
                tokens.count_output_chars(turns) if streamed_chars is None else streamed_chars
            )
            return tokens.count_output_tokens(turns, dialect.token_counting, characters)

        @cache
        def count_prompt_tokens() -> int:
            return tokens.count_prompt_tokens(
                dialect.decode_response(response), dialect.decode_request(cassette.request)
            )

    if chunks == "recorded":
        output_chars = tuple(_output_chars_by_read(reads, pieces, output_chars))
        pieces = reads
    return PaceInput(pieces, output_chars, count_output_tokens, count_prompt_tokens, is_document)


def _output_chars_by_read(
    reads: Iterable[bytes], messages: Sequence[bytes], output_chars: Sequence[int]
) -> Iterator[int]:
    """The output characters of each read: those of the messages that end in it."""
    message_ends = tuple(accumulate(map(len, messages)))
    offset = message_index = 0
    for read in reads:
        offset += len(read)
        first_index, message_index = (
            message_index,
            bisect_right(message_ends, offset, message_index),
        )
        yield sum(output_chars[first_index:message_index])
