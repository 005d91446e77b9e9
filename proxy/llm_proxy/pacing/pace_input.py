"""Reads from a recording what pacing needs: its pieces, and the output characters of each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, dialect_response, stored_http_request
from llm_proxy.dialects import OPAQUE, Dialect
from llm_proxy.pacing import tokens
from llm_proxy.pacing.pace import Chunks
from llm_proxy.pacing.timing import PacedResponse


def paced_response(cassette: Cassette, chunks: Chunks | None) -> PacedResponse:
    """The answer of a recording: a piece for each message, or for each recorded read."""
    dialect = cassette_dialect(cassette)
    return (
        _opaque_response(cassette, chunks)
        if dialect.name == OPAQUE.name
        else _decoded_response(cassette, dialect, chunks)
    )


def _opaque_response(cassette: Cassette, chunks: Chunks | None) -> PacedResponse:
    """Nobody knows what says something: each message of a stream, and else each read, may."""
    reads = tuple(read.data for read in cassette.reads)
    pieces = reads if cassette.codec == "whole" else cassette.messages
    says: Sequence[int] = (1,) * len(pieces)
    count = len(pieces)
    if chunks == "recorded":
        pieces, says = reads, tuple(_output_chars_by_read(reads, pieces, says))
    return PacedResponse(pieces, tuple(says), lambda: count, lambda: 0)


def _decoded_response(cassette: Cassette, dialect: Dialect, chunks: Chunks | None) -> PacedResponse:
    response = dialect_response(cassette)
    pieces = tuple(response.messages)
    says = tuple(dialect.output_chars(response.codec, piece) for piece in pieces)
    is_document = response.codec == "whole"
    number = None if is_document else sum(says)

    @cache
    def count() -> int:
        turns = dialect.decode(response)
        characters = tokens.output_characters(turns) if number is None else number
        return tokens.output_tokens(turns, dialect.token_counting, characters)

    @cache
    def prompt() -> int:
        return tokens.prompt_tokens(
            dialect.decode(response), dialect.decode_request(stored_http_request(cassette))
        )

    if chunks == "recorded":
        reads = tuple(read.data for read in cassette.reads)
        pieces, says = reads, tuple(_output_chars_by_read(reads, pieces, says))
    return PacedResponse(pieces, says, count, prompt, is_document)


def _output_chars_by_read(
    reads: Iterable[bytes], messages: Sequence[bytes], says: Sequence[int]
) -> Iterator[int]:
    """How much each read says: what the messages say that end in it."""
    ends = tuple(accumulate(map(len, messages)))
    position = message = 0
    for read in reads:
        position += len(read)
        first, message = message, bisect_right(ends, position, message)
        yield sum(says[first:message])
