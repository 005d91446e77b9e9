"""Parses JSON with positions; strings by Python's own reader."""

from __future__ import annotations

import re
from bisect import bisect_right
from json import JSONDecodeError, JSONDecoder
from typing import Final, NoReturn

from llm_proxy.scenario.documents.parsing.composing import DocumentComposer
from llm_proxy.scenario.documents.parsing.nodes import ScalarNode, SourceMark, UnreadableDocument
from llm_proxy.scenario.documents.parsing.scalars import Value, parse_float, parse_integer

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD: Final = re.compile(r"[A-Za-z_][\w.-]*")
_WORDS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}


def read_json(text: str, composer: DocumentComposer) -> None:
    """Tell the value of a text to the composer.  Raises `Unreadable` where it is no JSON."""
    reader = _JsonReader(text, composer)
    composer.start_document()
    end = reader.skip_space(reader.read_value(reader.skip_space(0)))
    if end != len(text):
        reader.raise_unreadable(
            end, "more stands here after the end of the JSON: several go in a list"
        )


class _JsonReader:
    """One pass over a text; each part gives the index after what it read."""

    def __init__(self, text: str, composer: DocumentComposer) -> None:
        self._text = text
        self._composer = composer
        self._decoder = JSONDecoder()
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]

    def skip_space(self, at: int) -> int:
        """The index of the next character that is no white space."""
        match = _SPACE.match(self._text, at)
        return match.end() if match else at

    def read_value(self, at: int) -> int:
        """A value of any kind."""
        match self._text[at : at + 1]:
            case "{":
                return self._read_object(at)
            case "[":
                return self._read_list(at)
            case '"':
                return self._read_string(at)
            case _:
                return self._read_plain(at)

    def raise_unreadable(self, at: int, message: str) -> NoReturn:
        """The text is no JSON."""
        if self._text[at : at + 2] in {"//", "/*"} or self._text[at : at + 1] == "#":
            message = "JSON has no comments: call the file .yaml to have them"
        elif at >= len(self._text):
            message = f"the file ends here, and {message}"
        raise UnreadableDocument(self._mark_at(at), message)

    def _read_object(self, at: int) -> int:
        self._composer.start_collection(self._mark_at(at), is_object=True)
        at = self.skip_space(at + 1)
        while self._text[at : at + 1] != "}":
            if self._text[at : at + 1] != '"':
                self.raise_unreadable(at, "a name in double quotes, or a }, is missing")
            at = self.skip_space(self._read_string(at))
            if self._text[at : at + 1] != ":":
                self.raise_unreadable(at, "a colon is missing after the name")
            at = self._read_separator(self.read_value(self.skip_space(at + 1)), "}")
        self._composer.end_collection()
        return at + 1

    def _read_list(self, at: int) -> int:
        self._composer.start_collection(self._mark_at(at), is_object=False)
        at = self.skip_space(at + 1)
        while self._text[at : at + 1] != "]":
            at = self._read_separator(self.read_value(at), "]")
        self._composer.end_collection()
        return at + 1

    def _read_separator(self, at: int, end: str) -> int:
        at = self.skip_space(at)
        if self._text[at : at + 1] == end:
            return at
        if self._text[at : at + 1] != ",":
            self.raise_unreadable(at, f"a comma or a {end} is missing")
        after = self.skip_space(at + 1)
        if self._text[after : after + 1] == end:
            self.raise_unreadable(at, f"this comma is one too many: JSON has none before {end}")
        return after

    def _read_string(self, at: int) -> int:
        try:
            value, end = self._decoder.raw_decode(self._text, at)
        except JSONDecodeError as error:
            self._raise_bad_string(error)
        self._composer.add_scalar(ScalarNode(value, self._mark_at(at), value))
        return end

    def _raise_bad_string(self, error: JSONDecodeError) -> NoReturn:
        if error.msg.startswith("Unterminated"):
            self.raise_unreadable(error.pos, "the quotes that open here are not closed")
        if error.msg.startswith("Invalid control"):
            self.raise_unreadable(error.pos, "a line end, a tab and other control characters "
                                             "must be "
                                   "escapes in JSON: \\n, \\t")  # fmt: skip
        self.raise_unreadable(error.pos, "JSON knows no such escape: write \\\\ for a backslash")

    def _read_plain(self, at: int) -> int:
        word = _WORD.match(self._text, at)
        if word is not None and word[0] in _WORDS:
            self._composer.add_scalar(ScalarNode(_WORDS[word[0]], self._mark_at(at), word[0]))
            return word.end()
        if word is not None:
            self.raise_unreadable(at, f"{word[0]} must be in double quotes")
        if (match := _NUMBER.match(self._text, at)) is None:
            self.raise_unreadable(at, "a value is missing")
        self._composer.add_scalar(
            ScalarNode(self._parse_number(match, at), self._mark_at(at), match[0])
        )
        return match.end()

    def _parse_number(self, match: re.Match[str], at: int) -> Value:
        try:
            return parse_float(match[0]) if match[1] or match[2] else parse_integer(match[0])
        except ValueError as error:
            self._composer.add_mistake(self._mark_at(at), str(error))
            return 0

    def _mark_at(self, at: int) -> SourceMark:
        line = bisect_right(self._lines, at)
        return SourceMark(line, at - self._lines[line - 1] + 1)
