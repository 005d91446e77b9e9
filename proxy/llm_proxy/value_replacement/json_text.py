"""Changes within a text, and within the strings of a JSON document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import orjson

_JSON_STRING: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:\s*)?', re.DOTALL)
_SPELLED_CHARACTER: Final = re.compile(
    r"\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]",
    re.DOTALL,
)
"""The JSON spelling of one character."""


@dataclass(frozen=True, slots=True)
class TextChange:
    """Replaces the characters from `begin` to `end` by `replacement`."""

    begin: int
    end: int
    replacement: str


@dataclass(frozen=True, slots=True)
class JsonString:
    """One string of a JSON document."""

    begin: int
    """Its offset in the document, after the opening quote."""
    source_text: str
    """The string as written in the document, without quotes."""
    value: str
    """The decoded string."""
    member: str
    """The name of the member whose value it is; empty in a list."""
    is_member_name: bool
    """Whether it is the name of a member."""

    def to_source_changes(self, changes: Sequence[TextChange]) -> list[TextChange]:
        """Translate changes of the value to changes of the document's text."""
        if not changes:
            return []
        starts: list[int] | range = range(len(self.source_text) + 1)
        if "\\" in self.source_text:
            starts = [0, *accumulate(map(len, _SPELLED_CHARACTER.findall(self.source_text)))]
        return [
            TextChange(
                self.begin + starts[change.begin],
                self.begin + starts[change.end],
                escape_json_text(change.replacement),
            )
            for change in changes
        ]


def json_strings(text: str) -> Iterator[JsonString]:
    """All strings of a JSON document, in order, including the names of members."""
    member, value_offset = "", -1
    for found in _JSON_STRING.finditer(text):
        source, is_name = found[1], found[2] is not None
        value = source
        if "\\" in source:
            with suppress(ValueError):
                value = str(json.loads(f'"{source}"', strict=False))
        member_of_value = member if found.start() == value_offset and not is_name else ""
        yield JsonString(found.start(1), source, value, member_of_value, is_name)
        if is_name:
            member, value_offset = value, found.end()


def is_json_container(text: str) -> bool:
    """Whether a text is a JSON object or array."""
    if not text.lstrip(" \t\r\n").startswith(("{", "[")):
        return False
    try:
        parse_json_document(text)
    except ValueError:
        return False
    return True


def parse_json_document(text: str) -> object:
    """Parse a JSON document, with lone surrogates allowed.  Raises `ValueError` if invalid."""
    try:
        return orjson.loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        if "\\ud" not in text.lower():
            raise
    try:
        return json.loads(text)  # accepts lone surrogates
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def escape_json_text(value: str) -> str:
    """A text as a JSON string without its quotes."""
    return json.dumps(value, ensure_ascii=False)[1:-1]
