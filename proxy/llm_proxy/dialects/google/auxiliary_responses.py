"""Gemini's model list, token count and embedding responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from llm_proxy.dialects import fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.google import errors
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Json

_DIMENSIONS: Final = 768
_INPUT, _OUTPUT = 1_048_576, 65_536
"""Tokens that a model takes and gives."""
_METHODS: Final = ("generateContent", "countTokens", "embedContent")
_PUBLISHER: Final = "publishers/google/"


def auxiliary_response_of(operation: str, body: Fields) -> DialectResponse | None:
    """The answer to an operation that asks for no turn; None for one that does."""
    answer = _POSTED.get(operation)
    return None if answer is None else response_encoding.json_response(answer(body))


def models_response(context: EncodeContext, *, vertex: bool) -> DialectResponse:
    """The models that there are."""
    name = "publisherModels" if vertex else "models"
    return response_encoding.json_response(
        {name: [_model_object(model, vertex=vertex) for model in context.models]}
    )


def model_response(name: str, context: EncodeContext, *, vertex: bool) -> DialectResponse:
    """One model; any is there where none are listed."""
    if context.models and name not in context.models:
        return errors.model_not_found_response(name, context)
    return response_encoding.json_response(_model_object(name, vertex=vertex))


def _model_object(name: str, *, vertex: bool) -> Document:
    if vertex:
        return {"name": f"{_PUBLISHER}models/{name}", "versionId": "default", "launchStage": "GA"}
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": _INPUT,
        "outputTokenLimit": _OUTPUT,
        "supportedGenerationMethods": list(_METHODS),
    }


def _count_tokens_response(body: Fields) -> Document:
    inner = lenient_json.object_fields(body.get("generateContentRequest"))
    read = [fields.get(name) for fields in (body, inner) for name in _READ]
    total = fakes.estimated_tokens("".join(text for value in read for text in _input_texts(value)))
    return {
        "totalTokens": total,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": total}],
    }


def _embed_response(body: Fields) -> Document:
    return {"embedding": _decode_embedding_request(body)}


def _batch_embed_response(body: Fields) -> Document:
    return {
        "embeddings": [
            _decode_embedding_request(object_item)
            for object_item in lenient_json.object_items(body.get("requests"))
        ]
    }


def _predict_response(body: Fields) -> Document:
    size = lenient_json.object_fields(body.get("parameters")).get("outputDimensionality")
    instances = lenient_json.object_items(body.get("instances"))
    return {
        "predictions": [
            _prediction_object(lenient_json.str_or_empty(instance.get("content")), size)
            for instance in instances
        ]
    }


def _prediction_object(text: str, size: Json) -> Document:
    counted: Document = {"truncated": False, "token_count": fakes.estimated_tokens(text)}
    return {"embeddings": {"values": _embedding_values(text, size), "statistics": counted}}


def _decode_embedding_request(body: Fields) -> Document:
    config = lenient_json.object_fields(body.get("embedContentConfig"))
    size = body.get("outputDimensionality") or config.get("outputDimensionality")
    return {"values": _embedding_values("".join(_input_texts(body.get("content"))), size)}


def _embedding_values(text: str, size: Json) -> list[float]:
    return fakes.fake_embedding(text, lenient_json.first_count(size) or _DIMENSIONS)


def _input_texts(value: Json) -> Iterator[str]:
    return fakes.model_input_texts(value, _HOLDERS, _OBJECTS)


_READ: Final = ("systemInstruction", "contents", "instances", "tools")
"""The fields of a request that the model reads."""
_HOLDERS: Final = ("parts", "text", "content", "prompt")
_OBJECTS: Final = ("functionCall", "functionResponse", "functionDeclarations")

_POSTED: Final[Mapping[str, Callable[[Fields], Document]]] = {
    "countTokens": _count_tokens_response,
    "embedContent": _embed_response,
    "batchEmbedContents": _batch_embed_response,
    "predict": _predict_response,
}
