"""Cohere's embeddings, reranking, tokenization and model responses.

The models are those of `EncodeContext.models`; where it is empty, every name exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from llm_proxy.dialects import estimates_and_fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.cohere import embeddings, errors, tokens
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, Json

_WORD: Final = re.compile(r"\w+")
_CONTEXT_TOKENS: Final = 128_000


def auxiliary_response(operation: str, request: Request, context: EncodeContext) -> DialectResponse:
    """The response to an operation that is no chat, such as `v2/embed`; 501 for unknown ones."""
    version, _, name = operation.partition("/")
    if name not in _OPERATIONS:
        return errors.error_response(501, Failure(f"/{operation} is not answered here"), context)
    fields = lenient_json.parse_object(request.body)
    document, billed_fields = _OPERATIONS[name](fields, version, context)
    meta = {"api_version": {"version": version.removeprefix("v")}, **billed_fields}
    return response_encoding.json_response(
        {**document, "meta": meta}, errors.common_response_headers(context)
    )


def models_response(path: str, context: EncodeContext) -> DialectResponse:
    """One model or the list of models; 404 for a model that is not listed."""
    name = path.rpartition("/v1/models")[2].removeprefix("/")
    if name and context.models and name not in context.models:
        return errors.model_not_found_response(name, context)
    document = (
        _model_object(name)
        if name
        else {"models": [_model_object(model) for model in context.models]}
    )
    return response_encoding.json_response(document, errors.common_response_headers(context))


def _model_object(name: str) -> Document:
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


OperationResult = tuple[Document, Document]
"""The response document of an operation, and the billing fields of its `meta`."""


def _embed_result(fields: Fields, version: str, context: EncodeContext) -> OperationResult:
    document = embeddings.embed_response_fields(fields, version)
    input_tokens = sum(map(estimates_and_fakes.estimated_token_count, document["texts"]))
    images = len(lenient_json.array_items(fields.get("images")))
    billed_units = {"input_tokens": input_tokens, **({"images": images} if images else {})}
    return {"id": context.fake_uuid("embeddings"), **document}, {"billed_units": billed_units}


def _rerank_result(fields: Fields, version: str, context: EncodeContext) -> OperationResult:
    """The documents, ranked by how many words they share with the query."""
    query, documents = (
        lenient_json.value_as_text(fields.get("query")),
        lenient_json.array_items(fields.get("documents")),
    )
    texts = [_document_text(document) for document in documents]
    scores = [_fake_relevance_score(context.seed, query, text) for text in texts]
    ranked = sorted(range(len(texts)), key=lambda at: -scores[at])
    top_n = lenient_json.first_integer(fields.get("top_n")) or len(ranked)
    returns_documents = version == "v1" and fields.get("return_documents") is True
    results = [
        {
            "index": index,
            "relevance_score": scores[index],
            **({"document": {"text": texts[index]}} if returns_documents else {}),
        }
        for index in ranked[: max(top_n, 0)]
    ]
    billed_fields: Document = {"billed_units": {"search_units": 1}}
    return {"id": context.fake_uuid("ranks"), "results": results}, billed_fields


def _document_text(document: Json) -> str:
    fields = lenient_json.object_fields(document)
    return lenient_json.value_as_text(fields.get("text") or document)


def _fake_relevance_score(seed: str, query: str, text: str) -> float:
    """The fraction of the query's words that the text has; a seeded hash breaks ties."""
    query_words = set(_WORD.findall(query.lower()))
    shared_count = len(query_words.intersection(_WORD.findall(text.lower())))
    digest = sha256(f"{seed}\0{query}\0{text}".encode("utf-8", "replace")).digest()
    tie_breaker = int.from_bytes(digest[:4], "big") / 2**32
    return round((shared_count + tie_breaker) / (len(query_words) + 1), 8)


def _tokenize_result(fields: Fields, _version: str, _context: EncodeContext) -> OperationResult:
    pieces = tokens.token_strings(lenient_json.value_as_text(fields.get("text")))
    return {"tokens": list(map(tokens.token_id, pieces)), "token_strings": pieces}, {}


def _detokenize_result(fields: Fields, _version: str, _context: EncodeContext) -> OperationResult:
    token_ids = (
        lenient_json.first_integer(token)
        for token in lenient_json.array_items(fields.get("tokens"))
    )
    return {"text": tokens.detokenize(-1 if number is None else number for number in token_ids)}, {}


_OPERATIONS: Final[dict[str, Callable[[Fields, str, EncodeContext], OperationResult]]] = {
    "embed": _embed_result,
    "rerank": _rerank_result,
    "tokenize": _tokenize_result,
    "detokenize": _detokenize_result,
}
