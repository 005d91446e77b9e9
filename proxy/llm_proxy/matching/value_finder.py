"""Finds known values within texts: ids and paths."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

_MIN_CHARS: Final = 8
"""The length from which a value does not occur in a text by accident."""
_DIGIT: Final = re.compile("[0-9]")
_PATH_SLUG: Final = re.compile(r"-\w+-")
"""The beginning of a path that is written as a file name: `-home-ann-project`."""
_PATH_SEPARATOR: Final = re.compile(r"[/\\]")

NO_PATH_BEFORE: Final = r"(?<![\w.~<-])(?<![0-9]>)"
"""An absolute path follows: not the rest of a path, even one that begins with an alias, nor the
end tag of an element, such as `</root>`."""

_MAX_VALUES: Final = 500
"""The most values that do not begin with a word character, and the most lengths of the others."""
_IN_WORD: Final = re.compile(r"\w")
_ANYWHERE: Final = re.compile("")
_WORD_BEGINS: Final = re.compile(r"(?<!\w)\w")
_WORD_ENDS: Final = re.compile(r"(?!\w)")
_PATH_BEGINS: Final = re.compile(NO_PATH_BEFORE)
_PATH_ENDS: Final = re.compile(r"(?![\w-]|\.\w)")
"""`/srv/app` is not found in `/x/srv/app`, `/srv/app-2` or `/srv/app.old`."""
_SLUG_BEGINS: Final = re.compile(r"(?<![\w-])")


def looks_like_path(value: str) -> bool:
    """Whether a value contains a path separator."""
    return _PATH_SEPARATOR.search(value) is not None


def is_distinctive(value: str) -> bool:
    """Whether a value is long and unusual enough not to occur in a text by accident.

    A value without a digit may be a word, such as the name of a tool.
    """
    is_no_plain_word = _DIGIT.search(value) is not None or _PATH_SLUG.match(value) is not None
    return looks_like_path(value) or (len(value) >= _MIN_CHARS and is_no_plain_word)


class ValueFinder:
    """Finds values in texts, except as parts of longer words or paths.

    A text is read once, however many values there are: nearly all begin with a word character, and
    words are looked up.  Each of the other values is searched separately.
    """

    def __init__(self, values: Iterable[str]) -> None:
        """The order of `values` only matters beyond `_MAX_VALUES`: the first ones are kept."""
        words: set[str] = set()
        others: list[str] = []
        for value in values:
            if _WORD_BEGINS.match(value):
                words.add(value)
            else:
                others.append(value)
        self._words = words
        self._word_lengths = sorted(set(map(len, words)), reverse=True)[:_MAX_VALUES]
        self._other_values = others[:_MAX_VALUES]

    def find_spans(self, text: str) -> list[tuple[int, int]]:
        """The start and end offsets of the values in a text, from left to right.

        They do not overlap; of two values at the same offset the longer one counts.
        """
        spans: list[tuple[int, int]] = []
        offset = 0
        for begin, size in sorted([*self._find_words(text), *self._find_other_values(text)]):
            if begin >= offset:
                offset = begin - size
                spans.append((begin, offset))
        return spans

    def replace_all(self, text: str, change: Callable[[str], str]) -> str:
        """The text with every value replaced by the result of `change`."""
        pieces: list[str] = []
        offset = 0
        for begin, end in self.find_spans(text):
            pieces += [text[offset:begin], change(text[begin:end])]
            offset = end
        return "".join([*pieces, text[offset:]])

    def _find_words(self, text: str) -> Iterator[tuple[int, int]]:
        for found in _WORD_BEGINS.finditer(text) if self._words else ():
            begin = found.start()
            for size in self._word_lengths:
                value = text[begin : begin + size]
                if value in self._words and _ends_at_boundary(value, text, begin + len(value)):
                    yield begin, -len(value)  # shorter than `size` at the end of the text
                    break

    def _find_other_values(self, text: str) -> Iterator[tuple[int, int]]:
        for value in self._other_values:
            if looks_like_path(value):
                begins = _PATH_BEGINS
            else:
                begins = _SLUG_BEGINS if _PATH_SLUG.match(value) else _ANYWHERE
            offset = text.find(value)
            while offset >= 0:
                end = offset + len(value)
                if begins.match(text, offset) and _ends_at_boundary(value, text, end):
                    yield offset, -len(value)
                offset = text.find(value, offset + 1)


def _ends_at_boundary(value: str, text: str, end: int) -> bool:
    if looks_like_path(value):
        return _PATH_ENDS.match(text, end) is not None
    return _WORD_ENDS.match(text, end) is not None or not _IN_WORD.match(value[-1])
