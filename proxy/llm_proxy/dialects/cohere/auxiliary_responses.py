"""Cohere's embeddings, reranking, tokenization and model responses.

Tokens are deterministic: up to four ASCII characters each, or one other character.  A token's id
encodes its characters, so that detokenizing needs no vocabulary.

The models are those of `EncodeContext.models`; where it is empty, every name exists.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from struct import pack
from typing import Any, Final

from llm_proxy.dialects import estimates_and_fakes
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    first_integer,
    get_integer,
    get_items,
    get_text,
    object_fields,
    str_or_empty,
    value_as_text,
)
from llm_proxy.dialects.response_encoding import Document

_WORD: Final = re.compile(r"\w+")
_CONTEXT_TOKENS: Final = 128_000

_DIMENSIONS_BY_MODEL: Final = (("light", 384), ("v4", 1536))
"""Pairs of a fragment of model names and the dimensions of those models."""

_DEFAULT_DIMENSIONS: Final = 1024
_FLOAT: Final = "float"

_PIECE: Final = re.compile(r"[\x00-\x7f]{1,4}|[^\x00-\x7f]")
_PACKED_OFFSET: Final = 0x110000
"""Ids below are code points; ids above pack ASCII characters, seven bits each."""

_BITS_PER_CHAR: Final = 7
_PACKED_TOKEN_IDS: Final = range(
    _PACKED_OFFSET + (1 << _BITS_PER_CHAR), _PACKED_OFFSET + (1 << 4 * _BITS_PER_CHAR + 1)
)
_UNKNOWN: Final = "\N{REPLACEMENT CHARACTER}"


def operation_result(operation: str, fields: Fields, context: EncodeContext) -> Document | None:
    """The response to an operation that is no chat, such as `v2/embed`; None for unknown ones."""
    version, _, name = operation.partition("/")
    billed_units: dict[str, int] = {}
    match name:
        case "embed":
            document = _embed_response_fields(fields, version)
            tokens = sum(map(estimates_and_fakes.estimated_token_count, document["texts"]))
            images = len(get_items(fields, "images"))
            billed_units = {"input_tokens": tokens, **({"images": images} if images else {})}
            document = {"id": context.fake_uuid("embeddings"), **document}
        case "rerank":
            document = {
                "id": context.fake_uuid("ranks"),
                "results": _ranked_documents(fields, version, context.seed),
            }
            billed_units = {"search_units": 1}
        case "tokenize":
            pieces = token_strings(get_text(fields, "text"))
            document = {"tokens": list(map(token_id, pieces)), "token_strings": pieces}
        case "detokenize":
            numbers = map(first_integer, get_items(fields, "tokens"))
            document = {"text": detokenize(-1 if number is None else number for number in numbers)}
        case _:
            return None
    meta = {
        "api_version": {"version": version.removeprefix("v")},
        **({"billed_units": billed_units} if billed_units else {}),
    }
    return {**document, "meta": meta}


def models(name: str, context: EncodeContext) -> Document:
    """The model of this name, or without a name the list of models."""
    if not name:
        return {"models": [models(model, context) for model in context.models]}
    return {
        "name": name,
        "is_deprecated": False,
        "endpoints": ["chat", "embed", "rerank"],
        "finetuned": False,
        "context_length": _CONTEXT_TOKENS,
        "tokenizer_url": None,
        "features": ["tools", "reasoning"],
        "default_endpoints": [],
    }


def _ranked_documents(fields: Fields, version: str, seed: str) -> list[Document]:
    """The documents, ranked by how many words they share with the query."""
    query = get_text(fields, "query")
    texts = [
        value_as_text(object_fields(document).get("text") or document)
        for document in get_items(fields, "documents")
    ]
    scores = [_fake_relevance_score(seed, query, text) for text in texts]
    ranked = sorted(range(len(texts)), key=lambda at: -scores[at])
    top_n = get_integer(fields, "top_n") or len(ranked)
    returns_documents = version == "v1" and fields.get("return_documents") is True
    return [
        {
            "index": index,
            "relevance_score": scores[index],
            **({"document": {"text": texts[index]}} if returns_documents else {}),
        }
        for index in ranked[: max(top_n, 0)]
    ]


def _fake_relevance_score(seed: str, query: str, text: str) -> float:
    """The fraction of the query's words that the text has; a seeded hash breaks ties."""
    query_words = set(_WORD.findall(query.lower()))
    shared_count = len(query_words.intersection(_WORD.findall(text.lower())))
    digest = sha256(f"{seed}\0{query}\0{text}".encode("utf-8", "replace")).digest()
    tie_breaker = int.from_bytes(digest[:4], "big") / 2**32
    return round((shared_count + tie_breaker) / (len(query_words) + 1), 8)


def _embed_response_fields(fields: Fields, api_version: str) -> Document:
    """The response document: a fake vector for each input, in order, in each requested type.

    Version 1 has plain floats where no type is requested.
    """
    model = get_text(fields, "model")
    dimensions = get_integer(fields, "output_dimension") or next(
        (size for name, size in _DIMENSIONS_BY_MODEL if name in model), _DEFAULT_DIMENSIONS
    )
    vectors = [
        estimates_and_fakes.fake_embedding(value_as_text(item), dimensions)
        for name in ("texts", "images", "inputs")
        for item in get_items(fields, name)
    ]
    texts = [*map(value_as_text, get_items(fields, "texts"))]
    requested_types = [*filter(None, map(str_or_empty, get_items(fields, "embedding_types")))]
    if api_version == "v1" and not requested_types:
        return {"embeddings": vectors, "texts": texts, "response_type": "embeddings_floats"}
    by_type = {
        embedding_type: [_CONVERTERS_BY_TYPE[embedding_type](vector) for vector in vectors]
        for embedding_type in requested_types or [_FLOAT]
        if embedding_type in _CONVERTERS_BY_TYPE
    }
    return {"embeddings": by_type, "texts": texts, "response_type": "embeddings_by_type"}


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


def token_strings(text: str) -> list[str]:
    """The text, split into tokens; joined, they are the text."""
    return _PIECE.findall(text)


def token_id(token_string: str) -> int:
    """The id of a token that `token_strings` gave."""
    if not token_string.isascii():
        return ord(token_string)
    packed = 1
    for character in token_string:
        packed = packed << _BITS_PER_CHAR | ord(character)
    return _PACKED_OFFSET + packed


def detokenize(token_ids: Iterable[int]) -> str:
    """The text of these token ids; an invalid id becomes U+FFFD."""
    return "".join(map(_string_of_token, token_ids))


def _string_of_token(token: int) -> str:
    if token in _PACKED_TOKEN_IDS:
        packed, characters = token - _PACKED_OFFSET, ""
        while packed > 1:
            characters = chr(packed % (1 << _BITS_PER_CHAR)) + characters
            packed >>= _BITS_PER_CHAR
        return characters
    is_character = 0 <= token < _PACKED_OFFSET and not 0xD800 <= token < 0xE000  # surrogates
    return chr(token) if is_character else _UNKNOWN
