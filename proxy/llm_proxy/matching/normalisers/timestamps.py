"""`timestamps`: which date or time it is does not count, but that there is one.

Relations between times do not count either: two that are the same in one run may be a second apart
in the next.  So all of them become one mark, in whatever way they are written.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.matching.document import Document
from llm_proxy.matching.normalisers import time_patterns
from llm_proxy.matching.normalisers.kind import Kind
from llm_proxy.matching.normalisers.mapping import with_values
from llm_proxy.matching.rules import Apply, Normalised
from llm_proxy.turns import Json


def _make(_argument: str) -> Apply:
    return _apply


def _apply(document: Document) -> Normalised:
    return Normalised(with_values(document, _timeless))


def _timeless(value: Json, name: str) -> Json:
    match value:
        case str() if time_patterns.NUMBER.fullmatch(value):
            return _numbered(value, float(value), name)
        case str():
            return time_patterns.timeless(value)
        case bool():
            return value
        case int() | float():
            return _numbered(value, value, name)
        case _:
            return value


def _numbered(value: Json, number: float, name: str) -> Json:
    """A number is a time only where the name that it stands under says so."""
    return (
        time_patterns.MARK
        if time_patterns.is_epoch(number) and time_patterns.tells_time(name)
        else value
    )


TIMESTAMPS: Final = Kind(
    name="timestamps",
    version=1,
    overlooks="which date or time it is",
    make=_make,
)
