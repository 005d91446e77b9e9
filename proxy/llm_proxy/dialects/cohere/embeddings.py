"""Encodes Cohere's embeddings: floats, or smaller types derived from them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from struct import pack
from typing import Any, Final

from llm_proxy.dialects import estimates_and_fakes, lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document

_DIMENSIONS_BY_MODEL: Final = (("light", 384), ("v4", 1536))
"""Pairs of a fragment of model names and the dimensions of those models."""

_DEFAULT_DIMENSIONS: Final = 1024
_FLOAT: Final = "float"


def embed_response_fields(fields: Fields, api_version: str) -> Document:
    """The response document: a fake vector for each input, in order, in each requested type.

    Version 1 has plain floats where no type is requested.
    """
    vectors = [
        estimates_and_fakes.fake_embedding(embedding_input, _requested_dimensions(fields))
        for embedding_input in _embedding_inputs(fields)
    ]
    texts = [
        lenient_json.value_as_text(array_item)
        for array_item in lenient_json.array_items(fields.get("texts"))
    ]
    requested_types = [
        embedding_type
        for embedding_type in map(
            lenient_json.str_or_empty, lenient_json.array_items(fields.get("embedding_types"))
        )
        if embedding_type
    ]
    if api_version == "v1" and not requested_types:
        return {"embeddings": vectors, "texts": texts, "response_type": "embeddings_floats"}
    by_type = {
        embedding_type: [_CONVERTERS_BY_TYPE[embedding_type](vector) for vector in vectors]
        for embedding_type in requested_types or [_FLOAT]
        if embedding_type in _CONVERTERS_BY_TYPE
    }
    return {"embeddings": by_type, "texts": texts, "response_type": "embeddings_by_type"}


def _embedding_inputs(fields: Fields) -> Iterator[str]:
    for name in ("texts", "images", "inputs"):
        yield from map(lenient_json.value_as_text, lenient_json.array_items(fields.get(name)))


def _requested_dimensions(fields: Fields) -> int:
    if requested := lenient_json.first_integer(fields.get("output_dimension")):
        return requested
    model = lenient_json.value_as_text(fields.get("model"))
    return next((size for name, size in _DIMENSIONS_BY_MODEL if name in model), _DEFAULT_DIMENSIONS)


def _pack_sign_bits(numbers: Sequence[float]) -> list[int]:
    signs = [number > 0 for number in numbers]
    return [
        sum(sign << 7 - place for place, sign in enumerate(signs[at : at + 8]))
        for at in range(0, len(signs), 8)
    ]


def _scale_to_int8(numbers: Sequence[float]) -> list[int]:
    """The numbers, scaled so that the largest magnitude is 127."""
    largest = max(map(abs, numbers)) or 1.0
    return [round(number / largest * 127) for number in numbers]


_CONVERTERS_BY_TYPE: Final[dict[str, Callable[[Sequence[float]], Any]]] = {
    _FLOAT: list,
    "int8": _scale_to_int8,
    "uint8": lambda numbers: [number + 128 for number in _scale_to_int8(numbers)],
    "ubinary": _pack_sign_bits,
    "binary": lambda numbers: [byte - 128 for byte in _pack_sign_bits(numbers)],
    "base64": lambda numbers: b64encode(pack(f"<{len(numbers)}f", *numbers)).decode(),
}
"""Type of embeddings -> its conversion from floats."""
