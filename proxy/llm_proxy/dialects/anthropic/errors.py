"""Anthropic's error bodies and rate limit headers."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import AccountLimits, EncodeContext
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Headers
from llm_proxy.turns import Failure, Turn

REQUEST_ID: Final = "request_id"
"""The field of the request's id in an error body; the header is `request-id`."""

_SAFE_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""A request id that is safe in a header."""

_DEFAULTS_BY_STATUS: Final = {
    400: ("invalid_request_error", "Invalid request"),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Billing error"),
    403: ("permission_error", "Permission denied"),
    404: ("not_found_error", "Not found"),
    409: ("conflict_error", "Conflict"),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "Rate limited"),
    500: ("api_error", "Internal server error"),
    503: ("api_error", "Service unavailable"),
    504: ("timeout_error", "Request timed out"),
    408: ("timeout_error", "Request timed out"),
    529: ("overloaded_error", "Overloaded"),
}
"""Default type and message by status; a type's status is the first that has it."""


def error_response(
    status: int,
    failure: Failure,
    context: EncodeContext,
    retry_after: float | None = None,
    request_id: str = "",
) -> DialectResponse:
    """An HTTP error; `retry_after` is in s, an empty `request_id` is replaced by a fake one."""
    final_request_id = request_id or fake_request_id(context)
    retry_headers = () if retry_after is None else (("retry-after", str(ceil(retry_after))),)
    body = {
        **error_document(error_fields(with_status_defaults(status, failure))),
        REQUEST_ID: final_request_id,
    }
    return response_encoding.json_response(
        body, (*common_response_headers(context, final_request_id), *retry_headers), status
    )


def error_response_of_turn(turn: Turn, context: EncodeContext) -> DialectResponse:
    """The HTTP error in place of a response, from a failed turn; the status is by its type."""
    failure = turn.failure or Failure("")
    return error_response(
        _status_of_type(failure), failure, context, request_id=turn_request_id(turn, context)
    )


def encode_stream_error(turn: Turn, failure: Failure, context: EncodeContext) -> Document:
    """The error event that ends a stream."""
    fields = {"details": None, **error_fields(failure)}
    return {**error_document(fields), REQUEST_ID: turn_request_id(turn, context)}


def error_document(error: Document) -> Document:
    """The body of an error with these fields."""
    return {"type": "error", "error": error}


def error_fields(failure: Failure) -> Document:
    """The fields of an error; its code is in `details.error_code`."""
    details = {"details": {"error_code": failure.code}} if failure.code else {}
    return {**details, "type": failure.type, "message": failure.message}


def with_status_defaults(status: int, failure: Failure) -> Failure:
    """The failure; an empty message or type defaults to that of the status."""
    kind, message = _DEFAULTS_BY_STATUS.get(
        status, _DEFAULTS_BY_STATUS[400 if status < 500 else 500]
    )
    return Failure(failure.message or message, failure.type or kind, failure.code)


def with_type_defaults(failure: Failure) -> Failure:
    """The failure; an empty message or type defaults to that of its type's status."""
    return with_status_defaults(_status_of_type(failure), failure)


def turn_request_id(turn: Turn, context: EncodeContext) -> str:
    """The request id in the turn's metadata, if safe in a header; else a fake one."""
    value = dict(turn.metadata).get(REQUEST_ID)
    is_id = isinstance(value, str) and _SAFE_REQUEST_ID.fullmatch(value)
    return str(value) if is_id else fake_request_id(context)


def with_only_request_id_metadata(turn: Turn, context: EncodeContext) -> Turn:
    """The failed turn, with the request id as its only metadata."""
    return replace(turn, metadata=((REQUEST_ID, turn_request_id(turn, context)),))


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


def _status_of_type(failure: Failure) -> int:
    return next(
        (status for status, (kind, _) in _DEFAULTS_BY_STATUS.items() if kind == failure.type), 500
    )
