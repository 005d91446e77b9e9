"""`whitespace`: how much white space there is between words, and which, does not count."""

from __future__ import annotations

from typing import Final

from llm_proxy.matching.document import Document
from llm_proxy.matching.normalisers.kind import Kind
from llm_proxy.matching.normalisers.mapping import with_texts
from llm_proxy.matching.rules import Apply, Normalised


def _make(_argument: str) -> Apply:
    return _apply


def _apply(document: Document) -> Normalised:
    return Normalised(with_texts(document, _single))


def _single(text: str) -> str:
    return " ".join(text.split())


WHITESPACE: Final = Kind(
    name="whitespace",
    version=1,
    overlooks="how much white space there is in texts",
    make=_make,
)
