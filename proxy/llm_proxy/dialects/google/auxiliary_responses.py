"""What clients of Gemini's ask beside turns: models, counts of tokens, and embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from llm_proxy.dialects import fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.google import errors
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Json

_DIMENSIONS: Final = 768
_INPUT, _OUTPUT = 1_048_576, 65_536
"""Tokens that a model takes and gives."""
_METHODS: Final = ("generateContent", "countTokens", "embedContent")
_PUBLISHER: Final = "publishers/google/"


def posted(operation: str, body: Fields) -> Response | None:
    """The answer to an operation that asks for no turn; None for one that does."""
    answer = _POSTED.get(operation)
    return None if answer is None else response_encoding.document(answer(body))


def models(delivery: Delivery, *, vertex: bool) -> Response:
    """The models that there are."""
    name = "publisherModels" if vertex else "models"
    return response_encoding.document({name: [_model(it, vertex=vertex) for it in delivery.models]})


def model(name: str, delivery: Delivery, *, vertex: bool) -> Response:
    """One model; any is there where none are listed."""
    if delivery.models and name not in delivery.models:
        return errors.no_model(name, delivery)
    return response_encoding.document(_model(name, vertex=vertex))


def _model(name: str, *, vertex: bool) -> Document:
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


def _count(body: Fields) -> Document:
    inner = lenient_json.fields(body.get("generateContentRequest"))
    read = [it.get(name) for it in (body, inner) for name in _READ]
    total = fakes.tokens("".join(text for value in read for text in _texts(value)))
    return {
        "totalTokens": total,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": total}],
    }


def _embed(body: Fields) -> Document:
    return {"embedding": _embedding(body)}


def _embed_each(body: Fields) -> Document:
    return {"embeddings": [_embedding(it) for it in lenient_json.objects(body.get("requests"))]}


def _predict(body: Fields) -> Document:
    """Embeddings as Vertex AI predicts them."""
    size = lenient_json.fields(body.get("parameters")).get("outputDimensionality")
    instances = lenient_json.objects(body.get("instances"))
    return {
        "predictions": [_prediction(lenient_json.text(it.get("content")), size) for it in instances]
    }


def _prediction(text: str, size: Json) -> Document:
    counted: Document = {"truncated": False, "token_count": fakes.tokens(text)}
    return {"embeddings": {"values": _vector(text, size), "statistics": counted}}


def _embedding(body: Fields) -> Document:
    config = lenient_json.fields(body.get("embedContentConfig"))
    size = body.get("outputDimensionality") or config.get("outputDimensionality")
    return {"values": _vector("".join(_texts(body.get("content"))), size)}


def _vector(text: str, size: Json) -> list[float]:
    return fakes.vector(text, lenient_json.count(size) or _DIMENSIONS)


def _texts(value: Json) -> Iterator[str]:
    return fakes.texts(value, _HOLDERS, _OBJECTS)


_READ: Final = ("systemInstruction", "contents", "instances", "tools")
"""The fields of a request that the model reads."""
_HOLDERS: Final = ("parts", "text", "content", "prompt")
_OBJECTS: Final = ("functionCall", "functionResponse", "functionDeclarations")

_POSTED: Final[Mapping[str, Callable[[Fields], Document]]] = {
    "countTokens": _count,
    "embedContent": _embed,
    "batchEmbedContents": _embed_each,
    "predict": _predict,
}
