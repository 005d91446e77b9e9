"""Replaces lone surrogates, which cannot be encoded, in turns and parts."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from llm_proxy.dialects.lenient_json import join_pieces
from llm_proxy.turns import Part, Turn

Told = TypeVar("Told", Turn, Part)

_VERBATIM: Final = "metadata"
"""Provider fields are left as they are: what cannot be written of them is not told."""


def replace_lone_surrogates(told: Told) -> Told:
    """The turn or the part, in which half a surrogate pair is U+FFFD."""
    whole: Told = _replace_in_value(told)
    return whole


def _replace_in_value(value: Any) -> Any:
    match value:
        case StrEnum():
            return value
        case str():
            return join_pieces([value])
        case tuple():
            return tuple(map(_replace_in_value, value))
        case _ if is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in fields(value) if field.name != _VERBATIM]
            return replace(
                value, **{name: _replace_in_value(getattr(value, name)) for name in names}
            )
        case _:
            return value
