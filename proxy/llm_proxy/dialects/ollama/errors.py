"""Ollama's errors: a message, and in streams of its cloud the HTTP status."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import with_default_error_message
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Failure

_DEFAULT_MESSAGES: Final = {
    400: "invalid request",
    401: "unauthorized",
    403: "forbidden",
    404: "model not found",
    429: "too many requests",
    500: "internal server error",
    503: "server busy, please try again.  maximum pending requests exceeded",
}
"""The message of an error without one; other statuses use that of 400 or of 500."""

_SERVER_ERROR: Final = 500
_STATUS_PATTERN: Final = re.compile("[45][0-9][0-9]")


def error_response(
    status: int, failure: Failure, retry_after_s: float | None = None
) -> DialectResponse:
    """An HTTP error.  Ollama sends no headers for limits or request ids."""
    headers = () if retry_after_s is None else (("Retry-After", str(ceil(retry_after_s))),)
    return response_encoding.json_response(
        error_document(_with_default_message(failure, status).message), headers, status
    )


def error_document(message: str) -> Document:
    """The JSON body of an error."""
    return {"error": message}


def stream_error_document(failure: Failure) -> Document:
    """The error line of a stream, with its status if it has one."""
    status: Document = {"status": int(failure.code)} if failure.code else {}
    return {**error_document(failure.message), **status}


def status_of_failure(failure: Failure) -> int:
    """The HTTP status for a failure: its code if that is an error status, else 500."""
    return int(failure.code) if _STATUS_PATTERN.fullmatch(failure.code) else _SERVER_ERROR


def as_stream_error_failure(failure: Failure) -> Failure:
    """The failure as an error line holds it: a message, and the code if it is an HTTP status."""
    code = failure.code if _STATUS_PATTERN.fullmatch(failure.code) else ""
    return Failure(with_default_error_message(failure).message, code=code)


def as_http_error_failure(failure: Failure) -> Failure:
    """The failure as an HTTP error holds it: a message alone, since the head has the status."""
    return Failure(_with_default_message(failure, status_of_failure(failure)).message)


def _with_default_message(failure: Failure, status: int) -> Failure:
    default_message = _DEFAULT_MESSAGES.get(
        status, _DEFAULT_MESSAGES[400 if status < _SERVER_ERROR else _SERVER_ERROR]
    )
    return Failure(failure.message or failure.type or default_message)
