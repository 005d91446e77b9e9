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
    unique = {
        _citation_identity(located_citation): located_citation
        for located_citation in located_citations
    }.values()
    if not unique:
        return parts
    if not any(isinstance(part, Text) for part in parts):
        parts = (*parts, Text(""))
    texts = [part for part in parts if isinstance(part, Text)]
    collector = _CitedTexts(texts)
    for located_citation in unique:
        collector.add_citation(located_citation)
    cited_texts = iter(collector.cited_texts())
    return tuple(next(cited_texts) if isinstance(part, Text) else part for part in parts)


def _citation_identity(located_citation: LocatedCitation) -> tuple[object, ...]:
    """The key for removing duplicates: streams repeat citations."""
    return (
        located_citation.citation.url,
        located_citation.citation.title,
        located_citation.citation.quoted,
        located_citation.start_byte,
        located_citation.end_byte,
    )


class _CitedTexts:
    """Consecutive texts, and the citations of each."""

    def __init__(self, texts: list[Text]) -> None:
        self._texts = texts
        self._text_starts = list(accumulate((len(text.text) for text in texts), initial=0))
        """The character offset of each text in their concatenation, and the end of the last."""
        self._char_of_byte = _char_offsets("".join(text.text for text in texts))
        self._citations_by_text: dict[int, list[Citation]] = {}

    def add_citation(self, located_citation: LocatedCitation) -> None:
        """Add a citation to the text in which its passage ends."""
        text_index, span = len(self._texts) - 1, None
        if located_citation.end_byte is not None and 0 <= (
            located_citation.start_byte or 0
        ) < located_citation.end_byte < len(self._char_of_byte):
            start, end = (
                self._char_of_byte[located_citation.start_byte or 0],
                self._char_of_byte[located_citation.end_byte],
            )
            text_index = max(bisect_left(self._text_starts, end) - 1, 0)
            text_start = self._text_starts[text_index]
            span = (max(start - text_start, 0), end - text_start)
        self._citations_by_text.setdefault(text_index, []).append(
            replace(located_citation.citation, span=span)
        )

    def cited_texts(self) -> list[Text]:
        """The texts with their citations."""
        return [
            replace(text, citations=(*text.citations, *self._citations_by_text.get(index, ())))
            for index, text in enumerate(self._texts)
        ]


def _char_offsets(text: str) -> range | list[int]:
    """For each byte offset, the number of characters that begin before it."""
    if text.isascii():
        return range(len(text) + 1)
    starts_character = ((byte & _UTF8_HIGH_BITS) != _UTF8_CONTINUATION for byte in text.encode())
    return list(accumulate(starts_character, initial=0))
