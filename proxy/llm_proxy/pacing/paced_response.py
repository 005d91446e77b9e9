"""What there is to be paced of a recording: its pieces, and how much each of them says."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import asked, dialect_of, response_of
from llm_proxy.dialects import OPAQUE, Dialect
from llm_proxy.pacing import tokens
from llm_proxy.pacing.pace import Chunks
from llm_proxy.pacing.timing import Told


def told(cassette: Cassette, chunks: Chunks | None) -> Told:
    """The answer of a recording: a piece for each message, or for each recorded read."""
    dialect = dialect_of(cassette)
    return (
        _opaque(cassette, chunks)
        if dialect.name == OPAQUE.name
        else _read(cassette, dialect, chunks)
    )


def _opaque(cassette: Cassette, chunks: Chunks | None) -> Told:
    """Nobody knows what says something: each message of a stream, and else each read, may."""
    reads = tuple(it.data for it in cassette.reads)
    pieces = reads if cassette.codec == "whole" else cassette.messages
    says: Sequence[int] = (1,) * len(pieces)
    count = len(pieces)
    if chunks == "recorded":
        pieces, says = reads, tuple(_by_read(reads, pieces, says))
    return Told(pieces, tuple(says), lambda: count, lambda: 0)


def _read(cassette: Cassette, dialect: Dialect, chunks: Chunks | None) -> Told:
    """What its dialect reads of it."""
    response = response_of(cassette)
    pieces = tuple(response.messages)
    says = tuple(dialect.says(response.codec, it) for it in pieces)
    is_document = response.codec == "whole"
    said = None if is_document else sum(says)

    @cache
    def count() -> int:
        turns = dialect.turns(response)
        characters = tokens.characters(turns) if said is None else said
        return tokens.answered(turns, dialect.counting, characters)

    @cache
    def prompt() -> int:
        return tokens.asked(dialect.turns(response), dialect.conversation(asked(cassette)))

    if chunks == "recorded":
        reads = tuple(it.data for it in cassette.reads)
        pieces, says = reads, tuple(_by_read(reads, pieces, says))
    return Told(pieces, says, count, prompt, is_document)


def _by_read(
    reads: Iterable[bytes], messages: Sequence[bytes], says: Sequence[int]
) -> Iterator[int]:
    """How much each read says: what the messages say that end in it."""
    ends = tuple(accumulate(map(len, messages)))
    position = message = 0
    for read in reads:
        position += len(read)
        first, message = message, bisect_right(ends, position, message)
        yield sum(says[first:message])
