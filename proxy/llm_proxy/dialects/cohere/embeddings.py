"""Encodes Cohere's embeddings: floats, or smaller numbers derived from them."""

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


def embed_response(fields: Fields, api_version: str) -> Document:
    """A vector for each thing that was sent, in its order; version 1 tells floats alone."""
    vectors = [
        fakes.fake_embedding(embedding_input, _requested_dimensions(fields))
        for embedding_input in _embedding_inputs(fields)
    ]
    texts = [
        lenient_json.printable_text(array_item)
        for array_item in lenient_json.array_items(fields.get("texts"))
    ]
    wanted = [
        text
        for text in map(
            lenient_json.str_or_empty, lenient_json.array_items(fields.get("embedding_types"))
        )
        if text
    ]
    if api_version == "v1" and not wanted:
        return {"embeddings": vectors, "texts": texts, "response_type": "embeddings_floats"}
    by_type = {
        text: [_TYPES[text](vector) for vector in vectors]
        for text in wanted or [_FLOAT]
        if text in _TYPES
    }
    return {"embeddings": by_type, "texts": texts, "response_type": "embeddings_by_type"}


def _embedding_inputs(fields: Fields) -> Iterator[str]:
    for name in ("texts", "images", "inputs"):
        yield from map(lenient_json.printable_text, lenient_json.array_items(fields.get(name)))


def _requested_dimensions(fields: Fields) -> int:
    if wanted := lenient_json.first_count(fields.get("output_dimension")):
        return wanted
    model = lenient_json.printable_text(fields.get("model"))
    return next((size for name, size in _DIMENSIONS if name in model), _OF_OTHERS)


def _pack_bits(numbers: Sequence[float]) -> list[int]:
    signs = [number > 0 for number in numbers]
    return [
        sum(sign << 7 - place for place, sign in enumerate(signs[at : at + 8]))
        for at in range(0, len(signs), 8)
    ]


def _to_int8(numbers: Sequence[float]) -> list[int]:
    """The numbers as they lie between -127 and 127."""
    largest = max(map(abs, numbers)) or 1.0
    return [round(number / largest * 127) for number in numbers]


_TYPES: Final[dict[str, Callable[[Sequence[float]], Any]]] = {
    _FLOAT: list,
    "int8": _to_int8,
    "uint8": lambda numbers: [number + 128 for number in _to_int8(numbers)],
    "ubinary": _pack_bits,
    "binary": lambda numbers: [pack_bit - 128 for pack_bit in _pack_bits(numbers)],
    "base64": lambda numbers: b64encode(pack(f"<{len(numbers)}f", *numbers)).decode(),
}
"""Each type of embeddings, made of floats."""
