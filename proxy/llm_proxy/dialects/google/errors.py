"""Google's errors: a canonical status in addition to the HTTP one, and details.

The body's details hold the retry delay; there are no headers for it or for rate limits.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.google import shared_format
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Failure

_CANONICAL_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""HTTP status -> canonical status; other statuses use that of 400 or of 500."""

_NOT_FOUND_MESSAGE: Final = (
    "is not found for API version v1beta, or is not supported for generateContent. "
    "Call ModelService.ListModels to see the list of available models and their supported methods."
)
_DEFAULT_MESSAGES: Final = {
    400: "Request contains an invalid argument.",
    401: "Request had invalid authentication credentials.",
    403: "Method doesn't allow unregistered callers (callers without established identity). "
    "Please use API Key or other form of API consumer identity to call this API.",
    404: f"The model {_NOT_FOUND_MESSAGE}",
    409: "The operation was aborted.",
    429: "You exceeded your current quota, please check your plan and billing details.",
    499: "The operation was cancelled.",
    500: "An internal error has occurred. Please retry or report in "
    "https://developers.generativeai.google/guide/troubleshooting",
    501: "The method is not implemented.",
    503: "The model is overloaded. Please try again later.",
    504: "The request timed out. Please try again.",
}
"""The message of an error without one."""

_ERROR_STATUS_PATTERN: Final = re.compile("[45][0-9]{2}")
_RPC_TYPE_PREFIX: Final = "type.googleapis.com/google.rpc."


def error_response(
    status: int, failure: Failure, context: EncodeContext, retry_after_s: float | None = None
) -> DialectResponse:
    """An HTTP error; its details hold the quota (for 429) and the retry delay."""
    error = _with_defaults(failure, status)
    body = shared_format.error_document(status, error.type, error.message)
    if details := [*_quota_details(status, context), *_retry_details(retry_after_s)]:
        body["error"]["details"] = details
    return response_encoding.json_response(body, status=status)


def model_not_found_response(name: str, context: EncodeContext) -> DialectResponse:
    """The HTTP error (404) for an unknown model."""
    return error_response(404, Failure(f"models/{name} {_NOT_FOUND_MESSAGE}"), context)


def status_of_failure(failure: Failure) -> int:
    """The HTTP status of a failure: from its code or its type, else 500."""
    if _ERROR_STATUS_PATTERN.fullmatch(failure.code):
        return int(failure.code)
    return next(
        (
            number
            for number, canonical_status in _CANONICAL_STATUS.items()
            if canonical_status == failure.type
        ),
        500,
    )


def with_status_defaults(failure: Failure) -> Failure:
    """The failure as the wire holds it: with HTTP status, canonical status and message."""
    status = status_of_failure(failure)
    return replace(_with_defaults(failure, status), code=str(status))


def stream_error_document(failure: Failure) -> Document:
    """The document of an error within a stream; clients look for `error` first."""
    return shared_format.error_document(status_of_failure(failure), failure.type, failure.message)


def _with_defaults(failure: Failure, status: int) -> Failure:
    """The failure, with the canonical status and the message of `status` where it lacks its own."""
    known_status = status if status in _CANONICAL_STATUS else 400 if status < 500 else 500
    code = (
        "" if _ERROR_STATUS_PATTERN.fullmatch(failure.code) else failure.code
    )  # no other field for it
    message = failure.message or code or _DEFAULT_MESSAGES[known_status]
    return replace(failure, type=failure.type or _CANONICAL_STATUS[known_status], message=message)


def _quota_details(status: int, context: EncodeContext) -> list[Document]:
    if status != 429:
        return []
    violation: Document = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
        "quotaId": "GenerateContentRequestsPerMinutePerProject",
    }
    if (
        context.account_limits is not None
        and (requests := context.account_limits.request_window) is not None
    ):
        violation["quotaValue"] = str(requests.limit)
    return [{"@type": f"{_RPC_TYPE_PREFIX}QuotaFailure", "violations": [violation]}]


def _retry_details(retry_after_s: float | None) -> list[Document]:
    """When to retry, as a duration in s."""
    if retry_after_s is None:
        return []
    seconds = f"{retry_after_s:.9f}".rstrip("0").rstrip(".")
    return [{"@type": f"{_RPC_TYPE_PREFIX}RetryInfo", "retryDelay": f"{seconds}s"}]
