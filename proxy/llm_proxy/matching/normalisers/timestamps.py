"""`timestamps`: replaces dates and times by one placeholder.

Relations between times do not count either: two that are equal in one run may be a second apart
in the next.  So all of them become the same placeholder, however they are written.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.normalisers import time_patterns
from llm_proxy.matching.normalisers.definition import NormaliserDefinition
from llm_proxy.matching.normalisers.mapping import map_body_values
from llm_proxy.matching.rules import ApplyRule, NormalizedDocument
from llm_proxy.turns import Json


def _make_document_normaliser(_argument: str) -> ApplyRule:
    return _normalize_timestamps


def _normalize_timestamps(document: KeyDocument) -> NormalizedDocument:
    return NormalizedDocument(map_body_values(document, _mask_value_times))


def _mask_value_times(value: Json, name: str) -> Json:
    match value:
        case str() if time_patterns.EPOCH_NUMBER.fullmatch(value):
            return _mask_epoch_number(value, float(value), name)
        case str():
            return time_patterns.mask_times(value)
        case bool():
            return value
        case int() | float():
            return _mask_epoch_number(value, value, name)
        case _:
            return value


def _mask_epoch_number(value: Json, number: float, name: str) -> Json:
    """Mask a number only if its member has the name of a time."""
    return (
        time_patterns.TIME_MARK
        if time_patterns.is_epoch_time(number) and time_patterns.is_time_name(name)
        else value
    )


TIMESTAMPS: Final = NormaliserDefinition(
    name="timestamps",
    version=1,
    ignored_description="which date or time it is",
    make_document_normaliser=_make_document_normaliser,
)
