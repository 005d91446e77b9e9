"""Anthropic's token count and model list responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qs

from llm_proxy.dialects import fakes, response_encoding
from llm_proxy.dialects.anthropic import errors
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Failure

_READ: Final = ("system", "messages", "tools")
"""The fields of a request that the model reads."""

_TEXTS: Final = ("text", "thinking", "content", "name", "title", "description")
_OBJECTS: Final = ("input", "input_schema")

_PAGE: Final = 20
_LARGEST_PAGE: Final = 1000


def count_tokens(body: Fields, context: EncodeContext) -> DialectResponse:
    """How many tokens the request has, more or less."""
    read = (
        model_input_text
        for name in _READ
        for model_input_text in fakes.model_input_texts(body.get(name), _TEXTS, _OBJECTS)
    )
    guessed = max(1, fakes.estimated_tokens("".join(read)))
    return response_encoding.json_response({"input_tokens": guessed}, _response_headers(context))


def model_response(name: str, context: EncodeContext) -> DialectResponse:
    """One model; any is there where none are listed."""
    if context.models and name not in context.models:
        return errors.error_response(404, Failure(f"model: {name}"), context)
    return response_encoding.json_response(_model_object(name, context), _response_headers(context))


def models_page(query: str, context: EncodeContext) -> DialectResponse:
    """The page of the list of models that the query asks for."""
    fields = {name: values[-1] for name, values in parse_qs(query).items()}
    listed, has_more = _page_of_names(context.models, fields)
    page: Document = {
        "data": [_model_object(name, context) for name in listed],
        "has_more": has_more,
        "first_id": listed[0] if listed else None,
        "last_id": listed[-1] if listed else None,
    }
    return response_encoding.json_response(page, _response_headers(context))


def _page_of_names(names: Sequence[str], fields: dict[str, str]) -> tuple[Sequence[str], bool]:
    """The names of a page, and whether more lie in the direction that was asked for."""
    size = _page_size(fields.get("limit", ""))
    before, after = fields.get("before_id"), fields.get("after_id")
    if before in names:
        rest = names[: names.index(before)]
        return rest[-size:], len(rest) > size
    rest = names[names.index(after) + 1 :] if after in names else names
    return rest[:size], len(rest) > size


def _page_size(limit: str) -> int:
    """How many a page holds; a limit that is none is not heeded."""
    wanted = int(limit) if limit.isdecimal() and len(limit) < len("10000") else 0
    return min(wanted or _PAGE, _LARGEST_PAGE)


def _model_object(name: str, context: EncodeContext) -> Document:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": errors.rfc3339_seconds(context.created),
        "lifecycle": "active",
    }


def _response_headers(context: EncodeContext) -> tuple[tuple[str, str], ...]:
    return errors.response_headers(context, errors.fake_request_id(context))
