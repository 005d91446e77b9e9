"""Citations whose passages Google gives in bytes of the text."""

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
class Cited:
    """A source, and the passage that rests on it: bytes of all text that the model wrote."""

    citation: Citation
    start: int | None = None
    end: int | None = None


def is_span(span: tuple[int, int] | None, text: str) -> bool:
    """Whether these characters are some of the text's."""
    return span is not None and 0 <= span[0] < span[1] <= len(text)


def byte_offsets(text: str) -> Sequence[int]:
    """For each offset in characters, the bytes before it."""
    if text.isascii():
        return range(len(text) + 1)
    return list(accumulate((len(it.encode()) for it in text), initial=0))


def cite(parts: tuple[Part, ...], cited: Iterable[Cited]) -> tuple[Part, ...]:
    """The parts with these citations, each once, at the text in which its passage ends.

    A source without a passage, or with one that the text does not have, stands at the last text,
    or at an empty one where there is none.
    """
    once = {_identity(it): it for it in cited}.values()
    if not once:
        return parts
    if not any(isinstance(part, Text) for part in parts):
        parts = (*parts, Text(""))
    texts = [part for part in parts if isinstance(part, Text)]
    places = _Places(texts)
    for it in once:
        places.add(it)
    having = iter(places.texts())
    return tuple(next(having) if isinstance(part, Text) else part for part in parts)


def _identity(it: Cited) -> tuple[object, ...]:
    """What tells citations apart; streams repeat those that they gave before."""
    return it.citation.url, it.citation.title, it.citation.quoted, it.start, it.end


class _Places:
    """Texts that follow one another, and what is cited in them."""

    def __init__(self, texts: list[Text]) -> None:
        self._texts = texts
        self._starts = list(accumulate((len(it.text) for it in texts), initial=0))
        """Where each text begins in all of them, and where the last ends."""
        self._offsets = _character_offsets("".join(it.text for it in texts))
        self._found: dict[int, list[Citation]] = {}

    def add(self, it: Cited) -> None:
        """Put a citation where its passage ends."""
        which, span = len(self._texts) - 1, None
        if it.end is not None and 0 <= (it.start or 0) < it.end < len(self._offsets):
            start, end = self._offsets[it.start or 0], self._offsets[it.end]
            which = max(bisect_left(self._starts, end) - 1, 0)
            begin = self._starts[which]
            span = (max(start - begin, 0), end - begin)
        self._found.setdefault(which, []).append(replace(it.citation, span=span))

    def texts(self) -> list[Text]:
        """The texts with their citations."""
        return [
            replace(text, citations=(*text.citations, *self._found.get(at, ())))
            for at, text in enumerate(self._texts)
        ]


def _character_offsets(text: str) -> range | list[int]:
    """For each offset in bytes, the characters that begin before it."""
    if text.isascii():
        return range(len(text) + 1)
    begins = ((byte & _HIGH_BITS) != _CONTINUES for byte in text.encode())
    return list(accumulate(begins, initial=0))
