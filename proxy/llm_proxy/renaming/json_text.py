"""The texts of a JSON document, and where they stand in it as it is spelled."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import orjson

from llm_proxy.renaming.change import Change

_TOKEN: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(\s*:\s*)?', re.DOTALL)
_UNIT: Final = re.compile(
    r"\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]",
    re.DOTALL,
)
"""What stands for one character."""


@dataclass(frozen=True, slots=True)
class Token:
    """One text of a document."""

    begin: int
    """Where it begins in the document, behind its quote."""
    spelled: str
    value: str
    member: str
    """What it is called where it stands; empty in a list."""
    is_name: bool
    """Whether it is the name of a member."""

    def raw(self, changes: Iterable[Change]) -> list[Change]:
        """Changes of its value as changes of the document."""
        if not (changes := list(changes)):
            return []
        starts: list[int] | range = range(len(self.spelled) + 1)
        if "\\" in self.spelled:
            starts = [0, *accumulate(map(len, _UNIT.findall(self.spelled)))]
        return [
            Change(self.begin + starts[it.begin], self.begin + starts[it.end], escaped(it.new))
            for it in changes
        ]


def tokens(text: str) -> Iterator[Token]:
    """All of them, in their order."""
    member, behind = "", -1
    for found in _TOKEN.finditer(text):
        value = _value(found[1])
        begin, is_name = found.start(1), found[2] is not None
        called = member if found.start() == behind and not is_name else ""
        yield Token(begin, found[1], value, called, is_name)
        if is_name:
            member, behind = value, found.end()


def is_container(text: str) -> bool:
    """Whether a text is an object or a list as JSON."""
    if not text.lstrip(" \t\r\n").startswith(("{", "[")):
        return False
    try:
        parsed(text)
    except ValueError:
        return False
    return True


def parsed(text: str) -> object:
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


def escaped(value: str) -> str:
    """A value as JSON spells it, without quotes."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _value(spelled: str) -> str:
    if "\\" not in spelled:
        return spelled
    try:
        return str(json.loads(f'"{spelled}"', strict=False))
    except ValueError:
        return spelled
