"""Cohere's errors, in words, and its headers."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.capabilities import worded
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Headers
from llm_proxy.turns import Failure

_NOT_FOUND: Final = (
    "not found, make sure the correct model ID was used and that you have access to the model."
)
_WORDS: Final = {
    400: "invalid request",
    401: "no valid api key was given",
    402: "the account has no payment method",
    403: "the key may not do this",
    404: f"model {_NOT_FOUND}",
    422: "the request cannot be processed",
    429: "too many requests",
    498: "invalid token",
    499: "the request was cancelled",
    500: "internal server error",
    501: "not implemented",
    503: "the service is unavailable",
    504: "the request took too long",
}
"""The message of a status that comes without one."""

_OF_TYPE: Final = {"TOO_MANY_TOKENS": 400, "INVALID_TOOL_GENERATION": 422}
_AT_FAULT: Final = 500
_STATUS: Final = re.compile("[45][0-9][0-9]")
_KIND: Final = "error_type"


def refuse(
    status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
) -> Response:
    """An HTTP error.  `retry_after` is in s."""
    said = _worded(failure, status)
    kind = {_KIND: said.type} if said.type else {}
    body: Document = {**kind, "id": delivery.uuid("error"), "message": said.message}
    return response_encoding.document(body, (*headers(delivery), *_retry(retry_after)), status)


def no_model(name: str, delivery: Delivery) -> Response:
    """The HTTP error of a model that isn't there."""
    return refuse(404, Failure(f"model '{name}' {_NOT_FOUND}"), delivery)


def amid_fields(failure: Failure) -> Document:
    """The fields that tell an error in the last event of a stream."""
    return {"error": failure.message, **({_KIND: failure.type} if failure.type else {})}


def status(failure: Failure) -> int:
    """The status of an error that stands in place of an answer."""
    if _STATUS.fullmatch(failure.code):
        return int(failure.code)
    return _OF_TYPE.get(failure.type, _AT_FAULT)


def amid(failure: Failure) -> Failure:
    """An error as a stream tells it, which has no word for a code."""
    return Failure(worded(failure).message, failure.type)


def instead(failure: Failure) -> Failure:
    """An error as it stands in place of an answer."""
    return _worded(failure, status(failure))


def _worded(failure: Failure, number: int) -> Failure:
    words = _WORDS.get(number, _WORDS[400 if number < _AT_FAULT else _AT_FAULT])
    return Failure(failure.message or words, failure.type)


def headers(delivery: Delivery) -> Headers:
    """The request's id, and the limit of calls that it counts towards."""
    trace = ("X-Debug-Trace-Id", delivery.uuid("trace").replace("-", ""))
    return (trace, *countdown(delivery))


def countdown(delivery: Delivery) -> Headers:
    """The limit of calls that a request counts towards."""
    calls = None if delivery.quota is None else delivery.quota.requests
    if calls is None:
        return ()
    return (
        ("X-Trial-Endpoint-Call-Limit", str(calls.limit)),
        ("X-Trial-Endpoint-Call-Remaining", str(calls.remaining)),
    )


def _retry(after: float | None) -> Headers:
    """When to ask again, in s and in ms."""
    if after is None:
        return ()
    return (("Retry-After", str(ceil(after))), ("Retry-After-Ms", f"{after * 1000:.0f}"))
