"""Anthropic's error bodies and rate limit headers."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import AccountLimits, EncodeContext
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


def status_of(failure: Failure) -> int:
    """The HTTP status of a failure, by its type alone: codes are not statuses."""
    return ERRORS.statuses.get(failure.type, 500)


def error_response(
    status: int,
    failure: Failure,
    context: EncodeContext,
    retry_after: float | None = None,
    request_id: str = "",
) -> DialectResponse:
    """An HTTP error; `retry_after` is in s, an empty `request_id` is replaced by a fake one."""
    request_id = request_id or fake_request_id(context)
    retry_headers = () if retry_after is None else (("retry-after", str(ceil(retry_after))),)
    error = error_document(ERRORS.with_defaults(failure, status))
    return response_encoding.json_response(
        {**error, REQUEST_ID: request_id},
        (*common_response_headers(context, request_id), *retry_headers),
        status,
    )


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
    return str(value) if is_id else fake_request_id(context)


def fake_request_id(context: EncodeContext) -> str:
    """The request id of this context: `req_...`."""
    return context.fake_identifier("req_")


def common_response_headers(context: EncodeContext, request_id: str) -> Headers:
    """The headers of every response: request id and rate limits."""
    return (("request-id", request_id), *rate_limit_headers(context))


def rate_limit_headers(context: EncodeContext) -> Headers:
    """The `anthropic-ratelimit-*` headers; none without a quota."""
    quota = context.account_limits or AccountLimits()
    return tuple(
        (f"anthropic-ratelimit-{label}-{name}", value)
        for label, window in quota.named_windows
        for name, value in (
            ("limit", str(window.limit)),
            ("remaining", str(window.remaining)),
            ("reset", rfc3339_timestamp(context.created_unix_s + window.reset_s)),
        )
    )


def rfc3339_timestamp(unix_s: float) -> str:
    """A time in s since 1970 in RFC 3339 format, rounded up to seconds."""
    return datetime.fromtimestamp(ceil(unix_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
