"""`timestamps`: replaces dates and times by one mark.

Relations between times do not count either: two that are the same in one run may be a second apart
in the next.  So all of them become one mark, in whatever way they are written.
"""

from __future__ import annotations

from typing import Final

from llm_proxy.matching.document import KeyDocument
from llm_proxy.matching.normalisers import time_patterns
from llm_proxy.matching.normalisers.definition import NormaliserKind
from llm_proxy.matching.normalisers.mapping import map_body_values
from llm_proxy.matching.rules import Apply, NormalizedDocument
from llm_proxy.turns import Json


def _make_rule(_argument: str) -> Apply:
    return _apply_rule


def _apply_rule(document: KeyDocument) -> NormalizedDocument:
    return NormalizedDocument(map_body_values(document, _mask_times_in))


def _mask_times_in(value: Json, name: str) -> Json:
    match value:
        case str() if time_patterns.NUMBER.fullmatch(value):
            return _mask_epoch(value, float(value), name)
        case str():
            return time_patterns.mask_times(value)
        case bool():
            return value
        case int() | float():
            return _mask_epoch(value, value, name)
        case _:
            return value


def _mask_epoch(value: Json, number: float, name: str) -> Json:
    """A number is a time only where the name that it stands under says so."""
    return (
        time_patterns.MARK
        if time_patterns.is_epoch_time(number) and time_patterns.is_time_name(name)
        else value
    )


TIMESTAMPS: Final = NormaliserKind(
    name="timestamps",
    version=1,
    ignores="which date or time it is",
    make_rule_of=_make_rule,
)
