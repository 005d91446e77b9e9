"""Resolves plain scalars by the core schema of YAML 1.2.

`no`, `on` and `12:30` are text; `1e3` is a number.
"""

from __future__ import annotations

import math
import re
from types import MappingProxyType
from typing import Final

Value = None | bool | int | float | str
"""A value without others in it."""

_WORDS: Final = MappingProxyType(
    {
        "": None, "~": None, "null": None, "Null": None, "NULL": None,
        "true": True, "True": True, "TRUE": True,
        "false": False, "False": False, "FALSE": False,
    }
)  # fmt: skip
_INT: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_ENDLESS: Final = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NO_NUMBER: Final = frozenset((".nan", ".NaN", ".NAN"))
_KINDS: Final = MappingProxyType({"null": type(None), "bool": bool, "int": int, "float": float})
_TAG: Final = "tag:yaml.org,2002:"
_BEGINNINGS: Final = frozenset("+-.0123456789")
"""Of every number, as it may be written."""
_LEAST, _MOST = -(2**63), 2**64 - 1
_DIGITS: Final = 400
"""More than any number has that is not too large."""


def scalar_value(text: str) -> Value:
    """The value of unquoted text.  Raises `ValueError` for a number that is too large."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _BEGINNINGS:  # nearly all of them
        return text
    if _INT.fullmatch(text):
        return parse_integer(text)
    if _FLOAT.fullmatch(text):
        return parse_float(text)
    if _BASED.fullmatch(text):
        return _within(int(text, 0), text)
    if (endless := _ENDLESS.fullmatch(text)) is not None:
        return float(f"{endless[1]}inf")
    return math.nan if text in _NO_NUMBER else text


def tagged_value(tag: str, text: str) -> Value:
    """The value of text that says its type: `!!str 5`.  Raises `ValueError` where it is not so."""
    kind = tag.removeprefix(_TAG)
    if tag in {"!", f"{_TAG}str"}:
        return text
    if kind not in _KINDS or kind == tag:
        raise ValueError(unknown_tag_message(tag))
    value = scalar_value(text)
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not _KINDS[kind]:
        raise ValueError(f"this is no {kind}, as its tag !!{kind} says: leave the tag out")
    return value


def unknown_tag_message(tag: str) -> str:
    """What is said of a tag that means nothing here."""
    name = f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag
    return f"the tag {name} means nothing here: leave it out, or put the text in quotes"


def is_collection_tag(tag: str, kind: str) -> bool:
    """Whether a tag says of a list (`seq`) or an object (`map`) what it is anyway."""
    return tag in {"", "!", f"{_TAG}{kind}"}


def parse_integer(text: str) -> int:
    """A whole number in digits.  Raises `ValueError` where JSON's readers would lose some."""
    if len(text) > _DIGITS:
        raise ValueError(_too_large(text))
    return _within(int(text), text)


def parse_float(text: str) -> float:
    """A number with a fraction or an exponent.  Raises `ValueError` where it is too large."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(_too_large(text))
    return value


def _within(value: int, text: str) -> int:
    if not _LEAST <= value <= _MOST:
        raise ValueError(_too_large(text))
    return value


def _too_large(text: str) -> str:
    name = text if len(text) <= 24 else text[:21] + "…"
    return f"the number {name} is too large: put it in quotes, or write fewer digits"
