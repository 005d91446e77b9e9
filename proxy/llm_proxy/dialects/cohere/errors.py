"""Cohere's errors and headers."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import with_message
from llm_proxy.dialects.encode_context import EncodeContext
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


def error_response(
    status: int, failure: Failure, context: EncodeContext, retry_after: float | None = None
) -> DialectResponse:
    """An HTTP error.  `retry_after` is in s."""
    said = _with_default_message(failure, status)
    kind = {_KIND: said.type} if said.type else {}
    body: Document = {**kind, "id": context.uuid("error"), "message": said.message}
    return response_encoding.json_response(
        body, (*response_headers(context), *_retry_headers(retry_after)), status
    )


def model_not_found_response(name: str, context: EncodeContext) -> DialectResponse:
    """The HTTP error of a model that isn't there."""
    return error_response(404, Failure(f"model '{name}' {_NOT_FOUND}"), context)


def stream_error_fields(failure: Failure) -> Document:
    """The fields that tell an error in the last event of a stream."""
    return {"error": failure.message, **({_KIND: failure.type} if failure.type else {})}


def status_of_failure(failure: Failure) -> int:
    """The status of an error that stands in place of an answer."""
    if _STATUS.fullmatch(failure.code):
        return int(failure.code)
    return _OF_TYPE.get(failure.type, _AT_FAULT)


def as_stream_error(failure: Failure) -> Failure:
    """An error as a stream tells it, which has no word for a code."""
    return Failure(with_message(failure).message, failure.type)


def as_whole_error(failure: Failure) -> Failure:
    """An error as it stands in place of an answer."""
    return _with_default_message(failure, status_of_failure(failure))


def _with_default_message(failure: Failure, number: int) -> Failure:
    words = _WORDS.get(number, _WORDS[400 if number < _AT_FAULT else _AT_FAULT])
    return Failure(failure.message or words, failure.type)


def response_headers(context: EncodeContext) -> Headers:
    """The request's id, and the limit of calls that it counts towards."""
    trace = ("X-Debug-Trace-Id", context.uuid("trace").replace("-", ""))
    return (trace, *rate_limit_headers(context))


def rate_limit_headers(context: EncodeContext) -> Headers:
    """The limit of calls that a request counts towards."""
    calls = None if context.quota is None else context.quota.requests
    if calls is None:
        return ()
    return (
        ("X-Trial-Endpoint-Call-Limit", str(calls.limit)),
        ("X-Trial-Endpoint-Call-Remaining", str(calls.remaining)),
    )


def _retry_headers(after: float | None) -> Headers:
    """When to ask again, in s and in ms."""
    if after is None:
        return ()
    return (("Retry-After", str(ceil(after))), ("Retry-After-Ms", f"{after * 1000:.0f}"))
