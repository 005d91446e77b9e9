"""Anthropic's token count and model list responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qs

from llm_proxy.dialects import estimates_and_fakes, response_encoding
from llm_proxy.dialects.anthropic import errors
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Failure

_INPUT_FIELDS: Final = ("system", "messages", "tools")
"""The request fields that the model reads."""

_TEXT_FIELDS: Final = ("text", "thinking", "content", "name", "title", "description")
_JSON_FIELDS: Final = ("input", "input_schema")

_DEFAULT_PAGE_SIZE: Final = 20
_MAX_PAGE_SIZE: Final = 1000


def count_tokens_response(body: Fields, context: EncodeContext) -> DialectResponse:
    """The estimated number of input tokens."""
    texts = (
        text
        for name in _INPUT_FIELDS
        for text in estimates_and_fakes.model_input_texts(
            body.get(name), _TEXT_FIELDS, _JSON_FIELDS
        )
    )
    token_count = max(1, estimates_and_fakes.estimated_token_count("".join(texts)))
    return response_encoding.json_response(
        {"input_tokens": token_count}, _response_headers(context)
    )


def model_info_response(name: str, context: EncodeContext) -> DialectResponse:
    """One model, or HTTP 404; every model exists if `context.models` is empty."""
    if context.models and name not in context.models:
        return errors.error_response(404, Failure(f"model: {name}"), context)
    return response_encoding.json_response(_model_object(name, context), _response_headers(context))


def models_page_response(query: str, context: EncodeContext) -> DialectResponse:
    """The page of the model list for `limit`, `before_id` and `after_id` in the query."""
    fields = {name: values[-1] for name, values in parse_qs(query).items()}
    page_names, has_more = _page_of_names(context.models, fields)
    page: Document = {
        "data": [_model_object(name, context) for name in page_names],
        "has_more": has_more,
        "first_id": page_names[0] if page_names else None,
        "last_id": page_names[-1] if page_names else None,
    }
    return response_encoding.json_response(page, _response_headers(context))


def _page_of_names(names: Sequence[str], fields: dict[str, str]) -> tuple[Sequence[str], bool]:
    """The names of a page, and whether there are more in that direction."""
    size = _page_size(fields.get("limit", ""))
    before, after = fields.get("before_id"), fields.get("after_id")
    if before in names:
        candidates = names[: names.index(before)]
        return candidates[-size:], len(candidates) > size
    candidates = names[names.index(after) + 1 :] if after in names else names
    return candidates[:size], len(candidates) > size


def _page_size(limit: str) -> int:
    """The page size; an invalid limit counts as absent."""
    requested_size = int(limit) if limit.isdecimal() and len(limit) < len("10000") else 0
    return min(requested_size or _DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE)


def _model_object(name: str, context: EncodeContext) -> Document:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": errors.rfc3339_timestamp(context.created_unix_s),
        "lifecycle": "active",
    }


def _response_headers(context: EncodeContext) -> tuple[tuple[str, str], ...]:
    return errors.common_response_headers(context, errors.fake_request_id(context))
