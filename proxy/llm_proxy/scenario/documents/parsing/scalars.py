"""Resolves plain scalars by the core schema of YAML 1.2.

`no`, `on` and `12:30` are text; `1e3` is a number.
"""

from __future__ import annotations

import math
import re
from types import MappingProxyType
from typing import Final

ScalarValue = None | bool | int | float | str
"""The value of a scalar node."""

_LITERALS: Final = MappingProxyType(
    {
        "": None, "~": None, "null": None, "Null": None, "NULL": None,
        "true": True, "True": True, "TRUE": True,
        "false": False, "False": False, "FALSE": False,
    }
)  # fmt: skip
_INT: Final = re.compile(r"[-+]?[0-9]+")
_PREFIXED_INT: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY: Final = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN_LITERALS: Final = frozenset((".nan", ".NaN", ".NAN"))
_TYPE_BY_TAG: Final = MappingProxyType(
    {"null": type(None), "bool": bool, "int": int, "float": float}
)
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_NUMBER_FIRST_CHARS: Final = frozenset("+-.0123456789")
"""The characters that a number can start with."""
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_MAX_DIGITS: Final = 400
"""Longer integers are too large in any case, and slow to convert."""


def scalar_value(text: str) -> ScalarValue:
    """The value of unquoted text.  Raises `ValueError` for a number that is too large."""
    if text in _LITERALS:
        return _LITERALS[text]
    if text[0] not in _NUMBER_FIRST_CHARS:  # the most frequent case
        return text
    if _INT.fullmatch(text):
        return parse_integer(text)
    if _FLOAT.fullmatch(text):
        return parse_float(text)
    if _PREFIXED_INT.fullmatch(text):
        return _require_in_range(int(text, 0), text)
    if (infinity := _INFINITY.fullmatch(text)) is not None:
        return float(f"{infinity[1]}inf")
    return math.nan if text in _NAN_LITERALS else text


def tagged_value(tag: str, text: str) -> ScalarValue:
    """The value of tagged text: `!!str 5`.  Raises `ValueError` if the tag does not fit."""
    tag_name = tag.removeprefix(_TAG_PREFIX)
    if tag in {"!", f"{_TAG_PREFIX}str"}:
        return text
    if tag_name not in _TYPE_BY_TAG or tag_name == tag:
        raise ValueError(unknown_tag_message(tag))
    value = scalar_value(text)
    if tag_name == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not _TYPE_BY_TAG[tag_name]:
        raise ValueError(f"this is no {tag_name}, as its tag !!{tag_name} says: leave the tag out")
    return value


def unknown_tag_message(tag: str) -> str:
    """The message for an unsupported tag."""
    name = f"!!{tag.removeprefix(_TAG_PREFIX)}" if tag.startswith(_TAG_PREFIX) else tag
    return f"the tag {name} means nothing here: leave it out, or put the text in quotes"


def is_default_collection_tag(tag: str, collection_tag: str) -> bool:
    """Whether a tag is none or the default one of a list (`seq`) or an object (`map`)."""
    return tag in {"", "!", f"{_TAG_PREFIX}{collection_tag}"}


def parse_integer(text: str) -> int:
    """Parse an integer.  Raises `ValueError` outside of -2**63 to 2**64 - 1, as JSON parsers do."""
    if len(text) > _MAX_DIGITS:
        raise ValueError(_too_large_message(text))
    return _require_in_range(int(text), text)


def parse_float(text: str) -> float:
    """Parse a number with a fraction or an exponent.  Raises `ValueError` if it overflows."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(_too_large_message(text))
    return value


def _require_in_range(value: int, text: str) -> int:
    if not _MIN_INT <= value <= _MAX_INT:
        raise ValueError(_too_large_message(text))
    return value


def _too_large_message(text: str) -> str:
    shown = text if len(text) <= 24 else text[:21] + "…"
    return f"the number {shown} is too large: put it in quotes, or write fewer digits"
