"""Cohere's errors and headers."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import with_default_error_message
from llm_proxy.exchange import Headers
from llm_proxy.turns import Failure

_NOT_FOUND_MESSAGE: Final = (
    "not found, make sure the correct model ID was used and that you have access to the model."
)
_DEFAULT_MESSAGES: Final = {
    400: "invalid request",
    401: "no valid api key was given",
    402: "the account has no payment method",
    403: "the key may not do this",
    404: f"model {_NOT_FOUND_MESSAGE}",
    422: "the request cannot be processed",
    429: "too many requests",
    498: "invalid token",
    499: "the request was cancelled",
    500: "internal server error",
    501: "not implemented",
    503: "the service is unavailable",
    504: "the request took too long",
}
"""The message of an error without one."""

_STATUS_OF_TYPE: Final = {"TOO_MANY_TOKENS": 400, "INVALID_TOOL_GENERATION": 422}
_SERVER_ERROR: Final = 500
_STATUS_PATTERN: Final = re.compile("[45][0-9][0-9]")
_TYPE_FIELD: Final = "error_type"


def error_response(
    status: int, failure: Failure, context: EncodeContext, retry_after_s: float | None = None
) -> DialectResponse:
    """An HTTP error, with the headers of every response."""
    error = _with_default_message(failure, status)
    type_fields = {_TYPE_FIELD: error.type} if error.type else {}
    body: Document = {**type_fields, "id": context.fake_uuid("error"), "message": error.message}
    return response_encoding.json_response(
        body, (*common_response_headers(context), *_retry_headers(retry_after_s)), status
    )


def model_not_found_response(name: str, context: EncodeContext) -> DialectResponse:
    """The HTTP error (404) for an unknown model."""
    return error_response(404, Failure(f"model '{name}' {_NOT_FOUND_MESSAGE}"), context)


def stream_error_fields(failure: Failure) -> Document:
    """The fields of an error in the last event of a stream."""
    return {"error": failure.message, **({_TYPE_FIELD: failure.type} if failure.type else {})}


def status_of_failure(failure: Failure) -> int:
    """The HTTP status of a failure: from its code or its type, else 500."""
    if _STATUS_PATTERN.fullmatch(failure.code):
        return int(failure.code)
    return _STATUS_OF_TYPE.get(failure.type, _SERVER_ERROR)


def as_stream_error_failure(failure: Failure) -> Failure:
    """The failure as a stream holds it: a message and a type, but no code."""
    return Failure(with_default_error_message(failure).message, failure.type)


def as_http_error_failure(failure: Failure) -> Failure:
    """The failure as an HTTP error holds it: a message and a type."""
    return _with_default_message(failure, status_of_failure(failure))


def _with_default_message(failure: Failure, status: int) -> Failure:
    default_message = _DEFAULT_MESSAGES.get(
        status, _DEFAULT_MESSAGES[400 if status < _SERVER_ERROR else _SERVER_ERROR]
    )
    return Failure(failure.message or default_message, failure.type)


def common_response_headers(context: EncodeContext) -> Headers:
    """The headers of every response: a trace id, and the limit of requests."""
    trace = ("X-Debug-Trace-Id", context.fake_uuid("trace").replace("-", ""))
    return (trace, *rate_limit_headers(context))


def rate_limit_headers(context: EncodeContext) -> Headers:
    """The account's limit of requests; empty where there is none."""
    request_limit = (
        None if context.account_limits is None else context.account_limits.request_window
    )
    if request_limit is None:
        return ()
    return (
        ("X-Trial-Endpoint-Call-Limit", str(request_limit.limit)),
        ("X-Trial-Endpoint-Call-Remaining", str(request_limit.remaining)),
    )


def _retry_headers(retry_after_s: float | None) -> Headers:
    """When to retry, as headers in s and in ms."""
    if retry_after_s is None:
        return ()
    return (
        ("Retry-After", str(ceil(retry_after_s))),
        ("Retry-After-Ms", f"{retry_after_s * 1000:.0f}"),
    )
