"""Turns that can be written: of whole characters alone, wherever text stands in them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, Final

from llm_proxy.dialects.reading import joined
from llm_proxy.turns import Turn

_VERBATIM: Final = "metadata"
"""Provider fields are left as they are: what cannot be written of them is not told."""


def mended(turn: Turn) -> Turn:
    """The turn, in which half a surrogate pair is U+FFFD."""
    whole: Turn = _mended(turn)
    return whole


def _mended(value: Any) -> Any:
    match value:
        case StrEnum():
            return value
        case str():
            return joined([value])
        case tuple():
            return tuple(map(_mended, value))
        case _ if is_dataclass(value) and not isinstance(value, type):
            names = [it.name for it in fields(value) if it.name != _VERBATIM]
            return replace(value, **{name: _mended(getattr(value, name)) for name in names})
        case _:
            return value
