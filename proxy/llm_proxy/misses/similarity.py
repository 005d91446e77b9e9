"""Measures how similar two requests are.

Texts are alike by the pieces that both have (Dice's coefficient, each piece as often as it
stands there): three characters in a row, or whole words where a text is long.  That takes time in
proportion to their length, and depends on nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from llm_proxy.diff.word_diff import split_words
from llm_proxy.matching import KeyDocument
from llm_proxy.matching.large_base64 import contains_base64_hash
from llm_proxy.misses.prompt_fields import question_leaves

_LONG: Final = 500
"""Characters of a text from which on its words count."""
_MOST: Final = 0.999
"""What two texts are alike at most that are not the same: the same pieces in another order."""
_NOTHING: Final = frozenset(('""', "{}", "[]", "null"))
"""Values that ask nothing."""

_Pieces = Counter[str]


class RequestSimilarity:
    """How alike others are to one request; its own texts are cut into pieces once."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        """`asked` are its values under their paths, as `json_leaves.leaves` gives them."""
        self._asked = fields
        self._pieces: dict[tuple[str, bool], _Pieces] = {}

    def similarity_to(self, stored: Mapping[str, str]) -> float:
        """From 0 to 1: the share of (path, value) pairs that both have.

        Of two texts that differ in the same place only as much counts as they are alike.
        """
        fields = self._asked
        same = fields.items() & stored.items()
        shared = float(len(same))
        for path, value in fields.items() - same:
            if path in stored:
                shared += self._value_similarity(path, value, stored[path])
        return shared / (len(fields) + len(stored) - shared)

    def least_similarity_to(self, stored: Mapping[str, str]) -> float:
        """From 0 to 1: how alike the two values are that are least so, place by place.

        What only one of them has is not alike at all, unless it says nothing.
        """
        fields = self._asked
        least = 1.0
        for path in fields.keys() | stored.keys():
            one, other = fields.get(path, "null"), stored.get(path, "null")
            if one != other and not {one, other} <= _NOTHING:
                least = min(least, self._value_similarity(path, one, other))
        return least

    def _value_similarity(self, path: str, one: str, other: str) -> float:
        """How alike two values are that are not the same: 0 where they are no texts."""
        if not (_is_text_value(path, one) and _is_text_value(path, other)):
            return 0.0
        if contains_base64_hash(one) or contains_base64_hash(
            other
        ):  # of two hashes none is nearer than another
            return 0.0
        is_long = max(len(one), len(other)) > _LONG
        mine = self._pieces.get((one, is_long))
        if mine is None:
            mine = self._pieces[one, is_long] = _text_pieces(one, is_long=is_long)
        return min(_dice_coefficient(mine, _text_pieces(other, is_long=is_long)), _MOST)


def least_similarity(key_document: KeyDocument, stored: KeyDocument) -> float:
    """From 0 to 1: how alike the texts are that are least so within what is asked."""
    return RequestSimilarity(question_leaves(key_document)).least_similarity_to(
        question_leaves(stored)
    )


def _is_text_value(path: str, value: str) -> bool:
    """Whether a value of a body is a text; one as JSON has its quotes."""
    return path == "body" or (path[:1] == "$" and value[:1] == '"')


def _text_pieces(text: str, *, is_long: bool) -> _Pieces:
    """The pieces of a text; its quotes are the ends that tell its first word and its last."""
    if is_long:
        return Counter(split_words(text))
    return Counter([text[place : place + 3] for place in range(len(text) - 2)])


def _dice_coefficient(one: _Pieces, other: _Pieces) -> float:
    common = one.keys() & other.keys()
    both = sum(map(min, map(one.__getitem__, common), map(other.__getitem__, common)))
    return 2 * both / max(one.total() + other.total(), 1)
