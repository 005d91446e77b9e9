"""Deterministic embeddings: similar texts get similar vectors.

What lies near is what shares words, and letters in the same order.  Meaning is not known: of two
words for one thing, neither is nearer to the other than to any third.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from hashlib import shake_256
from math import sqrt
from operator import mul
from struct import unpack
from typing import Final
from zlib import crc32

_WIDEST: Final = 4096
"""Dimensions of the largest embeddings."""
_WORD: Final = re.compile(r"\w+")
_WEIGHTS: Final = (0.0, 0.1, 0.2, 0.4, 0.7, 0.9, 1.0)
"""Of a word, by its letters; short ones stand in any text."""
_PART: Final = 0.35
"""The weight of a few letters in a row, beside a long word's."""
_ONCE: Final = (-_PART, _PART)
"""The same, as what is taken away and what is added."""
_DENSE: Final = 2.2
"""Bytes a character from which on a script says in two what others say in three."""
_ITSELF: Final = 0.02
"""How much of a vector is the text's alone: those of two texts are hardly ever the same."""
_UNIT: Final = 2
"""Bytes of a character that is cut from its neighbours."""


def fake_embedding(text: str, dimensions: int) -> list[float]:
    """An embedding: a vector of length 1, with 1 to 4096 dimensions."""
    count = min(max(dimensions, 1), _WIDEST)
    folded = text.casefold()
    words = _WORD.findall(folded)
    values = [0.0] * count
    for mark, weight in _word_checksums(words).items():
        values[mark % count] += weight if mark >> 31 else -weight
    for mark, often in _ngram_checksums(" ".join(words)).items():
        weight = _ONCE[mark >> 31]
        values[mark % count] += weight if often == 1 else weight * sqrt(often)
    length = _euclidean_norm(values)
    if length < _ITSELF:  # no words, or they cancel each other out
        return _seeded_unit_vector(text, count)
    values[crc32(_hash_bytes(text)) % count] += _ITSELF * length
    length = _euclidean_norm(values)
    return [value / length for value in values]


def _word_checksums(words: list[str]) -> Mapping[int, float]:
    """The checksums of the words with their weights; one that comes again adds ever less."""
    most = len(_WEIGHTS) - 1
    return {
        crc32(_hash_bytes(word)): _WEIGHTS[min(len(word), most)] * sqrt(times)
        for word, times in Counter(words).items()
    }


def _ngram_checksums(text: str) -> Counter[int]:
    """The checksums of all runs of a few letters, each with how often it comes."""
    data = f" {text} ".encode("utf-16-le", "replace")
    is_dense = len(_hash_bytes(text)) > _DENSE * len(text)
    size = _UNIT * (2 if is_dense else 3)
    last = len(data) - size if text else 0
    return Counter([crc32(data[at : at + size]) for at in range(0, last + 1, _UNIT)])


def _seeded_unit_vector(text: str, count: int) -> list[float]:
    """A vector of length 1 that has nothing to do with that of any other text."""
    data = shake_256(_hash_bytes(text)).digest(2 * count)
    values = [content + 0.5 for content in unpack(f">{count}h", data)]
    length = _euclidean_norm(values)
    return [value / length for value in values]


def _hash_bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _euclidean_norm(values: list[float]) -> float:
    return sqrt(sum(map(mul, values, values)))
