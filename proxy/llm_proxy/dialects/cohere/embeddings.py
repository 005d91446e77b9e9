"""Embeddings as Cohere tells them: of floats, or of smaller numbers made from these."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from struct import pack
from typing import Any, Final

from llm_proxy.dialects import fakes, lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document

_DIMENSIONS: Final = (("light", 384), ("v4", 1536))
"""How long the vectors of models are whose names have this in them."""

_OF_OTHERS: Final = 1024
_FLOAT: Final = "float"


def embedded(asked: Fields, version: str) -> Document:
    """A vector for each thing that was sent, in its order; version 1 tells floats alone."""
    vectors = [fakes.vector(it, _dimensions(asked)) for it in _inputs(asked)]
    texts = [lenient_json.words(it) for it in lenient_json.array(asked.get("texts"))]
    wanted = [
        it for it in map(lenient_json.text, lenient_json.array(asked.get("embedding_types"))) if it
    ]
    if version == "v1" and not wanted:
        return {"embeddings": vectors, "texts": texts, "response_type": "embeddings_floats"}
    by_type = {
        it: [_TYPES[it](each) for each in vectors] for it in wanted or [_FLOAT] if it in _TYPES
    }
    return {"embeddings": by_type, "texts": texts, "response_type": "embeddings_by_type"}


def _inputs(asked: Fields) -> Iterator[str]:
    """What is to be embedded, each as one text."""
    for name in ("texts", "images", "inputs"):
        yield from map(lenient_json.words, lenient_json.array(asked.get(name)))


def _dimensions(asked: Fields) -> int:
    if wanted := lenient_json.count(asked.get("output_dimension")):
        return wanted
    model = lenient_json.words(asked.get("model"))
    return next((size for name, size in _DIMENSIONS if name in model), _OF_OTHERS)


def _bits(numbers: Sequence[float]) -> list[int]:
    """Which numbers are above nought, eight in a byte."""
    signs = [it > 0 for it in numbers]
    return [
        sum(sign << 7 - place for place, sign in enumerate(signs[at : at + 8]))
        for at in range(0, len(signs), 8)
    ]


def _small(numbers: Sequence[float]) -> list[int]:
    """The numbers as they lie between -127 and 127."""
    largest = max(map(abs, numbers)) or 1.0
    return [round(it / largest * 127) for it in numbers]


_TYPES: Final[dict[str, Callable[[Sequence[float]], Any]]] = {
    _FLOAT: list,
    "int8": _small,
    "uint8": lambda numbers: [it + 128 for it in _small(numbers)],
    "ubinary": _bits,
    "binary": lambda numbers: [it - 128 for it in _bits(numbers)],
    "base64": lambda numbers: b64encode(pack(f"<{len(numbers)}f", *numbers)).decode(),
}
"""Each type of embeddings, made of floats."""
