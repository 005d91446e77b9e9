"""Gemini's model list, token count and embedding responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from llm_proxy.dialects import estimates_and_fakes, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    first_integer,
    get_object,
    get_objects,
    get_string,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Json

_EMBEDDING_DIMENSIONS: Final = 768
_INPUT_LIMIT_TOKENS, _OUTPUT_LIMIT_TOKENS = 1_048_576, 65_536
"""The limits of every model."""
_GENERATION_METHODS: Final = ("generateContent", "countTokens", "embedContent")
_PUBLISHER: Final = "publishers/google/"


def auxiliary_response(operation: str, body: Fields) -> DialectResponse | None:
    """The response to an operation without a turn; None for any other operation."""
    build_document = _DOCUMENT_BUILDERS.get(operation)
    return None if build_document is None else response_encoding.json_response(build_document(body))


def models_response(context: EncodeContext, *, is_vertex: bool) -> DialectResponse:
    """The list of `EncodeContext.models`."""
    name = "publisherModels" if is_vertex else "models"
    return response_encoding.json_response(
        {name: [_model_object(model, is_vertex=is_vertex) for model in context.models]}
    )


def model_response(name: str, *, is_vertex: bool) -> DialectResponse:
    """One model."""
    return response_encoding.json_response(_model_object(name, is_vertex=is_vertex))


def _model_object(name: str, *, is_vertex: bool) -> Document:
    if is_vertex:
        return {"name": f"{_PUBLISHER}models/{name}", "versionId": "default", "launchStage": "GA"}
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": _INPUT_LIMIT_TOKENS,
        "outputTokenLimit": _OUTPUT_LIMIT_TOKENS,
        "supportedGenerationMethods": list(_GENERATION_METHODS),
    }


def _count_tokens_response_body(body: Fields) -> Document:
    inner = get_object(body, "generateContentRequest")
    inputs = [fields.get(name) for fields in (body, inner) for name in _MODEL_INPUT_FIELDS]
    total = estimates_and_fakes.estimated_token_count(
        "".join(text for value in inputs for text in _input_texts(value))
    )
    return {
        "totalTokens": total,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": total}],
    }


def _batch_embed_response_body(body: Fields) -> Document:
    requests = get_objects(body, "requests")
    return {"embeddings": [_embedding_object(request) for request in requests]}


def _predict_response_body(body: Fields) -> Document:
    dimensions = get_object(body, "parameters").get("outputDimensionality")
    predictions: list[Document] = []
    for instance in get_objects(body, "instances"):
        text = get_string(instance, "content")
        count = estimates_and_fakes.estimated_token_count(text)
        embedding: Document = {
            "values": _embedding_values(text, dimensions),
            "statistics": {"truncated": False, "token_count": count},
        }
        predictions.append({"embeddings": embedding})
    return {"predictions": predictions}


def _embedding_object(body: Fields) -> Document:
    config = get_object(body, "embedContentConfig")
    dimensions = body.get("outputDimensionality") or config.get("outputDimensionality")
    return {"values": _embedding_values("".join(_input_texts(body.get("content"))), dimensions)}


def _embedding_values(text: str, dimensions: Json) -> list[float]:
    return estimates_and_fakes.fake_embedding(
        text, first_integer(dimensions) or _EMBEDDING_DIMENSIONS
    )


def _input_texts(value: Json) -> Iterator[str]:
    return estimates_and_fakes.model_input_texts(value, _TEXT_HOLDER_FIELDS, _JSON_INPUT_FIELDS)


_MODEL_INPUT_FIELDS: Final = ("systemInstruction", "contents", "instances", "tools")
"""The fields of a request that count as input tokens."""
_TEXT_HOLDER_FIELDS: Final = ("parts", "text", "content", "prompt")
_JSON_INPUT_FIELDS: Final = ("functionCall", "functionResponse", "functionDeclarations")

_DOCUMENT_BUILDERS: Final[Mapping[str, Callable[[Fields], Document]]] = {
    "countTokens": _count_tokens_response_body,
    "embedContent": lambda body: {"embedding": _embedding_object(body)},
    "batchEmbedContents": _batch_embed_response_body,
    "predict": _predict_response_body,
}
