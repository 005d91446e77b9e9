"""What OpenAI's clients ask beside turns, and what is answered: models, embeddings, moderations."""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import Final
from urllib.parse import unquote

from llm_proxy.dialects import fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.openai import errors
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, Json

_DIMENSIONS: Final = 1536
_LARGE: Final = {"text-embedding-3-large": 3072}
"""Dimensions of models that have others."""

_CATEGORIES: Final = (
    "harassment", "harassment/threatening", "hate", "hate/threatening", "illicit",
    "illicit/violent", "self-harm", "self-harm/instructions", "self-harm/intent", "sexual",
    "sexual/minors", "violence", "violence/graphic",
)  # fmt: skip


def models(request: Request, delivery: Delivery) -> Response | None:
    """All models, or the one that the path names: any is there where none are listed.

    To delete one is nobody's side question.
    """
    if request.method != "GET":
        return None
    _, listed, name = request.path.rpartition("/models/")
    if not listed:
        every = [_model(it, delivery) for it in delivery.models]
        return response_encoding.document(
            {"object": "list", "data": every}, errors.headers(delivery)
        )
    if not delivery.models or unquote(name) in delivery.models:
        return response_encoding.document(_model(unquote(name), delivery), errors.headers(delivery))
    missing = f"The model `{unquote(name)}` does not exist or you do not have access to it."
    return errors.refuse(404, Failure(missing), delivery)


def _model(name: str, delivery: Delivery) -> Document:
    return {"id": name, "object": "model", "created": delivery.created, "owned_by": "test-llm"}


def embeddings(request: Request, delivery: Delivery) -> Response:
    """A vector for each text, or list of tokens: in base64 where that is asked for."""
    body = lenient_json.document(request.body)
    texts = _inputs(body.get("input"))
    if not texts:
        return errors.refuse(400, Failure("'input' has no text to embed."), delivery)
    model = lenient_json.words(body.get("model"))
    size = lenient_json.count(body.get("dimensions")) or _LARGE.get(model, _DIMENSIONS)
    vectors = [fakes.vector(text, size) for text in texts]
    in_base64 = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": at, "embedding": _base64(it) if in_base64 else it}
        for at, it in enumerate(vectors)
    ]
    total = sum(map(fakes.tokens, texts))
    usage = {"prompt_tokens": total, "total_tokens": total}
    answer = {"object": "list", "data": data, "model": model, "usage": usage}
    return response_encoding.document(answer, errors.headers(delivery))


def _inputs(value: Json) -> list[str]:
    """The texts; a list of numbers is one text, in tokens."""
    match value:
        case str():
            return [value]
        case [int(), *_]:
            return [lenient_json.compact(value)]
        case list():
            return [it if isinstance(it, str) else lenient_json.compact(it) for it in value]
        case _:
            return []


def _base64(vector: list[float]) -> str:
    """Little-endian 32-bit floats, as the SDKs unpack them."""
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def moderations(request: Request, delivery: Delivery) -> Response:
    """Nothing is flagged."""
    body = lenient_json.document(request.body)
    count = max(len(_inputs(body.get("input"))), 1)
    result = {
        "flagged": False,
        "categories": dict.fromkeys(_CATEGORIES, False),
        "category_scores": dict.fromkeys(_CATEGORIES, 0.0),
        "category_applied_input_types": {name: ["text"] for name in _CATEGORIES},
    }
    answer = {
        "id": delivery.identifier("modr-"),
        "model": lenient_json.words(body.get("model")) or "omni-moderation-latest",
        "results": [result] * count,
    }
    return response_encoding.document(answer, errors.headers(delivery))
