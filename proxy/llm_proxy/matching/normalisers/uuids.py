"""`uuids`: replaces UUIDs by positional aliases."""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.normalisers.definition import NormaliserDefinition
from llm_proxy.matching.normalisers.mapping import AliasTable, replace_matches
from llm_proxy.matching.rules import ApplyRule, NormalizedDocument

_UUID: Final = re.compile(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
    r"(?![0-9A-Za-z])"
)


def _make_document_normaliser(_argument: str) -> ApplyRule:
    return _normalize_uuids


def _normalize_uuids(document: KeyDocument) -> NormalizedDocument:
    return replace_matches(document, _UUID, AliasTable("uuid"))


UUIDS: Final = NormaliserDefinition(
    name="uuids",
    version=1,
    ignored_description="which UUID it is",
    make_document_normaliser=_make_document_normaliser,
)
