"""`uuids`: replaces UUIDs by positional aliases."""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.normalisers.mapping import AliasTable, map_body_texts
from llm_proxy.matching.rules import NormaliserDefinition, NormalizedDocument

_UUID: Final = re.compile(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
    r"(?![0-9A-Za-z])"
)


def _normalize_uuids(document: KeyDocument) -> NormalizedDocument:
    aliases = AliasTable("uuid")
    document = map_body_texts(
        document, lambda text: _UUID.sub(lambda found: aliases.alias_of(found[0]), text)
    )
    return NormalizedDocument(document, aliases.value_by_alias())


UUIDS: Final = NormaliserDefinition("uuids", 1, lambda _argument: _normalize_uuids)
