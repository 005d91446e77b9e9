"""Places citations at their texts; Google sends their passages as byte offsets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from llm_proxy.turns import Citation, Part, Text

_UTF8_HIGH_BITS: Final = 0xC0
_UTF8_CONTINUATION: Final = 0x80
"""The high bits of a continuation byte in UTF-8."""


@dataclass(frozen=True, slots=True)
class LocatedCitation:
    """A citation, and the passage that it supports: byte offsets in all text of the response."""

    citation: Citation
    start_byte: int | None = None
    end_byte: int | None = None


def is_valid_span(span: tuple[int, int] | None, text: str) -> bool:
    """Whether the span (start, end) is in the text and not empty."""
    return span is not None and 0 <= span[0] < span[1] <= len(text)


def has_more_than_text(part: Part) -> bool:
    """Whether the part is a text with citations or metadata, which is sent without words, too."""
    return isinstance(part, Text) and bool(part.citations or part.metadata)


def byte_offsets(text: str) -> Sequence[int]:
    """The byte offset (UTF-8) of each character offset, up to the end of the text."""
    if text.isascii():
        return range(len(text) + 1)
    return list(accumulate((len(character.encode()) for character in text), initial=0))


def attach_citations(
    parts: tuple[Part, ...], located_citations: Iterable[LocatedCitation]
) -> tuple[Part, ...]:
    """The parts with these citations, each once, at the text in which its passage ends.

    A citation without a passage, or with an invalid one, goes to the last text, without a span.
    Where the parts have no text, an empty one is added.
    """
    unique = {  # streams repeat citations
        (*_source(located.citation), located.start_byte, located.end_byte): located
        for located in located_citations
    }.values()
    if not unique:
        return parts
    if not any(isinstance(part, Text) for part in parts):
        parts = (*parts, Text(""))
    texts = [part.text for part in parts if isinstance(part, Text)]
    text_starts = list(accumulate(map(len, texts), initial=0))
    char_of_byte = _char_offsets("".join(texts))
    citations_by_text: list[list[Citation]] = [[] for _ in texts]
    for located in unique:
        text_index, span = len(texts) - 1, None
        start_byte, end_byte = located.start_byte or 0, located.end_byte
        if end_byte is not None and 0 <= start_byte < end_byte < len(char_of_byte):
            start, end = char_of_byte[start_byte], char_of_byte[end_byte]
            text_index = max(bisect_left(text_starts, end) - 1, 0)
            text_start = text_starts[text_index]
            span = (max(start - text_start, 0), end - text_start)
        citations_by_text[text_index].append(replace(located.citation, span=span))
    remaining = iter(citations_by_text)
    return tuple(
        replace(part, citations=(*part.citations, *next(remaining)))
        if isinstance(part, Text)
        else part
        for part in parts
    )


def unique_citations(citations: Iterable[Citation]) -> tuple[Citation, ...]:
    """The first citation of each source for each span."""
    unique: dict[tuple[object, ...], Citation] = {}
    for citation in citations:
        unique.setdefault((*_source(citation), citation.span), citation)
    return tuple(unique.values())


def _source(citation: Citation) -> tuple[str, str, str]:
    return citation.url, citation.title, citation.quoted


def _char_offsets(text: str) -> range | list[int]:
    """For each byte offset, the number of characters that begin before it."""
    if text.isascii():
        return range(len(text) + 1)
    starts_character = ((byte & _UTF8_HIGH_BITS) != _UTF8_CONTINUATION for byte in text.encode())
    return list(accumulate(starts_character, initial=0))
