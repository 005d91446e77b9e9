"""What Cohere's clients ask beside turns: embeddings, ranks, tokens, models.

The models are those that are listed; where none are, any is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from llm_proxy.dialects import fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.cohere import embeddings, errors, tokens
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, Json

_WORD: Final = re.compile(r"\w+")
_CONTEXT: Final = 128_000


def answer(operation: str, request: Request, delivery: Delivery) -> Response:
    """The answer to an operation that is no chat: `v2/embed`."""
    version, _, name = operation.partition("/")
    if name not in _OPERATIONS:
        return errors.refuse(501, Failure(f"/{operation} is not answered here"), delivery)
    asked = lenient_json.document(request.body)
    said, billed = _OPERATIONS[name](asked, version, delivery)
    meta = {"api_version": {"version": version.removeprefix("v")}, **billed}
    return response_encoding.document({**said, "meta": meta}, errors.headers(delivery))


def models(path: str, delivery: Delivery) -> Response:
    """One model, or all."""
    name = path.rpartition("/v1/models")[2].removeprefix("/")
    if name and delivery.models and name not in delivery.models:
        return errors.no_model(name, delivery)
    said = _model(name) if name else {"models": [_model(it) for it in delivery.models]}
    return response_encoding.document(said, errors.headers(delivery))


def _model(name: str) -> Document:
    return {
        "name": name,
        "is_deprecated": False,
        "endpoints": ["chat", "embed", "rerank"],
        "finetuned": False,
        "context_length": _CONTEXT,
        "tokenizer_url": None,
        "features": ["tools", "reasoning"],
        "default_endpoints": [],
    }


Said = tuple[Document, Document]
"""What an operation says, and what is billed for it."""


def _embedded(asked: Fields, version: str, delivery: Delivery) -> Said:
    said = embeddings.embedded(asked, version)
    read = sum(map(fakes.tokens, said["texts"]))
    images = len(lenient_json.array(asked.get("images")))
    billed = {"input_tokens": read, **({"images": images} if images else {})}
    return {"id": delivery.uuid("embeddings"), **said}, {"billed_units": billed}


def _ranked(asked: Fields, version: str, delivery: Delivery) -> Said:
    """The documents, those first that share the most words with the query."""
    query, documents = (
        lenient_json.words(asked.get("query")),
        lenient_json.array(asked.get("documents")),
    )
    texts = [_text(it) for it in documents]
    scores = [_relevance(delivery.seed, query, text) for text in texts]
    ranked = sorted(range(len(texts)), key=lambda at: -scores[at])
    wanted = lenient_json.count(asked.get("top_n")) or len(ranked)
    shows = version == "v1" and asked.get("return_documents") is True
    results = [
        {
            "index": at,
            "relevance_score": scores[at],
            **({"document": {"text": texts[at]}} if shows else {}),
        }
        for at in ranked[: max(wanted, 0)]
    ]
    billed: Document = {"billed_units": {"search_units": 1}}
    return {"id": delivery.uuid("ranks"), "results": results}, billed


def _text(document: Json) -> str:
    """The words of a document, which may be an object."""
    about = lenient_json.fields(document)
    return lenient_json.words(about.get("text") or document)


def _relevance(seed: str, query: str, text: str) -> float:
    """The share of the query's words that stand in the text; chance tells equals apart."""
    wanted = set(_WORD.findall(query.lower()))
    found = len(wanted.intersection(_WORD.findall(text.lower())))
    rolled = sha256(f"{seed}\0{query}\0{text}".encode("utf-8", "replace")).digest()
    chance = int.from_bytes(rolled[:4], "big") / 2**32
    return round((found + chance) / (len(wanted) + 1), 8)


def _tokenized(asked: Fields, _version: str, _delivery: Delivery) -> Said:
    pieces = tokens.pieces(lenient_json.words(asked.get("text")))
    return {"tokens": list(map(tokens.number, pieces)), "token_strings": pieces}, {}


def _detokenized(asked: Fields, _version: str, _delivery: Delivery) -> Said:
    numbers = (lenient_json.count(it) for it in lenient_json.array(asked.get("tokens")))
    return {"text": tokens.text(-1 if it is None else it for it in numbers)}, {}


_OPERATIONS: Final[dict[str, Callable[[Fields, str, Delivery], Said]]] = {
    "embed": _embedded,
    "rerank": _ranked,
    "tokenize": _tokenized,
    "detokenize": _detokenized,
}
