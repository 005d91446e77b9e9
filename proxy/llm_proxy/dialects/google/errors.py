"""The errors of Google's APIs: a canonical status beside the HTTP one, and details.

How long to wait stands in the details of the body; no header says it, nor the limits.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.google import api
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


def refuse(
    status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
) -> Response:
    """An HTTP error; 429 names the quota, `retry_after` (s) is a detail."""
    said = _worded(failure, status)
    body = api.error_document(status, said.type, said.message)
    if details := [*_quota(status, delivery), *_retry(retry_after)]:
        body["error"]["details"] = details
    return response_encoding.document(body, status=status)


def no_model(name: str, delivery: Delivery) -> Response:
    """The HTTP error of a model that isn't there."""
    return refuse(404, Failure(f"models/{name} {_NOT_FOUND}"), delivery)


def status(failure: Failure) -> int:
    """The status of an error that stands in place of an answer, or amid one."""
    if _NUMBER.fullmatch(failure.code):
        return int(failure.code)
    return next((it for it, word in _STATUS.items() if word == failure.type), 500)


def filled(failure: Failure) -> Failure:
    """The error with the status, in numbers and in words, that it has on the wire."""
    number = status(failure)
    return replace(_worded(failure, number), code=str(number))


def amid(failure: Failure) -> Document:
    """An error amid a stream, where `error` is what clients look for first."""
    return api.error_document(status(failure), failure.type, failure.message)


def _worded(failure: Failure, number: int) -> Failure:
    """The error with the status and the message of its number, where it has none of its own."""
    known = number if number in _STATUS else 400 if number < 500 else 500
    code = "" if _NUMBER.fullmatch(failure.code) else failure.code  # it has no other place
    message = failure.message or code or _WORDS[known]
    return replace(failure, type=failure.type or _STATUS[known], message=message)


def _quota(number: int, delivery: Delivery) -> list[Document]:
    if number != 429:
        return []
    violation: Document = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_content_requests",
        "quotaId": "GenerateContentRequestsPerMinutePerProject",
    }
    if delivery.quota is not None and (requests := delivery.quota.requests) is not None:
        violation["quotaValue"] = str(requests.limit)
    return [{"@type": f"{_TYPE}QuotaFailure", "violations": [violation]}]


def _retry(after: float | None) -> list[Document]:
    """When to ask again, as a duration in s."""
    if after is None:
        return []
    shown = f"{after:.9f}".rstrip("0").rstrip(".")
    return [{"@type": f"{_TYPE}RetryInfo", "retryDelay": f"{shown}s"}]
