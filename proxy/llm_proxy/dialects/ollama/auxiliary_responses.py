"""Ollama's model management and embedding responses.

The models are those that are listed; where none are, any is there.  To load a model, clients ask
for a turn without saying anything.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final

from llm_proxy.dialects import fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.ollama import errors, paths
from llm_proxy.dialects.ollama.chat_encoder import (
    LINES,
    done_fields,
    encode_line,
    rfc3339_timestamp,
)
from llm_proxy.dialects.ollama.line_decoder import SUCCESS
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.turns import Failure, Json

_VERSION: Final = "0.14.3"
_SIZE: Final = 4_661_211_424
"""Bytes of every model."""

_CONTEXT: Final = 32_768
_DIMENSIONS: Final = 768
_MINUTES: Final = 5 * 60
"""s for which a model stays loaded."""

_WORDS: Final = {paths.CHAT: ("messages",), paths.GENERATE: ("prompt", "images")}
"""The fields of a request that asks for words."""


def requests_turn(path: str, fields: Fields) -> bool:
    """Whether a turn is asked for, and not that a model be loaded."""
    return any(fields.get(field) for field in _WORDS.get(path, ()))


def auxiliary_response_of(
    name: str, request: Request, context: EncodeContext, *, stream: bool
) -> DialectResponse | None:
    """The answer to a request about the model of this name; None where a turn is asked for."""
    fields = lenient_json.parse_object(request.body)
    if requests_turn(request.path, fields):
        return None
    if request.path in _WORDS:
        return _load_response(name, request, context, stream=stream)
    if request.path in _OF_A_MODEL:
        if not name:
            return errors.error_response(400, Failure("model is required"))
        if not _model_exists(name, context):
            return errors.error_response(404, Failure(f"model '{name}' not found"))
    if (steps := _TRANSFERS.get(request.path)) is not None:
        return _transfer_response(steps(name), stream=stream)
    document = _DOCUMENTS.get(request.path, _empty_success)(name, fields, context)
    return response_encoding.json_response(document) if document else _empty_body()


def _load_response(
    name: str, request: Request, context: EncodeContext, *, stream: bool
) -> DialectResponse:
    fields = lenient_json.parse_object(request.body)
    reason = "unload" if fields.get("keep_alive") in (0, "0", "0s") else "load"
    message = {"role": "assistant", "content": ""}
    document = {
        "model": name,
        "created_at": rfc3339_timestamp(context.created),
        **({"message": message} if request.path == paths.CHAT else {"response": ""}),
        **done_fields(reason),
    }
    return (
        response_encoding.stream_response("ndjson", LINES, [encode_line(document)])
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
    fields = {"size": _SIZE, "digest": _fake_digest(name), "details": _model_details(name)}
    return {"name": _name_with_tag(name), "model": _name_with_tag(name), **fields}


def _tags_response(_name: str, _asked: Fields, context: EncodeContext) -> Document:
    modified = {"modified_at": rfc3339_timestamp(context.created)}
    return {"models": [{**_model_list_entry(name), **modified} for name in context.models]}


def _running_models_response(_name: str, _asked: Fields, context: EncodeContext) -> Document:
    fields = {
        "expires_at": rfc3339_timestamp(context.created + _MINUTES),
        "size_vram": _SIZE,
        "context_length": _CONTEXT,
    }
    return {"models": [{**_model_list_entry(name), **fields} for name in context.models]}


def _version_response(_name: str, _asked: Fields, _context: EncodeContext) -> Document:
    return {"version": _VERSION}


def _show_response(name: str, _asked: Fields, context: EncodeContext) -> Document:
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
            f"{family}.context_length": _CONTEXT,
            f"{family}.embedding_length": _DIMENSIONS,
        },
        "capabilities": ["completion", "tools", "thinking", "embedding"],
        "modified_at": rfc3339_timestamp(context.created),
    }


def _embed_response(name: str, fields: Fields, _context: EncodeContext) -> Document:
    """A vector for each text, in the order of the texts."""
    value = fields.get("input")
    texts = [
        as_item if isinstance(as_item, str) else lenient_json.compact_json(as_item)
        for as_item in _as_items(value)
    ]
    dimensions = lenient_json.first_count(fields.get("dimensions")) or _DIMENSIONS
    return {
        "model": name,
        "embeddings": [fakes.fake_embedding(text, dimensions) for text in texts],
        "total_duration": 2_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": sum(map(fakes.estimated_tokens, texts)),
    }


def _legacy_embedding_response(_name: str, fields: Fields, _context: EncodeContext) -> Document:
    """The vector of one text, as it was asked for at first; of no text, none."""
    prompt = lenient_json.str_or_empty(fields.get("prompt"))
    return {"embedding": fakes.fake_embedding(prompt, _DIMENSIONS) if prompt else []}


def _as_items(value: Json) -> list[Json]:
    """The items of an array; else the one thing, if there is one."""
    if isinstance(value, list):
        return value
    return [value] if value else []


def _empty_success(_name: str, _asked: Fields, _context: EncodeContext) -> Document:
    """What is said where a model was copied or deleted."""
    return {}


def _empty_body() -> DialectResponse:
    return DialectResponse(ResponseHead(200, "OK", (), "length", 0), "whole", ())


def _transfer_response(steps: list[Document], *, stream: bool) -> DialectResponse:
    """The progress of a transfer; without a stream, only that it is over."""
    steps = [*steps, {"status": SUCCESS}]
    if stream:
        return response_encoding.stream_response("ndjson", LINES, map(encode_line, steps))
    return response_encoding.json_response(steps[-1])


def _pull_steps(name: str) -> list[Document]:
    layer = _layer_step("pulling", name)
    return [
        {"status": "pulling manifest"},
        *({**layer, "completed": _SIZE * quarter // 4} for quarter in range(1, 5)),
        {"status": "verifying sha256 digest"},
        {"status": "writing manifest"},
    ]


def _push_steps(name: str) -> list[Document]:
    layer = _layer_step("pushing", name)
    return [
        {"status": "retrieving manifest"},
        *({**layer, "completed": _SIZE * quarter // 4} for quarter in range(1, 5)),
        {"status": "pushing manifest"},
    ]


def _create_steps(name: str) -> list[Document]:
    return [
        {"status": f"using existing layer sha256:{_fake_digest(name)}"},
        {"status": "writing manifest"},
    ]


def _layer_step(doing: str, name: str) -> Document:
    digest = _fake_digest(name)
    return {"status": f"{doing} {digest[:12]}", "digest": f"sha256:{digest}", "total": _SIZE}


_OF_A_MODEL: Final = (paths.SHOW, paths.COPY, paths.DELETE, paths.EMBED, paths.EMBEDDINGS)

_TRANSFERS: Final[dict[str, Callable[[str], list[Document]]]] = {
    paths.PULL: _pull_steps,
    paths.PUSH: _push_steps,
    paths.CREATE: _create_steps,
}

_DOCUMENTS: Final[dict[str, Callable[[str, Fields, EncodeContext], Document]]] = {
    paths.TAGS: _tags_response,
    paths.RUNNING: _running_models_response,
    paths.VERSION: _version_response,
    paths.SHOW: _show_response,
    paths.EMBED: _embed_response,
    paths.EMBEDDINGS: _legacy_embedding_response,
}
"""Copying and deleting say nothing."""
