"""Replaces lone surrogates, which cannot be encoded, in turns and parts."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from llm_proxy.dialects.lenient_json import join_pieces
from llm_proxy.turns import Part, Turn

Told = TypeVar("Told", Turn, Part)

_SKIPPED_FIELD: Final = "metadata"
"""Provider fields are unchanged: those that cannot be encoded are left out elsewhere."""


def replace_lone_surrogates(turn_or_part: Told) -> Told:
    """The turn or the part, with U+FFFD for each lone surrogate outside of metadata."""
    replaced: Told = _replace_in_value(turn_or_part)
    return replaced


def _replace_in_value(value: Any) -> Any:
    match value:
        case StrEnum():
            return value
        case str():
            return join_pieces([value])
        case tuple():
            return tuple(map(_replace_in_value, value))
        case _ if is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in fields(value) if field.name != _SKIPPED_FIELD]
            return replace(
                value, **{name: _replace_in_value(getattr(value, name)) for name in names}
            )
        case _:
            return value
