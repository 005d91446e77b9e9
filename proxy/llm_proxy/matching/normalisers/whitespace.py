"""`whitespace`: collapses runs of white space."""

from __future__ import annotations

from typing import Final

from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.normalisers.mapping import map_body_texts
from llm_proxy.matching.rules import NormaliserDefinition, NormalizedDocument


def _normalize_whitespace(document: KeyDocument) -> NormalizedDocument:
    return NormalizedDocument(map_body_texts(document, lambda text: " ".join(text.split())))


WHITESPACE: Final = NormaliserDefinition("whitespace", 1, lambda _argument: _normalize_whitespace)
