"""Anthropic's responses without a message: errors, token counts and models; and their headers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Final
from urllib.parse import parse_qs

from llm_proxy.dialects import estimates_and_fakes, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import AccountLimits, EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import Errors
from llm_proxy.exchange import Headers
from llm_proxy.turns import Failure, Turn

REQUEST_ID: Final = "request_id"
"""The field of the request's id in an error body; the header is `request-id`."""

_SAFE_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""A request id that is safe in a header."""

_DEFAULTS: Final = {
    400: Failure("Invalid request", "invalid_request_error"),
    401: Failure("invalid x-api-key", "authentication_error"),
    402: Failure("Billing error", "billing_error"),
    403: Failure("Permission denied", "permission_error"),
    404: Failure("Not found", "not_found_error"),
    408: Failure("Request timed out", "timeout_error"),
    409: Failure("Conflict", "conflict_error"),
    413: Failure("Request exceeds the maximum size", "request_too_large"),
    429: Failure("Rate limited", "rate_limit_error"),
    503: Failure("Service unavailable", "api_error"),
    500: Failure("Internal server error", "api_error"),
    504: Failure("Request timed out", "timeout_error"),
    529: Failure("Overloaded", "overloaded_error"),
}
"""A type's status is the last that has it."""

ERRORS: Final = Errors(_DEFAULTS, {failure.type: status for status, failure in _DEFAULTS.items()})

_INPUT_FIELDS: Final = ("system", "messages", "tools")
"""The request fields that the model reads."""

_TEXT_FIELDS: Final = ("text", "thinking", "content", "name", "title", "description")
_JSON_FIELDS: Final = ("input", "input_schema")

_DEFAULT_PAGE_SIZE: Final = 20
_MAX_PAGE_SIZE: Final = 1000


def status_of(failure: Failure) -> int:
    """The HTTP status of a failure, by its type alone: codes are not statuses."""
    return ERRORS.statuses.get(failure.type, 500)


def error_response(
    status: int,
    failure: Failure,
    context: EncodeContext,
    retry_after_s: float | None = None,
    request_id: str = "",
) -> DialectResponse:
    """An HTTP error; an empty `request_id` is replaced by a fake one."""
    request_id = request_id or _fake_request_id(context)
    retry_headers = () if retry_after_s is None else (("retry-after", str(ceil(retry_after_s))),)
    body = {**error_document(ERRORS.with_defaults(failure, status)), REQUEST_ID: request_id}
    headers = (*common_response_headers(context, request_id), *retry_headers)
    return response_encoding.json_response(body, headers, status)


def stream_error_event(failure: Failure, request_id: str) -> Document:
    """The error event that ends a stream."""
    document = error_document(ERRORS.with_defaults(failure, status_of(failure)))
    return {**document, "error": {"details": None, **document["error"]}, REQUEST_ID: request_id}


def error_document(failure: Failure) -> Document:
    """The body of an error; its code is in `details.error_code`."""
    details = {"details": {"error_code": failure.code}} if failure.code else {}
    return {"type": "error", "error": {**details, "type": failure.type, "message": failure.message}}


def turn_request_id(turn: Turn, context: EncodeContext) -> str:
    """The request id in a failed turn's metadata, if safe in a header; else a fake one."""
    value = dict(turn.metadata).get(REQUEST_ID) if turn.failure else None
    is_id = isinstance(value, str) and _SAFE_REQUEST_ID.fullmatch(value)
    return str(value) if is_id else _fake_request_id(context)


def _fake_request_id(context: EncodeContext) -> str:
    return context.fake_identifier("req_")


def common_response_headers(context: EncodeContext, request_id: str = "") -> Headers:
    """The headers of every response: request id and rate limits."""
    return (("request-id", request_id or _fake_request_id(context)), *rate_limit_headers(context))


def rate_limit_headers(context: EncodeContext) -> Headers:
    """The `anthropic-ratelimit-*` headers; none without a quota."""
    quota = context.account_limits or AccountLimits()
    return tuple(
        (f"anthropic-ratelimit-{label}-{name}", value)
        for label, window in quota.named_windows
        for name, value in (
            ("limit", str(window.limit)),
            ("remaining", str(window.remaining)),
            ("reset", _rfc3339_timestamp(context.created_unix_s + window.reset_s)),
        )
    )


def _rfc3339_timestamp(unix_s: float) -> str:
    """A time in s since 1970 (UTC), rounded up to seconds."""
    return datetime.fromtimestamp(ceil(unix_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
        {"input_tokens": token_count}, common_response_headers(context)
    )


def model_info_response(name: str, context: EncodeContext) -> DialectResponse:
    """One model, or HTTP 404; every model exists if `context.models` is empty."""
    if context.models and name not in context.models:
        return error_response(404, Failure(f"model: {name}"), context)
    return response_encoding.json_response(
        _model_object(name, context), common_response_headers(context)
    )


def models_page_response(query: str, context: EncodeContext) -> DialectResponse:
    """The page of the model list for `limit`, `before_id` and `after_id` in the query."""
    fields = {name: values[-1] for name, values in parse_qs(query).items()}
    names, has_more = _page_of_names(context.models, fields)
    page: Document = {
        "data": [_model_object(name, context) for name in names],
        "has_more": has_more,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    }
    return response_encoding.json_response(page, common_response_headers(context))


def _page_of_names(names: Sequence[str], fields: dict[str, str]) -> tuple[Sequence[str], bool]:
    """The names of a page, and whether there are more in that direction.

    An invalid limit counts as absent.
    """
    limit = fields.get("limit", "")
    requested_size = int(limit) if limit.isdecimal() and len(limit) < len("10000") else 0
    size = min(requested_size or _DEFAULT_PAGE_SIZE, _MAX_PAGE_SIZE)
    before, after = fields.get("before_id"), fields.get("after_id")
    if before in names:
        candidates = names[: names.index(before)]
        return candidates[-size:], len(candidates) > size
    candidates = names[names.index(after) + 1 :] if after in names else names
    return candidates[:size], len(candidates) > size


def _model_object(name: str, context: EncodeContext) -> Document:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": _rfc3339_timestamp(context.created_unix_s),
        "lifecycle": "active",
    }
