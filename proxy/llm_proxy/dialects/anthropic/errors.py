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
"""The field of an error that its request is known by; the header spells it `request-id`."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""What may stand in a header."""

_WORDS: Final = {
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
"""Type and message of a status; of those that share a type, the first stands for it."""


def error_response(
    status: int,
    failure: Failure,
    context: EncodeContext,
    retry_after: float | None = None,
    request_id: str = "",
) -> DialectResponse:
    """An HTTP error; `request_id` is made where none is given, `retry_after` is in s."""
    named = request_id or fake_request_id(context)
    retry = () if retry_after is None else (("retry-after", str(ceil(retry_after))),)
    body = {
        **error_document(error_fields(with_status_defaults(status, failure))),
        REQUEST_ID: named,
    }
    return response_encoding.json_response(
        body, (*response_headers(context, named), *retry), status
    )


def whole_error_response(turn: Turn, context: EncodeContext) -> DialectResponse:
    """The HTTP error that stands in place of an answer, told from a turn that has one."""
    failure = turn.failure or Failure("")
    return error_response(
        _status_of_type(failure), failure, context, request_id=request_id(turn, context)
    )


def encode_stream_error(turn: Turn, failure: Failure, context: EncodeContext) -> Document:
    """The event that ends a stream with an error."""
    fields = {"details": None, **error_fields(failure)}
    return {**error_document(fields), REQUEST_ID: request_id(turn, context)}


def error_document(error: Document) -> Document:
    """The document of an error."""
    return {"type": "error", "error": error}


def error_fields(failure: Failure) -> Document:
    """The fields of an error; its code stands among the details."""
    details = {"details": {"error_code": failure.code}} if failure.code else {}
    return {**details, "type": failure.type, "message": failure.message}


def with_status_defaults(status: int, failure: Failure) -> Failure:
    """The error with the words that come with the status, where it has none."""
    kind, message = _WORDS.get(status, _WORDS[400 if status < 500 else 500])
    return Failure(failure.message or message, failure.type or kind, failure.code)


def with_type_defaults(failure: Failure) -> Failure:
    """An error in the words of the status that its type stands for."""
    return with_status_defaults(_status_of_type(failure), failure)


def request_id(turn: Turn, context: EncodeContext) -> str:
    """What the request of this turn is known by."""
    value = dict(turn.metadata).get(REQUEST_ID)
    is_id = isinstance(value, str) and _ID.fullmatch(value)
    return str(value) if is_id else fake_request_id(context)


def with_request_id_only(turn: Turn, context: EncodeContext) -> Turn:
    """A turn that failed, with what its request is known by and nothing else beside it."""
    return replace(turn, metadata=((REQUEST_ID, request_id(turn, context)),))


def fake_request_id(context: EncodeContext) -> str:
    """An id for a request."""
    return context.identifier("req_")


def response_headers(context: EncodeContext, request_id: str) -> Headers:
    """The request's id, and the limits that it counts towards."""
    return (("request-id", request_id), *rate_limit_headers(context))


def rate_limit_headers(context: EncodeContext) -> Headers:
    """The limits that a request counts towards."""
    quota = context.quota or AccountLimits()
    return tuple(
        (f"anthropic-ratelimit-{label}-{name}", value)
        for label, window in quota.windows_by_name
        for name, value in (
            ("limit", str(window.limit)),
            ("remaining", str(window.remaining)),
            ("reset", rfc3339_seconds(context.created + window.reset)),
        )
    )


def rfc3339_seconds(seconds: float) -> str:
    """A time in s since 1970 as RFC 3339 writes it, in whole seconds."""
    return datetime.fromtimestamp(ceil(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _status_of_type(failure: Failure) -> int:
    return next((number for number, (kind, _) in _WORDS.items() if kind == failure.type), 500)
