"""Ollama's model management and embedding responses.

The models are those of `EncodeContext.models`; where it is empty, every name exists.  To load or
unload a model, clients send a chat or completion request without messages or prompt.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from llm_proxy.dialects import estimates_and_fakes, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    compact_json,
    get_integer,
    get_string,
    parse_object,
)
from llm_proxy.dialects.ollama import chat
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.turns import Failure

TRANSFER_PATHS: Final = ("/api/pull", "/api/push", "/api/create")
"""The paths whose responses stream their progress."""

PATHS_BY_METHOD: Final = {
    "POST": (
        chat.CHAT,
        chat.GENERATE,
        *TRANSFER_PATHS,
        "/api/show",
        "/api/copy",
        "/api/embed",
        "/api/embeddings",
    ),
    "GET": ("/api/tags", "/api/ps", "/api/version"),
    "DELETE": ("/api/delete",),
}
_NAMED_MODEL_PATHS: Final = (
    *("/api/show", "/api/copy", "/api/delete"),
    *("/api/embed", "/api/embeddings"),
)
"""The paths that require the name of an existing model."""

_VERSION: Final = "0.14.3"
_MODEL_SIZE_BYTES: Final = 4_661_211_424
"""The size of every model."""

_CONTEXT_TOKENS: Final = 32_768
_EMBEDDING_DIMENSIONS: Final = 768
_KEEP_ALIVE_S: Final = 5 * 60
"""How long a model stays loaded."""

_PROMPT_FIELDS: Final = {chat.CHAT: ("messages",), chat.GENERATE: ("prompt", "images")}
"""By path, the fields of which a request for a turn has at least one."""


def is_generation_request(path: str, fields: Fields) -> bool:
    """Whether a request to this path asks for a turn, and not to load or unload a model."""
    return any(fields.get(field) for field in _PROMPT_FIELDS.get(path, ()))


def auxiliary_response(
    name: str, request: Request, context: EncodeContext, *, stream: bool
) -> DialectResponse | None:
    """The response to a request about the model of this name; None for a request for a turn."""
    fields, path = parse_object(request.body), request.path
    if is_generation_request(path, fields):
        return None
    if path in _NAMED_MODEL_PATHS:
        if not name:
            return chat.error_response(400, Failure("model is required"))
        if context.models and _name_with_tag(name) not in map(_name_with_tag, context.models):
            return chat.error_response(404, Failure(f"model '{name}' not found"))
    if path in ("/api/copy", "/api/delete"):
        return DialectResponse(ResponseHead(200, "OK", (), "length", 0), "whole", ())
    documents = _documents(path, name, fields, context)
    if not stream:
        return response_encoding.json_response(documents[-1])
    lines = map(chat.encode_line, documents)
    return response_encoding.stream_response("ndjson", chat.NDJSON_CONTENT_TYPE, lines)


def _documents(path: str, name: str, fields: Fields, context: EncodeContext) -> list[Document]:
    """The lines of a stream, or one document."""
    created = chat.rfc3339_timestamp(context.created_unix_s)
    models: list[Document] = [
        {
            "name": _name_with_tag(model),
            "model": _name_with_tag(model),
            "size": _MODEL_SIZE_BYTES,
            "digest": _fake_digest(model),
            "details": _model_details(model),
        }
        for model in context.models
    ]
    match path:
        case chat.CHAT | chat.GENERATE:
            message = {"role": "assistant", "content": ""}
            reason = "unload" if fields.get("keep_alive") in (0, "0", "0s") else "load"
            return [
                {
                    "model": name,
                    "created_at": created,
                    **({"message": message} if path == chat.CHAT else {"response": ""}),
                    **chat.done_fields(reason),
                }
            ]
        case "/api/pull" | "/api/push" | "/api/create":
            return [*_transfer_steps(path, _fake_digest(name)), {"status": chat.SUCCESS}]
        case "/api/version":
            return [{"version": _VERSION}]
        case "/api/tags":
            return [{"models": [{**model, "modified_at": created} for model in models]}]
        case "/api/ps":
            running = {
                "expires_at": chat.rfc3339_timestamp(context.created_unix_s + _KEEP_ALIVE_S),
                "size_vram": _MODEL_SIZE_BYTES,
                "context_length": _CONTEXT_TOKENS,
            }
            return [{"models": [{**model, **running} for model in models]}]
        case "/api/show":
            details = _model_details(name)
            family = details["family"]
            information = {
                "general.architecture": family,
                "general.parameter_count": 8_000_000_000,
                f"{family}.context_length": _CONTEXT_TOKENS,
                f"{family}.embedding_length": _EMBEDDING_DIMENSIONS,
            }
            return [
                {
                    "license": "",
                    "modelfile": f"FROM {_name_with_tag(name)}",
                    "parameters": "",
                    "template": "{{ .Prompt }}",
                    "details": details,
                    "model_info": information,
                    "capabilities": ["completion", "tools", "thinking", "embedding"],
                    "modified_at": created,
                }
            ]
        case "/api/embed":  # an input that is not text is embedded as JSON
            given = fields.get("input")
            inputs = given if isinstance(given, list) else [given] if given else []
            texts = [text if isinstance(text, str) else compact_json(text) for text in inputs]
            dimensions = get_integer(fields, "dimensions") or _EMBEDDING_DIMENSIONS
            return [
                {
                    "model": name,
                    "embeddings": [
                        estimates_and_fakes.fake_embedding(text, dimensions) for text in texts
                    ],
                    "total_duration": 2_000_000,
                    "load_duration": 1_000_000,
                    "prompt_eval_count": sum(map(estimates_and_fakes.estimated_token_count, texts)),
                }
            ]
        case _:  # the older path for embeddings: one vector, empty without a prompt
            prompt = get_string(fields, "prompt")
            vector = (
                estimates_and_fakes.fake_embedding(prompt, _EMBEDDING_DIMENSIONS) if prompt else []
            )
            return [{"embedding": vector}]


def _transfer_steps(path: str, digest: str) -> list[Document]:
    """The progress of a transfer before its success."""
    if path == "/api/create":
        statuses = (f"using existing layer sha256:{digest}", "writing manifest")
        return [{"status": status} for status in statuses]
    verb, first, last = (
        ("pulling", "pulling manifest", ("verifying sha256 digest", "writing manifest"))
        if path == "/api/pull"
        else ("pushing", "retrieving manifest", ("pushing manifest",))
    )
    layer = {
        "status": f"{verb} {digest[:12]}",
        "digest": f"sha256:{digest}",
        "total": _MODEL_SIZE_BYTES,
    }
    return [
        {"status": first},
        *({**layer, "completed": _MODEL_SIZE_BYTES * quarter // 4} for quarter in range(5)),
        *({"status": status} for status in last),
    ]


def _name_with_tag(name: str) -> str:
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _fake_digest(name: str) -> str:
    return sha256(_name_with_tag(name).encode("utf-8", "replace")).hexdigest()


def _model_details(name: str) -> Document:
    family = name.rpartition("/")[2].partition(":")[0]
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": "8.0B",
        "quantization_level": "Q4_K_M",
    }
