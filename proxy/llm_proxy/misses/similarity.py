"""Measures how similar two requests are.

The similarity of two texts is the Dice coefficient of their pieces, counted with multiplicity:
three consecutive characters, or whole words in long texts.  The time is linear in their
length, whatever they contain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from llm_proxy.diff.word_diff import split_words
from llm_proxy.matching import KeyDocument
from llm_proxy.matching.large_base64 import contains_base64_hash
from llm_proxy.misses.prompt_fields import prompt_leaves

_LONG_TEXT_MIN_CHARS: Final = 500
"""Longer texts are compared by words."""
_MAX_UNEQUAL_SIMILARITY: Final = 0.999
"""Upper bound for unequal texts: these may have the same pieces in another order."""
_EMPTY_VALUES: Final = frozenset(('""', "{}", "[]", "null"))
"""JSON values without content."""

_PieceCounts = Counter[str]


class RequestSimilarityScorer:
    """Compares one request with many others; caches the pieces of its own texts."""

    def __init__(self, leaves: Mapping[str, str]) -> None:
        """`leaves` are the request's values by path, from `json_leaves.json_leaves`."""
        self._leaves = leaves
        self._pieces: dict[tuple[str, bool], _PieceCounts] = {}

    def similarity_to(self, stored: Mapping[str, str]) -> float:
        """From 0 to 1: the Jaccard similarity of the (path, value) pairs.

        Unequal texts with the same path count with their similarity.
        """
        leaves = self._leaves
        equal_items = leaves.items() & stored.items()
        shared_weight = float(len(equal_items))
        for path, value in leaves.items() - equal_items:
            if path in stored:
                shared_weight += self._value_similarity(path, value, stored[path])
        return shared_weight / (len(leaves) + len(stored) - shared_weight)

    def lowest_value_similarity(self, stored: Mapping[str, str]) -> float:
        """From 0 to 1: the lowest similarity of two values with the same path.

        A value that only one of them has counts as 0, unless it is empty.
        """
        leaves = self._leaves
        minimum = 1.0
        for path in leaves.keys() | stored.keys():
            requested_value, stored_value = leaves.get(path, "null"), stored.get(path, "null")
            if (
                requested_value != stored_value
                and not {requested_value, stored_value} <= _EMPTY_VALUES
            ):
                minimum = min(minimum, self._value_similarity(path, requested_value, stored_value))
        return minimum

    def _value_similarity(self, path: str, one: str, other: str) -> float:
        """The similarity of two unequal values; 0 if they are not texts."""
        if not (_is_text_value(path, one) and _is_text_value(path, other)):
            return 0.0
        if contains_base64_hash(one) or contains_base64_hash(
            other
        ):  # a hash is never more or less similar to another
            return 0.0
        is_long = max(len(one), len(other)) > _LONG_TEXT_MIN_CHARS
        pieces = self._pieces.get((one, is_long))
        if pieces is None:
            pieces = self._pieces[one, is_long] = _piece_counts(one, is_long=is_long)
        return min(
            _dice_coefficient(pieces, _piece_counts(other, is_long=is_long)),
            _MAX_UNEQUAL_SIMILARITY,
        )


def lowest_prompt_similarity(requested: KeyDocument, stored: KeyDocument) -> float:
    """From 0 to 1: the lowest similarity of two prompt values with the same path."""
    return RequestSimilarityScorer(prompt_leaves(requested)).lowest_value_similarity(
        prompt_leaves(stored)
    )


def _is_text_value(path: str, value: str) -> bool:
    """Whether this is a text of the body; in JSON, one with quotes."""
    return path == "body" or (path[:1] == "$" and value[:1] == '"')


def _piece_counts(text: str, *, is_long: bool) -> _PieceCounts:
    """The pieces of a text with their counts; its quotes mark the first and the last piece."""
    if is_long:
        return Counter(split_words(text))
    return Counter([text[start : start + 3] for start in range(len(text) - 2)])


def _dice_coefficient(one: _PieceCounts, other: _PieceCounts) -> float:
    common = one.keys() & other.keys()
    shared_count = sum(map(min, map(one.__getitem__, common), map(other.__getitem__, common)))
    return 2 * shared_count / max(one.total() + other.total(), 1)
