"""Locates the strings of a JSON document in its source text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import orjson

from llm_proxy.value_replacement.text_change import TextChange

_TOKEN: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:\s*)?', re.DOTALL)
_UNIT: Final = re.compile(
    r"\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]",
    re.DOTALL,
)
"""What stands for one character."""


@dataclass(frozen=True, slots=True)
class JsonString:
    """One text of a document."""

    begin: int
    """Where it begins in the document, behind its quote."""
    source: str
    value: str
    member: str
    """What it is called where it stands; empty in a list."""
    is_member_name: bool
    """Whether it is the name of a member."""

    def source_changes(self, changes: Iterable[TextChange]) -> list[TextChange]:
        """Changes of its value as changes of the document."""
        if not (changes := list(changes)):
            return []
        starts: list[int] | range = range(len(self.source) + 1)
        if "\\" in self.source:
            starts = [0, *accumulate(map(len, _UNIT.findall(self.source)))]
        return [
            TextChange(
                self.begin + starts[change.begin],
                self.begin + starts[change.end],
                escape_json_text(change.new),
            )
            for change in changes
        ]


def json_strings(text: str) -> Iterator[JsonString]:
    """All of them, in their order."""
    member, behind = "", -1
    for found in _TOKEN.finditer(text):
        value = _decode_string(found[1])
        begin, is_name = found.start(1), found[2] is not None
        called = member if found.start() == behind and not is_name else ""
        yield JsonString(begin, found[1], value, called, is_name)
        if is_name:
            member, behind = value, found.end()


def is_json_container(text: str) -> bool:
    """Whether a text is an object or a list as JSON."""
    if not text.lstrip(" \t\r\n").startswith(("{", "[")):
        return False
    try:
        parse_document(text)
    except ValueError:
        return False
    return True


def parse_document(text: str) -> object:
    """What a document says.  Raises `ValueError` where it is none."""
    try:
        return orjson.loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        if "\\ud" not in text.lower():
            raise
    try:
        return json.loads(text)  # which lets half of a pair pass
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def escape_json_text(value: str) -> str:
    """A value as JSON spells it, without quotes."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _decode_string(spelled: str) -> str:
    if "\\" not in spelled:
        return spelled
    try:
        return str(json.loads(f'"{spelled}"', strict=False))
    except ValueError:
        return spelled
