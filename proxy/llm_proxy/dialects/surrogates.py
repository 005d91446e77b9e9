"""Values that can be written: of whole characters alone, wherever text stands in them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from llm_proxy.dialects.lenient_json import joined
from llm_proxy.turns import Part, Turn

Told = TypeVar("Told", Turn, Part)

_VERBATIM: Final = "metadata"
"""Provider fields are left as they are: what cannot be written of them is not told."""


def mended(told: Told) -> Told:
    """The turn or the part, in which half a surrogate pair is U+FFFD."""
    whole: Told = _mended(told)
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
