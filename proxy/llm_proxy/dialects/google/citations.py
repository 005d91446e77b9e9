"""Places citations that Google gives in byte offsets of the text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from llm_proxy.turns import Citation, Part, Text

_HIGH_BITS: Final = 0xC0
_CONTINUES: Final = 0x80
"""The high bits of a byte that continues a UTF-8 character."""


@dataclass(frozen=True, slots=True)
class LocatedCitation:
    """A source, and the passage that rests on it: bytes of all text that the model wrote."""

    citation: Citation
    start: int | None = None
    end: int | None = None


def is_valid_span(span: tuple[int, int] | None, text: str) -> bool:
    """Whether these characters are some of the text's."""
    return span is not None and 0 <= span[0] < span[1] <= len(text)


def byte_offsets(text: str) -> Sequence[int]:
    """For each offset in characters, the bytes before it."""
    if text.isascii():
        return range(len(text) + 1)
    return list(accumulate((len(content.encode()) for content in text), initial=0))


def attach_citations(parts: tuple[Part, ...], cited: Iterable[LocatedCitation]) -> tuple[Part, ...]:
    """The parts with these citations, each once, at the text in which its passage ends.

    A source without a passage, or with one that the text does not have, stands at the last text,
    or at an empty one where there is none.
    """
    once = {
        _citation_identity(located_citation): located_citation for located_citation in cited
    }.values()
    if not once:
        return parts
    if not any(isinstance(part, Text) for part in parts):
        parts = (*parts, Text(""))
    texts = [part for part in parts if isinstance(part, Text)]
    places = _CitedTexts(texts)
    for located_citation in once:
        places.add(located_citation)
    having = iter(places.cited_texts())
    return tuple(next(having) if isinstance(part, Text) else part for part in parts)


def _citation_identity(located_citation: LocatedCitation) -> tuple[object, ...]:
    """What tells citations apart; streams repeat those that they gave before."""
    return (
        located_citation.citation.url,
        located_citation.citation.title,
        located_citation.citation.quoted,
        located_citation.start,
        located_citation.end,
    )


class _CitedTexts:
    """Texts that follow one another, and what is cited in them."""

    def __init__(self, texts: list[Text]) -> None:
        self._texts = texts
        self._starts = list(accumulate((len(text.text) for text in texts), initial=0))
        """Where each text begins in all of them, and where the last ends."""
        self._offsets = _char_offsets("".join(text.text for text in texts))
        self._found: dict[int, list[Citation]] = {}

    def add(self, located_citation: LocatedCitation) -> None:
        """Put a citation where its passage ends."""
        which, span = len(self._texts) - 1, None
        if located_citation.end is not None and 0 <= (
            located_citation.start or 0
        ) < located_citation.end < len(self._offsets):
            start, end = (
                self._offsets[located_citation.start or 0],
                self._offsets[located_citation.end],
            )
            which = max(bisect_left(self._starts, end) - 1, 0)
            begin = self._starts[which]
            span = (max(start - begin, 0), end - begin)
        self._found.setdefault(which, []).append(replace(located_citation.citation, span=span))

    def cited_texts(self) -> list[Text]:
        """The texts with their citations."""
        return [
            replace(text, citations=(*text.citations, *self._found.get(at, ())))
            for at, text in enumerate(self._texts)
        ]


def _char_offsets(text: str) -> range | list[int]:
    """For each offset in bytes, the characters that begin before it."""
    if text.isascii():
        return range(len(text) + 1)
    begins = ((byte & _HIGH_BITS) != _CONTINUES for byte in text.encode())
    return list(accumulate(begins, initial=0))
