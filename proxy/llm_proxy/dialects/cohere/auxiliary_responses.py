"""Cohere's embeddings, reranking, tokenization and model responses.

The models are those that are listed; where none are, any is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from llm_proxy.dialects import fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.cohere import embeddings, errors, tokens
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, Json

_WORD: Final = re.compile(r"\w+")
_CONTEXT: Final = 128_000


def auxiliary_response_of(
    operation: str, request: Request, context: EncodeContext
) -> DialectResponse:
    """The answer to an operation that is no chat: `v2/embed`."""
    version, _, name = operation.partition("/")
    if name not in _OPERATIONS:
        return errors.error_response(501, Failure(f"/{operation} is not answered here"), context)
    fields = lenient_json.parse_object(request.body)
    document, billed = _OPERATIONS[name](fields, version, context)
    meta = {"api_version": {"version": version.removeprefix("v")}, **billed}
    return response_encoding.json_response(
        {**document, "meta": meta}, errors.response_headers(context)
    )


def models_response(path: str, context: EncodeContext) -> DialectResponse:
    """One model, or all."""
    name = path.rpartition("/v1/models")[2].removeprefix("/")
    if name and context.models and name not in context.models:
        return errors.model_not_found_response(name, context)
    document = (
        _model_object(name)
        if name
        else {"models": [_model_object(model) for model in context.models]}
    )
    return response_encoding.json_response(document, errors.response_headers(context))


def _model_object(name: str) -> Document:
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


def _embed_response(fields: Fields, version: str, context: EncodeContext) -> Said:
    document = embeddings.embed_response(fields, version)
    read = sum(map(fakes.estimated_tokens, document["texts"]))
    images = len(lenient_json.array_items(fields.get("images")))
    billed = {"input_tokens": read, **({"images": images} if images else {})}
    return {"id": context.uuid("embeddings"), **document}, {"billed_units": billed}


def _rerank_response(fields: Fields, version: str, context: EncodeContext) -> Said:
    """The documents, those first that share the most words with the query."""
    query, documents = (
        lenient_json.printable_text(fields.get("query")),
        lenient_json.array_items(fields.get("documents")),
    )
    texts = [_document_text(document) for document in documents]
    scores = [_fake_relevance(context.seed, query, text) for text in texts]
    ranked = sorted(range(len(texts)), key=lambda at: -scores[at])
    wanted = lenient_json.first_count(fields.get("top_n")) or len(ranked)
    shows = version == "v1" and fields.get("return_documents") is True
    results = [
        {
            "index": at,
            "relevance_score": scores[at],
            **({"document": {"text": texts[at]}} if shows else {}),
        }
        for at in ranked[: max(wanted, 0)]
    ]
    billed: Document = {"billed_units": {"search_units": 1}}
    return {"id": context.uuid("ranks"), "results": results}, billed


def _document_text(document: Json) -> str:
    fields = lenient_json.object_fields(document)
    return lenient_json.printable_text(fields.get("text") or document)


def _fake_relevance(seed: str, query: str, text: str) -> float:
    """The share of the query's words that stand in the text; chance tells equals apart."""
    wanted = set(_WORD.findall(query.lower()))
    found = len(wanted.intersection(_WORD.findall(text.lower())))
    rolled = sha256(f"{seed}\0{query}\0{text}".encode("utf-8", "replace")).digest()
    chance = int.from_bytes(rolled[:4], "big") / 2**32
    return round((found + chance) / (len(wanted) + 1), 8)


def _tokenize_response(fields: Fields, _version: str, _context: EncodeContext) -> Said:
    pieces = tokens.token_strings(lenient_json.printable_text(fields.get("text")))
    return {"tokens": list(map(tokens.token_number, pieces)), "token_strings": pieces}, {}


def _detokenize_response(fields: Fields, _version: str, _context: EncodeContext) -> Said:
    numbers = (
        lenient_json.first_count(array_item)
        for array_item in lenient_json.array_items(fields.get("tokens"))
    )
    return {
        "text": tokens.text_of_tokens(-1 if number is None else number for number in numbers)
    }, {}


_OPERATIONS: Final[dict[str, Callable[[Fields, str, EncodeContext], Said]]] = {
    "embed": _embed_response,
    "rerank": _rerank_response,
    "tokenize": _tokenize_response,
    "detokenize": _detokenize_response,
}
