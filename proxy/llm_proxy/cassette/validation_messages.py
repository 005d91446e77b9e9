"""Turns msgspec validation errors into sentences.

From ``Expected `int`, got `str` - at `$.response.status` `` it makes
"response.status must be an integer, and it is text".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_MESSAGE_AND_PATH: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_WRONG_FIELD: Final = re.compile(
    r"Object (?:(missing required)|contains unknown) field `(.*)`", re.DOTALL
)
_INVALID_ENUM_VALUE: Final = re.compile(r"Invalid enum value (.*)", re.DOTALL)
_WRONG_LENGTH: Final = re.compile(r"Expected `array` of length (\d+), got (\d+)")
_WRONG_TYPE: Final = re.compile(r"Expected `(.+)`, got `(\w+)`")
_PATTERN_MISMATCH: Final = re.compile(r"Expected `str` matching regex (.*)", re.DOTALL)
_OUT_OF_RANGE: Final = re.compile(r"Expected `\w+` (?:of (length) )?(>=|<=) (\S+)")

_TYPE_DESCRIPTIONS: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_MAX_SHOWN_CHARS: Final = 40
"""The most characters of a value that a message quotes."""


def validation_sentence(
    message: str,
    allowed_values: Mapping[str, str],
    pattern_descriptions: Mapping[str, str],
    root: str = "",
) -> str:
    """The message of a `msgspec.ValidationError` as a sentence without a full stop.

    `allowed_values` lists the values of an enum field by the last part of its path,
    `pattern_descriptions` describes a pattern by its `repr`, and `root` names the checked value.
    """
    match = _MESSAGE_AND_PATH.fullmatch(message)
    problem, path = (match["what"], match["path"] or "") if match else (message, "")
    name = (root + path).removeprefix(".")
    if (field := _WRONG_FIELD.fullmatch(problem)) is not None:
        member = f"{name}.{field[2]}".removeprefix(".")
        return f"{member} is {'missing' if field[1] else 'an unknown field'}"
    allowed = allowed_values.get(name.rpartition(".")[2], "")
    expectation = _expectation(problem, allowed, pattern_descriptions)
    return f"{name or 'the line'} must be {expectation}"


def _expectation(message: str, allowed_values: str, pattern_descriptions: Mapping[str, str]) -> str:
    if (value := _INVALID_ENUM_VALUE.fullmatch(message)) is not None:
        shown = value[1] if len(value[1]) <= _MAX_SHOWN_CHARS else value[1][:_MAX_SHOWN_CHARS] + "…"
        return f"one of {allowed_values}, and it is {shown}"
    if (length := _WRONG_LENGTH.fullmatch(message)) is not None:
        return f"a list of {length[1]}, and it has {length[2]}"
    if (wrong := _WRONG_TYPE.fullmatch(message)) is not None:
        expected = " or ".join(_TYPE_DESCRIPTIONS.get(kind, kind) for kind in wrong[1].split(" | "))
        actual = (
            "another number"
            if wrong.groups() == ("int", "float")
            else _TYPE_DESCRIPTIONS.get(wrong[2], "")
        )
        return f"{expected}, and it is {actual or wrong[2]}"
    if (pattern := _PATTERN_MISMATCH.fullmatch(message)) is not None:
        return pattern_descriptions.get(pattern[1], "spelled otherwise")
    if (limit := _OUT_OF_RANGE.fullmatch(message)) is not None:
        bound = "at least" if limit[2] == ">=" else "at most"
        number = limit[3].removesuffix(".0")
        return f"text of {bound} {number} characters" if limit[1] else f"{bound} {number}"
    return message
