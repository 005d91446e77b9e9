"""Estimated token counts and fake embeddings for responses that no model made.

Embeddings are deterministic, and similar texts get similar vectors: texts are near if they share
words, or letters in the same order.  Meaning plays no part: synonyms are no nearer to each other
than to any other word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import shake_256
from math import sqrt
from operator import mul
from struct import unpack
from typing import Final
from zlib import crc32

from llm_proxy.dialects.lenient_json import compact_json
from llm_proxy.turns import Json

_CHARS_PER_TOKEN: Final = 4
"""A rule of thumb."""
_MAX_DEPTH: Final = 100
"""Nesting levels of a request that are searched for texts."""

_MAX_DIMENSIONS: Final = 4096
_WORD: Final = re.compile(r"\w+")
_WORD_WEIGHTS: Final = (0.0, 0.1, 0.2, 0.4, 0.7, 0.9, 1.0)
"""The weight of a word by its number of letters: short words occur in any text."""
_NGRAM_WEIGHT: Final = 0.35
"""The weight of one character n-gram; a long word weighs 1."""
_SIGNED_NGRAM_WEIGHTS: Final = (-_NGRAM_WEIGHT, _NGRAM_WEIGHT)
"""Its two signs, by the top bit of the checksum."""
_DENSE_BYTES_PER_CHAR: Final = 2.2
"""UTF-8 bytes per character above which a script is dense: bigrams in place of trigrams."""
_WHOLE_TEXT_WEIGHT: Final = 0.02
"""The weight of the text's own checksum, so that two texts hardly ever get the same vector."""
_UTF16_UNIT_BYTES: Final = 2


def estimated_token_count(text: str) -> int:
    """A quarter of the text's characters, rounded up."""
    return token_count_of_chars(len(text))


def token_count_of_chars(char_count: int) -> int:
    """The estimated number of tokens in so many characters: a quarter, rounded up."""
    return -(-char_count // _CHARS_PER_TOKEN)


def model_input_texts(
    value: Json, text_fields: Sequence[str], json_fields: Sequence[str], max_depth: int = _MAX_DEPTH
) -> Iterator[str]:
    """The texts of a request that the model reads: strings in lists and under `text_fields`.

    Values under `json_fields` are read as compact JSON; all other fields are skipped.
    """
    match value:
        case str():
            yield value
        case list() if max_depth:
            for item in value:
                yield from model_input_texts(item, text_fields, json_fields, max_depth - 1)
        case dict() if max_depth:
            for name in text_fields:
                yield from model_input_texts(
                    value.get(name), text_fields, json_fields, max_depth - 1
                )
            yield from (compact_json(value[name]) for name in json_fields if value.get(name))
        case _:
            pass


def fake_embedding(text: str, dimensions: int) -> list[float]:
    """A vector of length 1; `dimensions` is limited to 1 to 4096."""
    dimension_count = min(max(dimensions, 1), _MAX_DIMENSIONS)
    folded = text.casefold()
    words = _WORD.findall(folded)
    vector = [0.0] * dimension_count
    for checksum, weight in _word_weights_by_checksum(words).items():
        vector[checksum % dimension_count] += weight if checksum >> 31 else -weight
    for checksum, occurrence_count in _ngram_counts_by_checksum(" ".join(words)).items():
        weight = _SIGNED_NGRAM_WEIGHTS[checksum >> 31]
        vector[checksum % dimension_count] += (
            weight if occurrence_count == 1 else weight * sqrt(occurrence_count)
        )
    norm = _euclidean_norm(vector)
    if norm < _WHOLE_TEXT_WEIGHT:  # no words, or they cancel each other out
        return _pseudo_random_unit_vector(text, dimension_count)
    vector[crc32(_utf8_bytes(text)) % dimension_count] += _WHOLE_TEXT_WEIGHT * norm
    norm = _euclidean_norm(vector)
    return [value / norm for value in vector]


def _word_weights_by_checksum(words: list[str]) -> Mapping[int, float]:
    """The weight of each word by its CRC-32; it grows with the root of the word's frequency."""
    max_index = len(_WORD_WEIGHTS) - 1
    return {
        crc32(_utf8_bytes(word)): _WORD_WEIGHTS[min(len(word), max_index)] * sqrt(occurrence_count)
        for word, occurrence_count in Counter(words).items()
    }


def _ngram_counts_by_checksum(text: str) -> Counter[int]:
    """How often each character n-gram occurs, by its CRC-32."""
    utf16 = f" {text} ".encode("utf-16-le", "replace")
    is_dense = len(_utf8_bytes(text)) > _DENSE_BYTES_PER_CHAR * len(text)
    ngram_bytes = _UTF16_UNIT_BYTES * (2 if is_dense else 3)
    last_start = len(utf16) - ngram_bytes if text else 0
    return Counter(
        [
            crc32(utf16[offset : offset + ngram_bytes])
            for offset in range(0, last_start + 1, _UTF16_UNIT_BYTES)
        ]
    )


def _pseudo_random_unit_vector(text: str, dimension_count: int) -> list[float]:
    """A vector of length 1 that is unrelated to that of any other text."""
    digest = shake_256(_utf8_bytes(text)).digest(2 * dimension_count)
    vector = [component + 0.5 for component in unpack(f">{dimension_count}h", digest)]
    norm = _euclidean_norm(vector)
    return [value / norm for value in vector]


def _utf8_bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _euclidean_norm(values: list[float]) -> float:
    return sqrt(sum(map(mul, values, values)))
