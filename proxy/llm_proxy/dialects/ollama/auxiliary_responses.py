"""Ollama's model management and embedding responses.

The models are those of `EncodeContext.models`; where it is empty, every name exists.  To load or
unload a model, clients send a chat or completion request without messages or prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final

from llm_proxy.dialects import estimates_and_fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.ollama import errors, paths
from llm_proxy.dialects.ollama.chat_encoder import (
    NDJSON_CONTENT_TYPE,
    done_fields,
    encode_line,
    rfc3339_timestamp,
)
from llm_proxy.dialects.ollama.line_decoder import SUCCESS
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.turns import Failure, Json

_VERSION: Final = "0.14.3"
_MODEL_SIZE_BYTES: Final = 4_661_211_424
"""The size of every model."""

_CONTEXT_TOKENS: Final = 32_768
_EMBEDDING_DIMENSIONS: Final = 768
_KEEP_ALIVE_S: Final = 5 * 60
"""How long a model stays loaded."""

_PROMPT_FIELDS: Final = {paths.CHAT: ("messages",), paths.GENERATE: ("prompt", "images")}
"""By path, the fields of which a request for a turn has at least one."""


def is_generation_request(path: str, fields: Fields) -> bool:
    """Whether a request to this path asks for a turn, and not to load or unload a model."""
    return any(fields.get(field) for field in _PROMPT_FIELDS.get(path, ()))


def auxiliary_response(
    name: str, request: Request, context: EncodeContext, *, stream: bool
) -> DialectResponse | None:
    """The response to a request about the model of this name; None for a request for a turn."""
    fields = lenient_json.parse_object(request.body)
    if is_generation_request(request.path, fields):
        return None
    if request.path in _PROMPT_FIELDS:
        return _load_or_unload_response(name, request, context, stream=stream)
    if request.path in _PATHS_REQUIRING_MODEL:
        if not name:
            return errors.error_response(400, Failure("model is required"))
        if not _model_exists(name, context):
            return errors.error_response(404, Failure(f"model '{name}' not found"))
    if (build_steps := _TRANSFER_STEPS.get(request.path)) is not None:
        return _transfer_progress_response(build_steps(name), stream=stream)
    document = _DOCUMENT_BUILDERS.get(request.path, _empty_response_body)(name, fields, context)
    return response_encoding.json_response(document) if document else _empty_response()


def _load_or_unload_response(
    name: str, request: Request, context: EncodeContext, *, stream: bool
) -> DialectResponse:
    fields = lenient_json.parse_object(request.body)
    reason = "unload" if fields.get("keep_alive") in (0, "0", "0s") else "load"
    message = {"role": "assistant", "content": ""}
    document = {
        "model": name,
        "created_at": rfc3339_timestamp(context.created_unix_s),
        **({"message": message} if request.path == paths.CHAT else {"response": ""}),
        **done_fields(reason),
    }
    return (
        response_encoding.stream_response("ndjson", NDJSON_CONTENT_TYPE, [encode_line(document)])
        if stream
        else response_encoding.json_response(document)
    )


def _model_exists(name: str, context: EncodeContext) -> bool:
    return not context.models or _name_with_tag(name) in map(_name_with_tag, context.models)


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
    fields = {
        "size": _MODEL_SIZE_BYTES,
        "digest": _fake_digest(name),
        "details": _model_details(name),
    }
    return {"name": _name_with_tag(name), "model": _name_with_tag(name), **fields}


def _model_list_response_body(_name: str, _fields: Fields, context: EncodeContext) -> Document:
    modified = {"modified_at": rfc3339_timestamp(context.created_unix_s)}
    return {"models": [{**_model_list_entry(name), **modified} for name in context.models]}


def _running_models_response_body(_name: str, _fields: Fields, context: EncodeContext) -> Document:
    fields = {
        "expires_at": rfc3339_timestamp(context.created_unix_s + _KEEP_ALIVE_S),
        "size_vram": _MODEL_SIZE_BYTES,
        "context_length": _CONTEXT_TOKENS,
    }
    return {"models": [{**_model_list_entry(name), **fields} for name in context.models]}


def _version_response_body(_name: str, _fields: Fields, _context: EncodeContext) -> Document:
    return {"version": _VERSION}


def _model_info_response_body(name: str, _fields: Fields, context: EncodeContext) -> Document:
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
        "modified_at": rfc3339_timestamp(context.created_unix_s),
    }


def _embed_response_body(name: str, fields: Fields, _context: EncodeContext) -> Document:
    """An embedding for each input, in order; an input that is not text is embedded as JSON."""
    inputs = fields.get("input")
    texts = [
        embed_input if isinstance(embed_input, str) else lenient_json.compact_json(embed_input)
        for embed_input in _as_list(inputs)
    ]
    dimensions = lenient_json.first_integer(fields.get("dimensions")) or _EMBEDDING_DIMENSIONS
    return {
        "model": name,
        "embeddings": [estimates_and_fakes.fake_embedding(text, dimensions) for text in texts],
        "total_duration": 2_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": sum(map(estimates_and_fakes.estimated_token_count, texts)),
    }


def _legacy_embedding_response_body(
    _name: str, fields: Fields, _context: EncodeContext
) -> Document:
    """The response of the older `/api/embeddings`: one vector, empty without a prompt."""
    prompt = lenient_json.str_or_empty(fields.get("prompt"))
    return {
        "embedding": estimates_and_fakes.fake_embedding(prompt, _EMBEDDING_DIMENSIONS)
        if prompt
        else []
    }


def _as_list(value: Json) -> list[Json]:
    """An array as it is; any other value as its only item, unless it is empty."""
    if isinstance(value, list):
        return value
    return [value] if value else []


def _empty_response_body(_name: str, _fields: Fields, _context: EncodeContext) -> Document:
    """For copying and deleting, whose success has an empty body."""
    return {}


def _empty_response() -> DialectResponse:
    return DialectResponse(ResponseHead(200, "OK", (), "length", 0), "whole", ())


def _transfer_progress_response(steps: list[Document], *, stream: bool) -> DialectResponse:
    """The progress of a transfer as a stream; unstreamed, only its last status."""
    steps = [*steps, {"status": SUCCESS}]
    if stream:
        return response_encoding.stream_response(
            "ndjson", NDJSON_CONTENT_TYPE, map(encode_line, steps)
        )
    return response_encoding.json_response(steps[-1])


def _pull_steps(name: str) -> list[Document]:
    layer = _layer_step("pulling", name)
    return [
        {"status": "pulling manifest"},
        *({**layer, "completed": _MODEL_SIZE_BYTES * quarter // 4} for quarter in range(1, 5)),
        {"status": "verifying sha256 digest"},
        {"status": "writing manifest"},
    ]


def _push_steps(name: str) -> list[Document]:
    layer = _layer_step("pushing", name)
    return [
        {"status": "retrieving manifest"},
        *({**layer, "completed": _MODEL_SIZE_BYTES * quarter // 4} for quarter in range(1, 5)),
        {"status": "pushing manifest"},
    ]


def _create_steps(name: str) -> list[Document]:
    return [
        {"status": f"using existing layer sha256:{_fake_digest(name)}"},
        {"status": "writing manifest"},
    ]


def _layer_step(verb: str, name: str) -> Document:
    digest = _fake_digest(name)
    return {
        "status": f"{verb} {digest[:12]}",
        "digest": f"sha256:{digest}",
        "total": _MODEL_SIZE_BYTES,
    }


_PATHS_REQUIRING_MODEL: Final = (
    paths.SHOW,
    paths.COPY,
    paths.DELETE,
    paths.EMBED,
    paths.EMBEDDINGS,
)

_TRANSFER_STEPS: Final[dict[str, Callable[[str], list[Document]]]] = {
    paths.PULL: _pull_steps,
    paths.PUSH: _push_steps,
    paths.CREATE: _create_steps,
}

_DOCUMENT_BUILDERS: Final[dict[str, Callable[[str, Fields, EncodeContext], Document]]] = {
    paths.TAGS: _model_list_response_body,
    paths.RUNNING: _running_models_response_body,
    paths.VERSION: _version_response_body,
    paths.SHOW: _model_info_response_body,
    paths.EMBED: _embed_response_body,
    paths.EMBEDDINGS: _legacy_embedding_response_body,
}
"""Copying and deleting are missing, since their responses are empty."""
