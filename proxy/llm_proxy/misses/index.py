"""The cassettes among very many that a request could have meant, without reading them all again.

Of each request line the words are known: what stands between its quotation marks, names and texts
alike, and how often each does, as numbers of 64 bits.  Requests that share most words share most
values, or nearly: the few that do are read again and compared value by value.  Where more share
as many, as chats of one message do, those are the few that have most words of the last message.
In memory a cassette is some hundred numbers, about a kilobyte.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass, field
from heapq import nlargest, nsmallest
from typing import Final

from llm_proxy.cassette import StoredRequest
from llm_proxy.cassette.schema import RequestLine, dump
from llm_proxy.dialects import lenient_json
from llm_proxy.diff.words import words
from llm_proxy.last_message import question_in

FEW: Final = 16
"""Cassettes of the same path that are compared value by value."""
_OTHERS: Final = 4
"""Those of other paths, of which only what says the very same is near."""
_TARGET: Final = re.compile(rb'\{"request":\{"method":"([^"\\]+)","path":"([^"\\]+)"')
_MOST: Final = 2_000
"""Words of a request that count: the first."""
_ENDS: Final = 16
"""Words of the last message that count: so many that it begins with, and that it ends with."""
_END: Final = 100
"""Characters at either end in which they are looked for."""
_LARGEST: Final = 1024 * 1024
"""Bytes of a line whose last message is looked at."""

Words = frozenset[int]


def words_of(line: bytes) -> array[int]:
    """The words of line 2 of a cassette, each with how often it stands there.

    A word counts once for itself, and once more with its number where it stands there again: so
    two requests are alike that have as many messages, whatever these say.
    """
    counts = Counter(line.split(b'"', _MOST)[:_MOST])
    again = (it for it in counts.items() if it[1] > 1)
    return array("q", [*map(hash, counts), *map(hash, again)])


def last_words_of(line: bytes) -> array[int]:
    """The words of the last message of line 2, each once; none where nothing is asked in words."""
    if len(line) > _LARGEST:
        return array("q")
    request = lenient_json.fields(lenient_json.document(line).get("request"))
    asked = question_in(lenient_json.fields(request.get("json")))
    if asked is None:
        return array("q")
    text = asked.text.casefold()
    if len(text) > 2 * _END:
        text = f"{text[:_END]} {text[-_END:]}"
    said = words(text)
    if len(said) > 2 * _ENDS:
        said = said[:_ENDS] + said[-_ENDS:]
    return array("q", set(map(hash, said)))


def line_of(request: StoredRequest) -> bytes:
    """Line 2, as the cassette of this request would have it."""
    return dump(RequestLine.of(request))


def target_of(line: bytes) -> bytes:
    """Method and path of line 2; empty where it is spelled otherwise than we write it."""
    match = _TARGET.match(line)
    return b"" if match is None else match[1] + b" " + match[2]


@dataclass(slots=True)
class _Shelf:
    """The cassettes of one method and path: their numbers, and the words of each."""

    numbers: array[int] = field(default_factory=lambda: array("l"))
    words: list[array[int]] = field(default_factory=list)
    last: list[array[int]] = field(default_factory=list)
    """Those of the last message."""


@dataclass(slots=True)
class Index:
    """The words of many cassettes, which are numbered in the order of their coming."""

    size: int = 0
    """How many there are."""
    _by_target: dict[bytes, _Shelf] = field(default_factory=dict)
    """By method and path."""

    def add(self, number: int, line: bytes) -> None:
        """Know of the cassette of that number by its line 2."""
        shelf = self._by_target.setdefault(target_of(line), _Shelf())
        shelf.numbers.append(number)
        shelf.words.append(words_of(line))
        shelf.last.append(last_words_of(line))
        self.size += 1

    def near(self, request: StoredRequest) -> list[int]:
        """The numbers of those that are likely nearest, in the order of their coming."""
        line = line_of(request)
        asked, last = frozenset(words_of(line)), frozenset(last_words_of(line))
        target = target_of(line)
        found: list[int] = []
        for other, shelf in self._by_target.items():
            few = FEW if other == target else _OTHERS
            found += [shelf.numbers[place] for place in _most(asked, last, shelf, few)]
        return sorted(found)


def _most(asked: Words, last: Words, shelf: _Shelf, few: int) -> list[int]:
    """The places of those that share most words, by the share of all that they have together.

    Among those that share as many, where not all can be had, the last message decides.
    """
    shared_with = asked.intersection  # twice as fast as asking word by word
    size = len(asked)
    shares: list[float] = []
    for each in shelf.words:
        shared = len(shared_with(each))
        shares.append(shared / (size + len(each) - shared))
    if len(shares) <= few:
        return list(range(len(shares)))
    least = nlargest(few, shares)[-1]
    found = [place for place, share in enumerate(shares) if share > least]
    tied = [place for place, share in enumerate(shares) if share == least]
    return found + _by_last(last, tied, shelf, few - len(found))


def _by_last(last: Words, tied: list[int], shelf: _Shelf, few: int) -> list[int]:
    """Those of these places whose last messages share most words with this one."""
    if len(tied) <= few:
        return tied
    shared_with = last.intersection
    size = len(last) or 1
    scored: list[tuple[float, int]] = []
    for place in tied:
        theirs = shelf.last[place]
        scored.append((-len(shared_with(theirs)) / (size + len(theirs)), place))
    return [place for _, place in nsmallest(few, scored)]
