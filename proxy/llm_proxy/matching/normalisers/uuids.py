"""`uuids`: which UUID it is does not count, but where the same one stands again."""

from __future__ import annotations

import re
from typing import Final

from llm_proxy.matching.document import Document
from llm_proxy.matching.normalisers.kind import Kind
from llm_proxy.matching.normalisers.mapping import Names, named
from llm_proxy.matching.rules import Apply, Normalised

_UUID: Final = re.compile(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
    r"(?![0-9A-Za-z])"
)


def _make(_argument: str) -> Apply:
    return _apply


def _apply(document: Document) -> Normalised:
    return named(document, _UUID, Names("uuid"))


UUIDS: Final = Kind(name="uuids", version=1, overlooks="which UUID it is", make=_make)
