"""Turns msgspec validation errors into sentences.

`msgspec` says ``Expected `int`, got `str` - at `$.response.status` ``; a person reads
"response.status must be an integer, and it is text".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PLACE: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_ENUM: Final = re.compile(r"Invalid enum value (.*)", re.DOTALL)
_LENGTH: Final = re.compile(r"Expected `array` of length (\d+), got (\d+)")
_WRONG: Final = re.compile(r"Expected `(.+)`, got `(\w+)`")
_PATTERN: Final = re.compile(r"Expected `str` matching regex (.*)", re.DOTALL)
_LIMIT: Final = re.compile(r"Expected `\w+` (?:of (length) )?(>=|<=) (\S+)")

_KINDS: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_SHOWN: Final = 40
"""Characters of a value that are shown."""


def refusal_sentence(
    message: str, field_names: Mapping[str, str], word_choices: Mapping[str, str], root: str = ""
) -> str:
    """What the message of a `msgspec.ValidationError` says, as a sentence without a full stop.

    `known` has the possible values of a field under its last name, `words` says what a pattern
    means, and `root` is what the checked value itself is called.
    """
    match = _PLACE.fullmatch(message)
    what, path = (match["what"], match["path"] or "") if match else (message, "")
    if (missing := _MISSING.fullmatch(what)) is not None:
        return f"{_field_name(root, f'{path}.{missing[1]}')} is missing"
    if (unknown := _UNKNOWN.fullmatch(what)) is not None:
        return f"{_field_name(root, f'{path}.{unknown[1]}')} is an unknown field"
    name = _field_name(root, path)
    must = _expectation(what, field_names.get(name.rpartition(".")[2], ""), word_choices)
    return f"{name or 'the line'} must be {must}"


def _field_name(root: str, path: str) -> str:
    return (root + path).removeprefix(".")


def _expectation(received: str, field_names: str, word_choices: Mapping[str, str]) -> str:
    if (value := _ENUM.fullmatch(received)) is not None:
        shown = value[1] if len(value[1]) <= _SHOWN else value[1][:_SHOWN] + "…"
        return f"one of {field_names}, and it is {shown}"
    if (length := _LENGTH.fullmatch(received)) is not None:
        return f"a list of {length[1]}, and it has {length[2]}"
    if (wrong := _WRONG.fullmatch(received)) is not None:
        must = " or ".join(_KINDS.get(kind, kind) for kind in wrong[1].split(" | "))
        found = "another number" if wrong.groups() == ("int", "float") else _KINDS.get(wrong[2], "")
        return f"{must}, and it is {found or wrong[2]}"
    if (pattern := _PATTERN.fullmatch(received)) is not None:
        return word_choices.get(pattern[1], "spelled otherwise")
    if (limit := _LIMIT.fullmatch(received)) is not None:
        side = "at least" if limit[2] == ">=" else "at most"
        number = limit[3].removesuffix(".0")
        return f"text of {side} {number} characters" if limit[1] else f"{side} {number}"
    return received
