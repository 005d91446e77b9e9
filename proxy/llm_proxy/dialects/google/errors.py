"""Google's errors: a canonical status beside the HTTP one, and details.

How long to wait stands in the details of the body; no header says it, nor the limits.
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

_STATUS: Final = {
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
"""The canonical status of an HTTP one; others below 500 are invalid arguments, too."""

_NOT_FOUND: Final = (
    "is not found for API version v1beta, or is not supported for generateContent. "
    "Call ModelService.ListModels to see the list of available models and their supported methods."
)
_WORDS: Final = {
    400: "Request contains an invalid argument.",
    401: "Request had invalid authentication credentials.",
    403: "Method doesn't allow unregistered callers (callers without established identity). "
    "Please use API Key or other form of API consumer identity to call this API.",
    404: f"The model {_NOT_FOUND}",
    409: "The operation was aborted.",
    429: "You exceeded your current quota, please check your plan and billing details.",
    499: "The operation was cancelled.",
    500: "An internal error has occurred. Please retry or report in "
    "https://developers.generativeai.google/guide/troubleshooting",
    501: "The method is not implemented.",
    503: "The model is overloaded. Please try again later.",
    504: "The request timed out. Please try again.",
}
"""The message of an error that comes without one."""

_NUMBER: Final = re.compile("[45][0-9]{2}")
_TYPE: Final = "type.googleapis.com/google.rpc."


def error_response(
    status: int, failure: Failure, context: EncodeContext, retry_after: float | None = None
) -> DialectResponse:
    """An HTTP error; 429 names the quota, `retry_after` (s) is a detail."""
    said = _with_default_message(failure, status)
    body = shared_format.error_document(status, said.type, said.message)
    if details := [*_quota_details(status, context), *_retry_headers(retry_after)]:
        body["error"]["details"] = details
    return response_encoding.json_response(body, status=status)


def model_not_found_response(name: str, context: EncodeContext) -> DialectResponse:
    """The HTTP error of a model that isn't there."""
    return error_response(404, Failure(f"models/{name} {_NOT_FOUND}"), context)


def status_of_failure(failure: Failure) -> int:
    """The status of an error that stands in place of an answer, or amid one."""
    if _NUMBER.fullmatch(failure.code):
        return int(failure.code)
    return next((number for number, word in _STATUS.items() if word == failure.type), 500)


def with_status_defaults(failure: Failure) -> Failure:
    """The error with the status, in numbers and in words, that it has on the wire."""
    number = status_of_failure(failure)
    return replace(_with_default_message(failure, number), code=str(number))


def stream_error_document(failure: Failure) -> Document:
    """An error amid a stream, where `error` is what clients look for first."""
    return shared_format.error_document(status_of_failure(failure), failure.type, failure.message)


def _with_default_message(failure: Failure, number: int) -> Failure:
    """The error with the status and the message of its number, where it has none of its own."""
    known = number if number in _STATUS else 400 if number < 500 else 500
    code = "" if _NUMBER.fullmatch(failure.code) else failure.code  # it has no other place
    message = failure.message or code or _WORDS[known]
    return replace(failure, type=failure.type or _STATUS[known], message=message)


def _quota_details(number: int, context: EncodeContext) -> list[Document]:
    if number != 429:
        return []
    violation: Document = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
        "quotaId": "GenerateContentRequestsPerMinutePerProject",
    }
    if context.quota is not None and (requests := context.quota.requests) is not None:
        violation["quotaValue"] = str(requests.limit)
    return [{"@type": f"{_TYPE}QuotaFailure", "violations": [violation]}]


def _retry_headers(after: float | None) -> list[Document]:
    """When to ask again, as a duration in s."""
    if after is None:
        return []
    shown = f"{after:.9f}".rstrip("0").rstrip(".")
    return [{"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{shown}s"}]
