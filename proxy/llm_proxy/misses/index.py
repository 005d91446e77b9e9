"""The cassettes among very many that a request could have meant, without reading them all again.

Of each request line the words are known: what stands between its quotation marks, names and texts
alike, and how often each does, as numbers of 64 bits.  Requests that share most words share most
values, or nearly: the few that do are read again and compared value by value.  In memory a
cassette is some hundred numbers, about a kilobyte.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final

from llm_proxy.cassette import StoredRequest
from llm_proxy.cassette.schema import RequestLine, dump

FEW: Final = 16
"""Cassettes of the same path that are compared value by value."""
_OTHERS: Final = 4
"""Those of other paths, of which only what says the very same is near."""
_TARGET: Final = re.compile(rb'\{"request":\{"method":"([^"\\]+)","path":"([^"\\]+)"')
_MOST: Final = 2_000
"""Words of a request that count: the first."""

Words = frozenset[int]


def words_of(line: bytes) -> array[int]:
    """The words of line 2 of a cassette, each with how often it stands there.

    A word counts once for itself, and once more with its number where it stands there again: so
    two requests are alike that have as many messages, whatever these say.
    """
    counts = Counter(line.split(b'"', _MOST)[:_MOST])
    again = (it for it in counts.items() if it[1] > 1)
    return array("q", [*map(hash, counts), *map(hash, again)])


def line_of(request: StoredRequest) -> bytes:
    """Line 2, as the cassette of this request would have it."""
    return dump(RequestLine.of(request))


def target_of(line: bytes) -> bytes:
    """Method and path of line 2; empty where it is spelled otherwise than we write it."""
    match = _TARGET.match(line)
    return b"" if match is None else match[1] + b" " + match[2]


@dataclass(slots=True)
class Index:
    """The words of many cassettes, which are numbered in the order of their coming."""

    size: int = 0
    """How many there are."""
    _by_target: dict[bytes, tuple[array[int], list[array[int]]]] = field(default_factory=dict)
    """By method and path: their numbers, and their words."""

    def add(self, number: int, line: bytes) -> None:
        """Know of the cassette of that number by its line 2."""
        numbers, words = self._by_target.setdefault(target_of(line), (array("l"), []))
        numbers.append(number)
        words.append(words_of(line))
        self.size += 1

    def near(self, request: StoredRequest) -> list[int]:
        """The numbers of those that are likely nearest, in the order of their coming."""
        line = line_of(request)
        asked = frozenset(words_of(line))
        target = target_of(line)
        same = self._by_target.get(target, (array("l"), []))
        found = _most(asked, zip(*same, strict=True), FEW)
        for other, (numbers, words) in self._by_target.items():
            if other != target:
                found += _most(asked, zip(numbers, words, strict=True), _OTHERS)
        return sorted(found)


def _most(asked: Words, of: Iterable[tuple[int, array[int]]], few: int) -> list[int]:
    """The numbers of those that share most words, by the share of all that they have together."""
    shared_with = asked.intersection  # twice as fast as asking word by word
    size = len(asked)
    scored: list[tuple[float, int]] = []
    for number, words in of:
        shared = len(shared_with(words))
        scored.append((shared / (size + len(words) - shared), -number))
    return [-number for _, number in nlargest(few, scored)]
