"""Parses JSON into the events of PyYAML's parser; strings with Python's own decoder."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder
from typing import Final, NoReturn

from yaml import Mark
from yaml.events import (
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from llm_proxy.yaml_composer import SourceMark, UnreadableDocument

_WHITE_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_BARE_WORD: Final = re.compile(r"[A-Za-z_][\w.-]*")
_LITERALS: Final = frozenset(("true", "false", "null"))


def json_events(text: str) -> Iterator[Event]:
    """The events of a JSON text.  Raises `UnreadableDocument`."""
    reader = _JsonReader(text)
    yield DocumentStartEvent()
    yield from reader.read_value()
    reader.skip_space()
    if reader.index != len(text):
        reader.raise_unreadable("more stands here after the end of the JSON: several go in a list")


class _JsonReader:
    """A recursive descent parser; what it has read ends at `index`."""

    def __init__(self, text: str) -> None:
        self.index = 0
        self._text = text
        self._decoder = JSONDecoder()
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def skip_space(self) -> str:
        """Skip white space; the next character, empty at the end of the text."""
        match = _WHITE_SPACE.match(self._text, self.index)
        self.index = match.end() if match else self.index
        return self._text[self.index : self.index + 1]

    def read_value(self) -> Iterator[Event]:
        """The events of a value of any type."""
        match self.skip_space():
            case "{":
                yield MappingStartEvent(None, None, implicit=True, start_mark=self._mark())
                yield from self._read_members()
                yield MappingEndEvent()
            case "[":
                yield SequenceStartEvent(None, None, implicit=True, start_mark=self._mark())
                self.index += 1
                while self.skip_space() != "]":
                    yield from self.read_value()
                    self._read_separator("]")
                self.index += 1
                yield SequenceEndEvent()
            case '"':
                yield self._read_string()
            case _:
                yield self._read_literal_or_number()

    def raise_unreadable(self, message: str, index: int | None = None) -> NoReturn:
        """Raise `UnreadableDocument`, with a better message for comments and for an early end."""
        index = self.index if index is None else index
        if self._text[index : index + 2] in {"//", "/*"} or self._text[index : index + 1] == "#":
            message = "JSON has no comments: call the file .yaml to have them"
        elif index >= len(self._text):
            message = f"the file ends here, and {message}"
        mark = self._mark(index)
        raise UnreadableDocument(SourceMark(mark.line + 1, mark.column + 1), message)

    def _read_members(self) -> Iterator[Event]:
        self.index += 1
        while (character := self.skip_space()) != "}":
            if character != '"':
                self.raise_unreadable("a name in double quotes, or a }, is missing")
            yield self._read_string()
            if self.skip_space() != ":":
                self.raise_unreadable("a colon is missing after the name")
            self.index += 1
            yield from self.read_value()
            self._read_separator("}")
        self.index += 1

    def _read_separator(self, closing: str) -> None:
        character = self.skip_space()
        if character == closing:
            return
        if character != ",":
            self.raise_unreadable(f"a comma or a {closing} is missing")
        comma_index = self.index
        self.index += 1
        if self.skip_space() == closing:
            self.raise_unreadable(
                f"this comma is one too many: JSON has none before {closing}", comma_index
            )

    def _read_string(self) -> ScalarEvent:
        try:
            value, end = self._decoder.raw_decode(self._text, self.index)
        except JSONDecodeError as error:
            if error.msg.startswith("Unterminated"):
                message = "the quotes that open here are not closed"
            elif error.msg.startswith("Invalid control"):
                message = (
                    "a line end, a tab and other control characters must be escapes in JSON: "
                    "\\n, \\t"
                )
            else:
                message = "JSON knows no such escape: write \\\\ for a backslash"
            self.raise_unreadable(message, error.pos)
        return self._scalar(value, end, is_quoted=True)

    def _read_literal_or_number(self) -> ScalarEvent:
        if (word := _BARE_WORD.match(self._text, self.index)) is not None:
            if word[0] not in _LITERALS:
                self.raise_unreadable(f"{word[0]} must be in double quotes")
            return self._scalar(word[0], word.end(), is_quoted=False)
        if (number := _NUMBER.match(self._text, self.index)) is None:
            self.raise_unreadable("a value is missing")
        return self._scalar(number[0], number.end(), is_quoted=False)

    def _scalar(self, value: str, end: int, *, is_quoted: bool) -> ScalarEvent:
        event = ScalarEvent(None, None, (not is_quoted, is_quoted), value, self._mark())
        self.index = end
        return event

    def _mark(self, index: int | None = None) -> Mark:
        index = self.index if index is None else index
        line = bisect_right(self._line_starts, index) - 1
        return Mark("", index, line, index - self._line_starts[line], None, 0)
