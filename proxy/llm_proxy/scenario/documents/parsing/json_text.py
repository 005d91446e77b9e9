"""Parses JSON with positions; strings with Python's own decoder."""

from __future__ import annotations

import re
from bisect import bisect_right
from json import JSONDecodeError, JSONDecoder
from typing import Final, NoReturn

from llm_proxy.scenario.documents.parsing.composing import DocumentComposer
from llm_proxy.scenario.documents.parsing.nodes import ScalarNode, SourceMark, UnreadableDocument
from llm_proxy.scenario.documents.parsing.scalars import ScalarValue, parse_float, parse_integer

_WHITE_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_BARE_WORD: Final = re.compile(r"[A-Za-z_][\w.-]*")
_LITERALS: Final[dict[str, ScalarValue]] = {"true": True, "false": False, "null": None}


def compose_json(text: str, composer: DocumentComposer) -> None:
    """Parse a JSON text into the composer.  Raises `UnreadableDocument`."""
    reader = _JsonReader(text, composer)
    composer.start_document()
    end = reader.skip_space(reader.read_value(reader.skip_space(0)))
    if end != len(text):
        reader.raise_unreadable(
            end, "more stands here after the end of the JSON: several go in a list"
        )


class _JsonReader:
    """A recursive descent parser; each method returns the index after what it read."""

    def __init__(self, text: str, composer: DocumentComposer) -> None:
        self._text = text
        self._composer = composer
        self._decoder = JSONDecoder()
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def skip_space(self, index: int) -> int:
        """The index of the next character that is not white space."""
        match = _WHITE_SPACE.match(self._text, index)
        return match.end() if match else index

    def read_value(self, index: int) -> int:
        """Read a value of any type."""
        match self._text[index : index + 1]:
            case "{":
                return self._read_object(index)
            case "[":
                return self._read_list(index)
            case '"':
                return self._read_string(index)
            case _:
                return self._read_literal_or_number(index)

    def raise_unreadable(self, index: int, message: str) -> NoReturn:
        """Raise `UnreadableDocument`, with a better message for comments and for an early end."""
        if self._text[index : index + 2] in {"//", "/*"} or self._text[index : index + 1] == "#":
            message = "JSON has no comments: call the file .yaml to have them"
        elif index >= len(self._text):
            message = f"the file ends here, and {message}"
        raise UnreadableDocument(self._mark_at(index), message)

    def _read_object(self, index: int) -> int:
        self._composer.start_collection(self._mark_at(index), is_object=True)
        index = self.skip_space(index + 1)
        while self._text[index : index + 1] != "}":
            if self._text[index : index + 1] != '"':
                self.raise_unreadable(index, "a name in double quotes, or a }, is missing")
            index = self.skip_space(self._read_string(index))
            if self._text[index : index + 1] != ":":
                self.raise_unreadable(index, "a colon is missing after the name")
            index = self._read_separator(self.read_value(self.skip_space(index + 1)), "}")
        self._composer.end_collection()
        return index + 1

    def _read_list(self, index: int) -> int:
        self._composer.start_collection(self._mark_at(index), is_object=False)
        index = self.skip_space(index + 1)
        while self._text[index : index + 1] != "]":
            index = self._read_separator(self.read_value(index), "]")
        self._composer.end_collection()
        return index + 1

    def _read_separator(self, index: int, closing: str) -> int:
        index = self.skip_space(index)
        if self._text[index : index + 1] == closing:
            return index
        if self._text[index : index + 1] != ",":
            self.raise_unreadable(index, f"a comma or a {closing} is missing")
        next_index = self.skip_space(index + 1)
        if self._text[next_index : next_index + 1] == closing:
            self.raise_unreadable(
                index, f"this comma is one too many: JSON has none before {closing}"
            )
        return next_index

    def _read_string(self, index: int) -> int:
        try:
            value, end = self._decoder.raw_decode(self._text, index)
        except JSONDecodeError as error:
            self._raise_bad_string(error)
        self._composer.add_scalar(ScalarNode(value, self._mark_at(index), value))
        return end

    def _raise_bad_string(self, error: JSONDecodeError) -> NoReturn:
        if error.msg.startswith("Unterminated"):
            self.raise_unreadable(error.pos, "the quotes that open here are not closed")
        if error.msg.startswith("Invalid control"):
            self.raise_unreadable(error.pos, "a line end, a tab and other control characters "
                                             "must be "
                                   "escapes in JSON: \\n, \\t")  # fmt: skip
        self.raise_unreadable(error.pos, "JSON knows no such escape: write \\\\ for a backslash")

    def _read_literal_or_number(self, index: int) -> int:
        word = _BARE_WORD.match(self._text, index)
        if word is not None and word[0] in _LITERALS:
            self._composer.add_scalar(ScalarNode(_LITERALS[word[0]], self._mark_at(index), word[0]))
            return word.end()
        if word is not None:
            self.raise_unreadable(index, f"{word[0]} must be in double quotes")
        if (match := _NUMBER.match(self._text, index)) is None:
            self.raise_unreadable(index, "a value is missing")
        self._composer.add_scalar(
            ScalarNode(self._parse_number(match, index), self._mark_at(index), match[0])
        )
        return match.end()

    def _parse_number(self, match: re.Match[str], index: int) -> ScalarValue:
        try:
            return parse_float(match[0]) if match[1] or match[2] else parse_integer(match[0])
        except ValueError as error:
            self._composer.add_mistake(self._mark_at(index), str(error))
            return 0

    def _mark_at(self, index: int) -> SourceMark:
        line = bisect_right(self._line_starts, index)
        return SourceMark(line, index - self._line_starts[line - 1] + 1)
