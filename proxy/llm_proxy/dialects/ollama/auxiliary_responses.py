"""What Ollama's clients ask beside turns: models, the moving of models, embeddings.

The models are those that are listed; where none are, any is there.  To load a model, clients ask
for a turn without saying anything.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final

from llm_proxy.dialects import fakes, lenient_json, response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.ollama import errors, paths
from llm_proxy.dialects.ollama.chat_encoder import LINES, ended, line, moment
from llm_proxy.dialects.ollama.line_decoder import SUCCESS
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Head, Request
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


def asks_for_words(path: str, asked: Fields) -> bool:
    """Whether a turn is asked for, and not that a model be loaded."""
    return any(asked.get(field) for field in _WORDS.get(path, ()))


def answer(name: str, request: Request, delivery: Delivery, *, stream: bool) -> Response | None:
    """The answer to a request about the model of this name; None where a turn is asked for."""
    asked = lenient_json.document(request.body)
    if asks_for_words(request.path, asked):
        return None
    if request.path in _WORDS:
        return _loaded(name, request, delivery, stream=stream)
    if request.path in _OF_A_MODEL:
        if not name:
            return errors.refuse(400, Failure("model is required"))
        if not _is_there(name, delivery):
            return errors.refuse(404, Failure(f"model '{name}' not found"))
    if (steps := _TRANSFERS.get(request.path)) is not None:
        return _transfer(steps(name), stream=stream)
    said = _DOCUMENTS.get(request.path, _nothing)(name, asked, delivery)
    return response_encoding.document(said) if said else _empty()


def _loaded(name: str, request: Request, delivery: Delivery, *, stream: bool) -> Response:
    """That a model is there now, or, with no time to stay, is there no more."""
    asked = lenient_json.document(request.body)
    reason = "unload" if asked.get("keep_alive") in (0, "0", "0s") else "load"
    message = {"role": "assistant", "content": ""}
    said = {
        "model": name,
        "created_at": moment(delivery.created),
        **({"message": message} if request.path == paths.CHAT else {"response": ""}),
        **ended(reason),
    }
    return (
        response_encoding.streamed("ndjson", LINES, [line(said)])
        if stream
        else response_encoding.document(said)
    )


def _is_there(name: str, delivery: Delivery) -> bool:
    return not delivery.models or _tagged(name) in map(_tagged, delivery.models)


def _tagged(name: str) -> str:
    """The name of a model with its tag, as lists have it."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _digest(name: str) -> str:
    return sha256(_tagged(name).encode("utf-8", "replace")).hexdigest()


def _details(name: str) -> Document:
    family = name.rpartition("/")[2].partition(":")[0]
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": "8.0B",
        "quantization_level": "Q4_K_M",
    }


def _listed(name: str) -> Document:
    """A model as lists have it."""
    about = {"size": _SIZE, "digest": _digest(name), "details": _details(name)}
    return {"name": _tagged(name), "model": _tagged(name), **about}


def _tags(_name: str, _asked: Fields, delivery: Delivery) -> Document:
    modified = {"modified_at": moment(delivery.created)}
    return {"models": [{**_listed(name), **modified} for name in delivery.models]}


def _running(_name: str, _asked: Fields, delivery: Delivery) -> Document:
    beside = {
        "expires_at": moment(delivery.created + _MINUTES),
        "size_vram": _SIZE,
        "context_length": _CONTEXT,
    }
    return {"models": [{**_listed(name), **beside} for name in delivery.models]}


def _version(_name: str, _asked: Fields, _delivery: Delivery) -> Document:
    return {"version": _VERSION}


def _shown(name: str, _asked: Fields, delivery: Delivery) -> Document:
    details = _details(name)
    family = details["family"]
    return {
        "license": "",
        "modelfile": f"FROM {_tagged(name)}",
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
        "modified_at": moment(delivery.created),
    }


def _embedded(name: str, asked: Fields, _delivery: Delivery) -> Document:
    """A vector for each text, in the order of the texts."""
    given = asked.get("input")
    texts = [it if isinstance(it, str) else lenient_json.compact(it) for it in _each(given)]
    dimensions = lenient_json.count(asked.get("dimensions")) or _DIMENSIONS
    return {
        "model": name,
        "embeddings": [fakes.vector(text, dimensions) for text in texts],
        "total_duration": 2_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": sum(map(fakes.tokens, texts)),
    }


def _embedding(_name: str, asked: Fields, _delivery: Delivery) -> Document:
    """The vector of one text, as it was asked for at first; of no text, none."""
    prompt = lenient_json.text(asked.get("prompt"))
    return {"embedding": fakes.vector(prompt, _DIMENSIONS) if prompt else []}


def _each(value: Json) -> list[Json]:
    """The items of an array; else the one thing, if there is one."""
    if isinstance(value, list):
        return value
    return [value] if value else []


def _nothing(_name: str, _asked: Fields, _delivery: Delivery) -> Document:
    """What is said where a model was copied or deleted."""
    return {}


def _empty() -> Response:
    return Response(Head(200, "OK", (), "length", 0), "whole", ())


def _transfer(steps: list[Document], *, stream: bool) -> Response:
    """The progress of a transfer; without a stream, only that it is over."""
    steps = [*steps, {"status": SUCCESS}]
    if stream:
        return response_encoding.streamed("ndjson", LINES, map(line, steps))
    return response_encoding.document(steps[-1])


def _pulled(name: str) -> list[Document]:
    layer = _layer("pulling", name)
    return [
        {"status": "pulling manifest"},
        *({**layer, "completed": _SIZE * quarter // 4} for quarter in range(1, 5)),
        {"status": "verifying sha256 digest"},
        {"status": "writing manifest"},
    ]


def _pushed(name: str) -> list[Document]:
    layer = _layer("pushing", name)
    return [
        {"status": "retrieving manifest"},
        *({**layer, "completed": _SIZE * quarter // 4} for quarter in range(1, 5)),
        {"status": "pushing manifest"},
    ]


def _created(name: str) -> list[Document]:
    return [
        {"status": f"using existing layer sha256:{_digest(name)}"},
        {"status": "writing manifest"},
    ]


def _layer(doing: str, name: str) -> Document:
    digest = _digest(name)
    return {"status": f"{doing} {digest[:12]}", "digest": f"sha256:{digest}", "total": _SIZE}


_OF_A_MODEL: Final = (paths.SHOW, paths.COPY, paths.DELETE, paths.EMBED, paths.EMBEDDINGS)

_TRANSFERS: Final[dict[str, Callable[[str], list[Document]]]] = {
    paths.PULL: _pulled,
    paths.PUSH: _pushed,
    paths.CREATE: _created,
}

_DOCUMENTS: Final[dict[str, Callable[[str, Fields, Delivery], Document]]] = {
    paths.TAGS: _tags,
    paths.RUNNING: _running,
    paths.VERSION: _version,
    paths.SHOW: _shown,
    paths.EMBED: _embedded,
    paths.EMBEDDINGS: _embedding,
}
"""Copying and deleting say nothing."""
