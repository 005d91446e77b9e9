"""Ollama's model management and embedding responses.

The models are those of `EncodeContext.models`; where it is empty, every name exists.  To load or
unload a model, clients send a chat or completion request without messages or prompt.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from llm_proxy.dialects import estimates_and_fakes, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
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
    fields = parse_object(request.body)
    if is_generation_request(request.path, fields):
        return None
    if request.path in ("/api/show", "/api/copy", "/api/delete", "/api/embed", "/api/embeddings"):
        if not name:
            return chat.error_response(400, Failure("model is required"))
        if context.models and _name_with_tag(name) not in map(_name_with_tag, context.models):
            return chat.error_response(404, Failure(f"model '{name}' not found"))
    match request.path:
        case chat.CHAT | chat.GENERATE:
            steps = [_loaded_or_unloaded(name, request.path, fields, context)]
        case path if path in TRANSFER_PATHS:
            steps = [*_transfer_steps(path, name), {"status": chat.SUCCESS}]
        case _:
            document = _document(request.path, name, fields, context)
            if not document:  # copying and deleting have an empty body
                return DialectResponse(ResponseHead(200, "OK", (), "length", 0), "whole", ())
            return response_encoding.json_response(document)
    if not stream:
        return response_encoding.json_response(steps[-1])
    lines = map(chat.encode_line, steps)
    return response_encoding.stream_response("ndjson", chat.NDJSON_CONTENT_TYPE, lines)


def _loaded_or_unloaded(name: str, path: str, fields: Fields, context: EncodeContext) -> Document:
    message = {"role": "assistant", "content": ""}
    return {
        "model": name,
        "created_at": chat.rfc3339_timestamp(context.created_unix_s),
        **({"message": message} if path == chat.CHAT else {"response": ""}),
        **chat.done_fields("unload" if fields.get("keep_alive") in (0, "0", "0s") else "load"),
    }


def _transfer_steps(path: str, name: str) -> list[Document]:
    """The progress of a transfer before its success."""
    digest = _fake_digest(name)
    if path == "/api/create":
        return [
            {"status": f"using existing layer sha256:{digest}"},
            {"status": "writing manifest"},
        ]
    verb = "pulling" if path == "/api/pull" else "pushing"
    layer = {
        "status": f"{verb} {digest[:12]}",
        "digest": f"sha256:{digest}",
        "total": _MODEL_SIZE_BYTES,
    }
    first, last = (
        ("pulling manifest", ("verifying sha256 digest", "writing manifest"))
        if path == "/api/pull"
        else ("retrieving manifest", ("pushing manifest",))
    )
    return [
        {"status": first},
        *({**layer, "completed": _MODEL_SIZE_BYTES * quarter // 4} for quarter in range(1, 5)),
        *({"status": status} for status in last),
    ]


def _document(path: str, name: str, fields: Fields, context: EncodeContext) -> Document:
    """The response of one document; empty for copying and deleting."""
    modified = {"modified_at": chat.rfc3339_timestamp(context.created_unix_s)}
    match path:
        case "/api/version":
            return {"version": _VERSION}
        case "/api/tags":
            return {
                "models": [{**_model_list_entry(model), **modified} for model in context.models]
            }
        case "/api/ps":
            running = {
                "expires_at": chat.rfc3339_timestamp(context.created_unix_s + _KEEP_ALIVE_S),
                "size_vram": _MODEL_SIZE_BYTES,
                "context_length": _CONTEXT_TOKENS,
            }
            return {"models": [{**_model_list_entry(model), **running} for model in context.models]}
        case "/api/show":
            return {**_model_information(name), **modified}
        case "/api/embed":
            return _embed_document(name, fields)
        case "/api/embeddings":  # the older path: one vector, empty without a prompt
            prompt = get_string(fields, "prompt")
            dimensions = _EMBEDDING_DIMENSIONS
            vector = estimates_and_fakes.fake_embedding(prompt, dimensions) if prompt else []
            return {"embedding": vector}
        case _:
            return {}


def _model_information(name: str) -> Document:
    details = _model_details(name)
    family = details["family"]
    return {
        "license": "",
        "modelfile": f"FROM {_name_with_tag(name)}",
        "parameters": "",
        "template": "{{ .Prompt }}",
        "details": details,
        "model_info": {
            "general.architecture": family,
            "general.parameter_count": 8_000_000_000,
            f"{family}.context_length": _CONTEXT_TOKENS,
            f"{family}.embedding_length": _EMBEDDING_DIMENSIONS,
        },
        "capabilities": ["completion", "tools", "thinking", "embedding"],
    }


def _embed_document(name: str, fields: Fields) -> Document:
    """An embedding for each input, in order; an input that is not text is embedded as JSON."""
    given = fields.get("input")
    inputs = given if isinstance(given, list) else [given] if given else []
    texts = [text if isinstance(text, str) else compact_json(text) for text in inputs]
    dimensions = get_integer(fields, "dimensions") or _EMBEDDING_DIMENSIONS
    return {
        "model": name,
        "embeddings": [estimates_and_fakes.fake_embedding(text, dimensions) for text in texts],
        "total_duration": 2_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": sum(map(estimates_and_fakes.estimated_token_count, texts)),
    }


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


def _model_list_entry(name: str) -> Document:
    return {
        "name": _name_with_tag(name),
        "model": _name_with_tag(name),
        "size": _MODEL_SIZE_BYTES,
        "digest": _fake_digest(name),
        "details": _model_details(name),
    }
