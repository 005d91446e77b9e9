"""An index of word hashes that preselects the nearest of very many cassettes.

A word is the text between two quotation marks of a request line (line 2 of a cassette): names
and texts alike.  The index holds the 64-bit hashes of the words and of their counts.  Requests that
share most words share (nearly) most values: these few are read again and compared value by value.
Ties, which are frequent in chats of one message, are broken by the words of the last message.
In memory a cassette is some hundred numbers, about a kilobyte.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final, TypeAlias

from llm_proxy.cassette import StoredRequest
from llm_proxy.cassette.model import encode_line, request_line
from llm_proxy.dialects import lenient_json
from llm_proxy.diff.documents import split_words
from llm_proxy.last_message import last_message_in_fields

_MAX_SAME_TARGET: Final = 16
"""Maximum number of preselected cassettes with the method and path of the request."""
_MAX_OTHER_TARGET: Final = 4
"""The same for each other method and path, where only an equal body counts as near."""
_REQUEST_TARGET: Final = re.compile(rb'\{"request":\{"method":"([^"\\]+)","path":"([^"\\]+)"')
_MAX_WORDS: Final = 2_000
"""Maximum number of indexed words of a request: the first ones."""
_MAX_END_WORDS: Final = 16
"""Maximum number of words indexed at each end of the last message."""
_MAX_END_CHARS: Final = 100
"""Characters at each end of the last message that are split into words."""
_MAX_LINE_BYTES: Final = 1024 * 1024
"""Maximum size of a request line whose last message is indexed."""


def word_hashes(line: bytes) -> array[int]:
    """The hashes of the words of line 2 of a cassette, and of the counts of repeated words.

    A repeated word adds a second hash, of the word and its count: so requests with the same number
    of messages are similar, whatever their contents.
    """
    counts = Counter(line.split(b'"', _MAX_WORDS)[:_MAX_WORDS])
    repeated = (word_and_count for word_and_count in counts.items() if word_and_count[1] > 1)
    return array("q", [*map(hash, counts), *map(hash, repeated)])


def last_message_word_hashes(line: bytes) -> array[int]:
    """The distinct word hashes of the last message of line 2; empty if that has no text."""
    if len(line) > _MAX_LINE_BYTES:
        return array("q")
    request = lenient_json.object_fields(lenient_json.parse_object(line).get("request"))
    last_message = last_message_in_fields(lenient_json.object_fields(request.get("json")))
    if last_message is None:
        return array("q")
    text = last_message.text.casefold()
    if len(text) > 2 * _MAX_END_CHARS:
        text = f"{text[:_MAX_END_CHARS]} {text[-_MAX_END_CHARS:]}"
    message_words = split_words(text)
    if len(message_words) > 2 * _MAX_END_WORDS:
        message_words = message_words[:_MAX_END_WORDS] + message_words[-_MAX_END_WORDS:]
    return array("q", set(map(hash, message_words)))


def encode_cassette_request_line(request: StoredRequest) -> bytes:
    """Line 2 of a cassette with this request."""
    return encode_line(request_line(request))


def method_and_path(line: bytes) -> bytes:
    """`METHOD path` of line 2; empty if the line is not formatted as the recorder writes it."""
    match = _REQUEST_TARGET.match(line)
    return b"" if match is None else match[1] + b" " + match[2]


_IndexedCassette: TypeAlias = "tuple[int, array[int], array[int]]"
"""The number of a cassette, its word hashes, and those of its last message."""


@dataclass(slots=True)
class CassetteWordIndex:
    """Word hashes of many cassettes, each with a number that the caller assigns."""

    cassette_count: int = 0
    _cassettes_by_target: dict[bytes, list[_IndexedCassette]] = field(default_factory=dict)

    def add_cassette(self, number: int, line: bytes) -> None:
        """Add the cassette with this number; `line` is its line 2."""
        cassettes = self._cassettes_by_target.setdefault(method_and_path(line), [])
        cassettes.append((number, word_hashes(line), last_message_word_hashes(line)))
        self.cassette_count += 1

    def nearest_cassette_numbers(self, request: StoredRequest) -> list[int]:
        """The numbers of the cassettes that are probably nearest, ascending."""
        line = encode_cassette_request_line(request)
        words, message_words = frozenset(word_hashes(line)), last_message_word_hashes(line)
        target = method_and_path(line)
        numbers: list[int] = []
        for indexed_target, cassettes in self._cassettes_by_target.items():
            limit = _MAX_SAME_TARGET if indexed_target == target else _MAX_OTHER_TARGET
            numbers += _most_similar_numbers(words, frozenset(message_words), cassettes, limit)
        return sorted(numbers)


def _most_similar_numbers(
    words: frozenset[int],
    message_words: frozenset[int],
    cassettes: list[_IndexedCassette],
    limit: int,
) -> list[int]:
    """The numbers of the cassettes with the highest Jaccard similarity, at most `limit`.

    Of those that tie, the ones whose last message shares most words.
    """
    if len(cassettes) <= limit:
        return [number for number, _, _ in cassettes]

    def similarity(cassette: _IndexedCassette) -> tuple[float, float]:
        _, hashes, message_hashes = cassette
        # An intersection is twice as fast as a test per word.
        shared_count = len(words.intersection(hashes))
        shared_message_count = len(message_words.intersection(message_hashes))
        return (
            shared_count / (len(words) + len(hashes) - shared_count),
            shared_message_count / ((len(message_words) or 1) + len(message_hashes)),
        )

    return [number for number, _, _ in nlargest(limit, cassettes, key=similarity)]
