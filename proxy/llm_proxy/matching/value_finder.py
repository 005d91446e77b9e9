"""Finds recorded values within texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_ID_MEMBER: Final = re.compile(r"(?:.*_)?ids?|.*[a-z]I[dD]")
_SHORTEST: Final = 8
"""Characters of what stands in a text by no accident."""
_DIGIT: Final = re.compile("[0-9]")
_SLUG: Final = re.compile(r"-\w+-")
"""A path that is spelled as the name of a file begins so: `-home-ann-project`."""
_PATH: Final = re.compile(r"[/\\]")

NO_PATH_BEFORE: Final = r"(?<![\w.~<-])(?<![0-9]>)"
"""What follows is a path from the root: neither the rest of one, also behind a name of ours, nor
the end of an element, such as `</root>`."""

_MANY: Final = 500
"""Values that do not begin as words do, and sizes of those that do: the first."""
_IN_WORD: Final = re.compile(r"\w")
_ANYWHERE: Final = re.compile("")
_WORD_BEGINS: Final = re.compile(r"(?<!\w)\w")
_WORD_ENDS: Final = re.compile(r"(?!\w)")
_PATH_BEGINS: Final = re.compile(NO_PATH_BEFORE)
_PATH_ENDS: Final = re.compile(r"(?![\w-]|\.\w)")
"""`/srv/app` is no part of `/x/srv/app`, `/srv/app-2` or `/srv/app.old`."""
_SLUG_BEGINS: Final = re.compile(r"(?<![\w-])")


def is_id_member(member: str) -> bool:
    """Whether a member of an object is called as ids are: `id`, `call_id`, `toolUseId`."""
    return _ID_MEMBER.fullmatch(member) is not None


def is_folder_path(value: str) -> bool:
    """Whether a value is a path of folders."""
    return _PATH.search(value) is not None


def is_long_enough(value: str) -> bool:
    """Whether a value that is found within a text stands there by no accident.

    Without a digit it may be a word, such as the name of a tool.
    """
    is_sure = _DIGIT.search(value) is not None or _SLUG.match(value) is not None
    return is_folder_path(value) or (len(value) >= _SHORTEST and is_sure)


@dataclass(frozen=True, slots=True, init=False)
class ValueFinder:
    """Finds values in texts, where they are no part of a longer word or path.

    A text is read once, however many values there are: nearly all begin as words do, and a word is
    looked up.  Each of the others is looked for by itself.
    """

    _words: frozenset[str]
    _sizes: tuple[int, ...]
    """Theirs, in characters."""
    _others: tuple[str, ...]

    def __init__(self, values: Iterable[str]) -> None:
        """The order of the values does not matter, but where there are very many odd ones."""
        words: list[str] = []
        others: list[str] = []
        for value in values:
            (words if _WORD_BEGINS.match(value) else others).append(value)
        sizes = sorted({len(word) for word in words}, reverse=True)[:_MANY]
        object.__setattr__(self, "_words", frozenset(words))
        object.__setattr__(self, "_sizes", tuple(sizes))
        object.__setattr__(self, "_others", tuple(others[:_MANY]))

    def find_spans(self, text: str) -> list[tuple[int, int]]:
        """Where they begin and end in a text, from left to right.

        None is part of another; of two that begin at one place it is the longer.
        """
        places: list[tuple[int, int]] = []
        at = 0
        for begin, size in sorted([*self._find_word_spans(text), *self._find_other_spans(text)]):
            if begin >= at:
                at = begin - size
                places.append((begin, at))
        return places

    def replace_all(self, text: str, change: Callable[[str], str]) -> str:
        """A text in which each of them is changed."""
        pieces: list[str] = []
        at = 0
        for begin, end in self.find_spans(text):
            pieces += [text[at:begin], change(text[begin:end])]
            at = end
        return "".join([*pieces, text[at:]])

    def _find_word_spans(self, text: str) -> Iterator[tuple[int, int]]:
        for found in _WORD_BEGINS.finditer(text) if self._words else ():
            begin = found.start()
            for size in self._sizes:
                value = text[begin : begin + size]
                if value in self._words and _end_pattern(value, text, begin + len(value)):
                    yield begin, -size
                    break

    def _find_other_spans(self, text: str) -> Iterator[tuple[int, int]]:
        for value in self._others:
            begins = _begin_pattern(value)
            place = text.find(value)
            while place >= 0:
                if begins.match(text, place) and _end_pattern(value, text, place + len(value)):
                    yield place, -len(value)
                place = text.find(value, place + 1)


def _begin_pattern(value: str) -> re.Pattern[str]:
    """What must match where a value begins that does not begin as words do."""
    if is_folder_path(value):
        return _PATH_BEGINS
    return _SLUG_BEGINS if _SLUG.match(value) else _ANYWHERE


def _end_pattern(value: str, text: str, place: int) -> bool:
    if is_folder_path(value):
        return _PATH_ENDS.match(text, place) is not None
    return _WORD_ENDS.match(text, place) is not None or not _IN_WORD.match(value[-1])
