"""`whitespace`: collapses runs of white space."""

from __future__ import annotations

from typing import Final

from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.normalisers.definition import NormaliserDefinition
from llm_proxy.matching.normalisers.mapping import map_body_texts
from llm_proxy.matching.rules import ApplyRule, NormalizedDocument


def _make_document_normaliser(_argument: str) -> ApplyRule:
    return _normalize_whitespace


def _normalize_whitespace(document: KeyDocument) -> NormalizedDocument:
    return NormalizedDocument(map_body_texts(document, _collapse_whitespace))


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())


WHITESPACE: Final = NormaliserDefinition(
    name="whitespace",
    version=1,
    ignored_description="how much white space there is in texts",
    make_document_normaliser=_make_document_normaliser,
)
