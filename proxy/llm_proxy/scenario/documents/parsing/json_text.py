"""JSON read with the place of each value: texts by Python's own reader, the rest here."""

from __future__ import annotations

import re
from bisect import bisect_right
from json import JSONDecodeError, JSONDecoder
from typing import Final, NoReturn

from llm_proxy.scenario.documents.parsing.composing import Composer
from llm_proxy.scenario.documents.parsing.nodes import Mark, Scalar, Unreadable
from llm_proxy.scenario.documents.parsing.scalars import Value, number, whole_number

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD: Final = re.compile(r"[A-Za-z_][\w.-]*")
_WORDS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}


def read(text: str, composer: Composer) -> None:
    """Tell the value of a text to the composer.  Raises `Unreadable` where it is no JSON."""
    reader = _Reader(text, composer)
    composer.document()
    end = reader.space(reader.value(reader.space(0)))
    if end != len(text):
        reader.refuse(end, "more stands here after the end of the JSON: several go in a list")


class _Reader:
    """One pass over a text; each part gives the index after what it read."""

    def __init__(self, text: str, composer: Composer) -> None:
        self._text = text
        self._composer = composer
        self._decoder = JSONDecoder()
        self._lines = [0, *(it.end() for it in re.finditer("\n", text))]

    def space(self, at: int) -> int:
        """The index of the next character that is no white space."""
        it = _SPACE.match(self._text, at)
        return it.end() if it else at

    def value(self, at: int) -> int:
        """A value of any kind."""
        match self._text[at : at + 1]:
            case "{":
                return self._object(at)
            case "[":
                return self._list(at)
            case '"':
                return self._string(at)
            case _:
                return self._plain(at)

    def refuse(self, at: int, message: str) -> NoReturn:
        """The text is no JSON."""
        if self._text[at : at + 2] in {"//", "/*"} or self._text[at : at + 1] == "#":
            message = "JSON has no comments: call the file .yaml to have them"
        elif at >= len(self._text):
            message = f"the file ends here, and {message}"
        raise Unreadable(self._mark(at), message)

    def _object(self, at: int) -> int:
        self._composer.begin(self._mark(at), is_object=True)
        at = self.space(at + 1)
        while self._text[at : at + 1] != "}":
            if self._text[at : at + 1] != '"':
                self.refuse(at, "a name in double quotes, or a }, is missing")
            at = self.space(self._string(at))
            if self._text[at : at + 1] != ":":
                self.refuse(at, "a colon is missing after the name")
            at = self._separated(self.value(self.space(at + 1)), "}")
        self._composer.end()
        return at + 1

    def _list(self, at: int) -> int:
        self._composer.begin(self._mark(at), is_object=False)
        at = self.space(at + 1)
        while self._text[at : at + 1] != "]":
            at = self._separated(self.value(at), "]")
        self._composer.end()
        return at + 1

    def _separated(self, at: int, end: str) -> int:
        """Where the next item or the end is, after one item."""
        at = self.space(at)
        if self._text[at : at + 1] == end:
            return at
        if self._text[at : at + 1] != ",":
            self.refuse(at, f"a comma or a {end} is missing")
        after = self.space(at + 1)
        if self._text[after : after + 1] == end:
            self.refuse(at, f"this comma is one too many: JSON has none before {end}")
        return after

    def _string(self, at: int) -> int:
        try:
            value, end = self._decoder.raw_decode(self._text, at)
        except JSONDecodeError as error:
            self._bad_string(error)
        self._composer.scalar(Scalar(value, self._mark(at), value))
        return end

    def _bad_string(self, error: JSONDecodeError) -> NoReturn:
        if error.msg.startswith("Unterminated"):
            self.refuse(error.pos, "the quotes that open here are not closed")
        if error.msg.startswith("Invalid control"):
            self.refuse(error.pos, "a line end, a tab and other control characters must be "
                                   "escapes in JSON: \\n, \\t")  # fmt: skip
        self.refuse(error.pos, "JSON knows no such escape: write \\\\ for a backslash")

    def _plain(self, at: int) -> int:
        word = _WORD.match(self._text, at)
        if word is not None and word[0] in _WORDS:
            self._composer.scalar(Scalar(_WORDS[word[0]], self._mark(at), word[0]))
            return word.end()
        if word is not None:
            self.refuse(at, f"{word[0]} must be in double quotes")
        if (it := _NUMBER.match(self._text, at)) is None:
            self.refuse(at, "a value is missing")
        self._composer.scalar(Scalar(self._number(it, at), self._mark(at), it[0]))
        return it.end()

    def _number(self, it: re.Match[str], at: int) -> Value:
        try:
            return number(it[0]) if it[1] or it[2] else whole_number(it[0])
        except ValueError as error:
            self._composer.mistake(self._mark(at), str(error))
            return 0

    def _mark(self, at: int) -> Mark:
        line = bisect_right(self._lines, at)
        return Mark(line, at - self._lines[line - 1] + 1)
