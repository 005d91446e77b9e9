"""Reads the input of pacing from a recording: its pieces, and the output characters of each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, stored_dialect_response
from llm_proxy.dialects import OPAQUE, Dialect
from llm_proxy.pacing import tokens
from llm_proxy.pacing.pace import Chunks
from llm_proxy.pacing.timing import PaceInput


def read_pace_input(cassette: Cassette, chunks: Chunks | None) -> PaceInput:
    """The response of a recording: one piece per message, or per read for recorded chunks."""
    dialect = cassette_dialect(cassette)
    return (
        _opaque_pace_input(cassette, chunks)
        if dialect.name == OPAQUE.name
        else _decoded_pace_input(cassette, dialect, chunks)
    )


def _opaque_pace_input(cassette: Cassette, chunks: Chunks | None) -> PaceInput:
    """Counts each message, or each read of a whole body, as output: its contents are unknown."""
    reads = tuple(read.received_bytes for read in cassette.reads)
    pieces = reads if cassette.codec_name == "whole" else cassette.framed_messages
    output_chars: Sequence[int] = (1,) * len(pieces)
    token_count = len(pieces)
    if chunks == "recorded":
        pieces, output_chars = reads, tuple(_output_chars_by_read(reads, pieces, output_chars))
    return PaceInput(pieces, tuple(output_chars), lambda: token_count, lambda: 0)


def _decoded_pace_input(cassette: Cassette, dialect: Dialect, chunks: Chunks | None) -> PaceInput:
    response = stored_dialect_response(cassette)
    pieces = tuple(response.framed_messages)
    output_chars = tuple(dialect.output_chars(response.codec_name, piece) for piece in pieces)
    is_document = response.codec_name == "whole"
    streamed_chars = None if is_document else sum(output_chars)

    @cache
    def count_output_tokens() -> int:
        turns = dialect.decode_response(response)
        characters = tokens.count_output_chars(turns) if streamed_chars is None else streamed_chars
        return tokens.count_output_tokens(turns, dialect.token_counting, characters)

    @cache
    def count_prompt_tokens() -> int:
        return tokens.count_prompt_tokens(
            dialect.decode_response(response), dialect.decode_request(cassette.request)
        )

    if chunks == "recorded":
        reads = tuple(read.received_bytes for read in cassette.reads)
        pieces, output_chars = reads, tuple(_output_chars_by_read(reads, pieces, output_chars))
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
