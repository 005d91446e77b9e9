"""An index of the words of requests, which finds the nearest of very many cassettes.

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
from llm_proxy.cassette.schema import RequestLine, encode_line
from llm_proxy.dialects import lenient_json
from llm_proxy.diff.word_diff import split_words
from llm_proxy.last_message import last_message_of

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


def word_counts(line: bytes) -> array[int]:
    """The words of line 2 of a cassette, each with how often it stands there.

    A word counts once for itself, and once more with its number where it stands there again: so
    two requests are alike that have as many messages, whatever these say.
    """
    counts = Counter(line.split(b'"', _MOST)[:_MOST])
    again = (values for values in counts.items() if values[1] > 1)
    return array("q", [*map(hash, counts), *map(hash, again)])


def last_message_words(line: bytes) -> array[int]:
    """The words of the last message of line 2, each once; none where nothing is asked in words."""
    if len(line) > _LARGEST:
        return array("q")
    request = lenient_json.object_fields(lenient_json.parse_object(line).get("request"))
    last_message = last_message_of(lenient_json.object_fields(request.get("json")))
    if last_message is None:
        return array("q")
    text = last_message.text.casefold()
    if len(text) > 2 * _END:
        text = f"{text[:_END]} {text[-_END:]}"
    items = split_words(text)
    if len(items) > 2 * _ENDS:
        items = items[:_ENDS] + items[-_ENDS:]
    return array("q", set(map(hash, items)))


def request_line(request: StoredRequest) -> bytes:
    """Line 2, as the cassette of this request would have it."""
    return encode_line(RequestLine.from_value(request))


def request_target_of(line: bytes) -> bytes:
    """Method and path of line 2; empty where it is spelled otherwise than we write it."""
    match = _TARGET.match(line)
    return b"" if match is None else match[1] + b" " + match[2]


@dataclass(slots=True)
class _TargetIndex:
    """The cassettes of one method and path: their numbers, and the words of each."""

    numbers: array[int] = field(default_factory=lambda: array("l"))
    words: list[array[int]] = field(default_factory=list)
    last_words: list[array[int]] = field(default_factory=list)
    """Those of the last message."""


@dataclass(slots=True)
class CassetteIndex:
    """The words of many cassettes, which are numbered in the order of their coming."""

    size: int = 0
    """How many there are."""
    _by_target: dict[bytes, _TargetIndex] = field(default_factory=dict)
    """By method and path."""

    def add(self, number: int, line: bytes) -> None:
        """Know of the cassette of that number by its line 2."""
        shelf = self._by_target.setdefault(request_target_of(line), _TargetIndex())
        shelf.numbers.append(number)
        shelf.words.append(word_counts(line))
        shelf.last_words.append(last_message_words(line))
        self.size += 1

    def nearest_numbers(self, request: StoredRequest) -> list[int]:
        """The numbers of those that are likely nearest, in the order of their coming."""
        line = request_line(request)
        asked, last = frozenset(word_counts(line)), frozenset(last_message_words(line))
        target = request_target_of(line)
        found: list[int] = []
        for other, shelf in self._by_target.items():
            limit = FEW if other == target else _OTHERS
            found += [
                shelf.numbers[place] for place in _best_by_shared_words(asked, last, shelf, limit)
            ]
        return sorted(found)


def _best_by_shared_words(words: Words, last: Words, shelf: _TargetIndex, limit: int) -> list[int]:
    """The places of those that share most words, by the share of all that they have together.

    Among those that share as many, where not all can be had, the last message decides.
    """
    shared_with = words.intersection  # twice as fast as asking word by word
    size = len(words)
    shares: list[float] = []
    for word in shelf.words:
        shared = len(shared_with(word))
        shares.append(shared / (size + len(word) - shared))
    if len(shares) <= limit:
        return list(range(len(shares)))
    least = nlargest(limit, shares)[-1]
    found = [place for place, share in enumerate(shares) if share > least]
    tied = [place for place, share in enumerate(shares) if share == least]
    return found + _break_ties_by_last_message(last, tied, shelf, limit - len(found))


def _break_ties_by_last_message(
    last: Words, tied: list[int], shelf: _TargetIndex, limit: int
) -> list[int]:
    """Those of these places whose last messages share most words with this one."""
    if len(tied) <= limit:
        return tied
    shared_with = last.intersection
    size = len(last) or 1
    scored: list[tuple[float, int]] = []
    for place in tied:
        theirs = shelf.last_words[place]
        scored.append((-len(shared_with(theirs)) / (size + len(theirs)), place))
    return [place for _, place in nsmallest(limit, scored)]
