"""Makes OpenAI's model list, embedding and moderation responses without a recording."""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import Final
from urllib.parse import unquote

from llm_proxy.dialects import estimates_and_fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.openai import errors
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, Json

_DEFAULT_DIMENSIONS: Final = 1536
_DIMENSIONS_BY_MODEL: Final = {"text-embedding-3-large": 3072}
"""Dimensions of models that differ from the default."""

_MODERATION_CATEGORIES: Final = (
    "harassment", "harassment/threatening", "hate", "hate/threatening", "illicit",
    "illicit/violent", "self-harm", "self-harm/instructions", "self-harm/intent", "sexual",
    "sexual/minors", "violence", "violence/graphic",
)  # fmt: skip


def models_response(request: Request, context: EncodeContext) -> DialectResponse | None:
    """All models of the context, or the one in the path; any exists where the context has none.

    None for a method other than GET: deleting a model is not simulated.
    """
    if request.method != "GET":
        return None
    _, separator, name = request.path.rpartition("/models/")
    if not separator:
        model_objects = [_model_object(model, context) for model in context.models]
        return response_encoding.json_response(
            {"object": "list", "data": model_objects}, errors.common_response_headers(context)
        )
    if not context.models or unquote(name) in context.models:
        return response_encoding.json_response(
            _model_object(unquote(name), context), errors.common_response_headers(context)
        )
    message = f"The model `{unquote(name)}` does not exist or you do not have access to it."
    return errors.error_response(404, Failure(message), context)


def _model_object(name: str, context: EncodeContext) -> Document:
    return {
        "id": name,
        "object": "model",
        "created": context.created_unix_s,
        "owned_by": "test-llm",
    }


def embeddings_response(request: Request, context: EncodeContext) -> DialectResponse:
    """A fake vector for each text or token list, base64 if requested; 400 without input."""
    body = lenient_json.parse_object(request.body)
    texts = _embedding_inputs(body.get("input"))
    if not texts:
        return errors.error_response(400, Failure("'input' has no text to embed."), context)
    model = lenient_json.value_as_text(body.get("model"))
    dimensions = lenient_json.first_integer(body.get("dimensions")) or _DIMENSIONS_BY_MODEL.get(
        model, _DEFAULT_DIMENSIONS
    )
    vectors = [estimates_and_fakes.fake_embedding(text, dimensions) for text in texts]
    is_base64 = body.get("encoding_format") == "base64"
    data = [
        {
            "object": "embedding",
            "index": at,
            "embedding": _base64_floats(vector) if is_base64 else vector,
        }
        for at, vector in enumerate(vectors)
    ]
    total = sum(map(estimates_and_fakes.estimated_token_count, texts))
    usage = {"prompt_tokens": total, "total_tokens": total}
    document = {"object": "list", "data": data, "model": model, "usage": usage}
    return response_encoding.json_response(document, errors.common_response_headers(context))


def _embedding_inputs(value: Json) -> list[str]:
    """The texts; a list of numbers is one text in tokens, as JSON."""
    match value:
        case str():
            return [value]
        case [int(), *_]:
            return [lenient_json.compact_json(value)]
        case list():
            return [
                item if isinstance(item, str) else lenient_json.compact_json(item) for item in value
            ]
        case _:
            return []


def _base64_floats(vector: list[float]) -> str:
    """Little-endian 32-bit floats, as the SDKs unpack them."""
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def moderations_response(request: Request, context: EncodeContext) -> DialectResponse:
    """A moderation response with one result per input, none of them flagged."""
    body = lenient_json.parse_object(request.body)
    count = max(len(_embedding_inputs(body.get("input"))), 1)
    result = {
        "flagged": False,
        "categories": dict.fromkeys(_MODERATION_CATEGORIES, False),
        "category_scores": dict.fromkeys(_MODERATION_CATEGORIES, 0.0),
        "category_applied_input_types": {name: ["text"] for name in _MODERATION_CATEGORIES},
    }
    document = {
        "id": context.fake_identifier("modr-"),
        "model": lenient_json.value_as_text(body.get("model")) or "omni-moderation-latest",
        "results": [result] * count,
    }
    return response_encoding.json_response(document, errors.common_response_headers(context))
