"""Ollama's errors: a message, and for its cloud the HTTP status."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.capabilities import with_message
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Failure

_WORDS: Final = {
    400: "invalid request",
    401: "unauthorized",
    403: "forbidden",
    404: "model not found",
    429: "too many requests",
    500: "internal server error",
    503: "server busy, please try again.  maximum pending requests exceeded",
}
"""The message of a status that comes without one; others have the words of 400, or of 500."""

_AT_FAULT: Final = 500
_STATUS: Final = re.compile("[45][0-9][0-9]")


def error_response(
    status: int, failure: Failure, retry_after: float | None = None
) -> DialectResponse:
    """An HTTP error; no header tells limits or ids.  `retry_after` is in s."""
    headers = () if retry_after is None else (("Retry-After", str(ceil(retry_after))),)
    return response_encoding.json_response(
        error_document(_with_default_message(failure, status).message), headers, status
    )


def error_document(message: str) -> Document:
    """The document of an error."""
    return {"error": message}


def encode_error_line(failure: Failure) -> Document:
    """The line of an error amid a stream."""
    status: Document = {"status": int(failure.code)} if failure.code else {}
    return {**error_document(failure.message), **status}


def status_of_failure(failure: Failure) -> int:
    """The status of an error that stands in place of an answer."""
    return int(failure.code) if _STATUS.fullmatch(failure.code) else _AT_FAULT


def as_stream_error(failure: Failure) -> Failure:
    """An error as a line tells it: with its status, where that is what its code is."""
    code = failure.code if _STATUS.fullmatch(failure.code) else ""
    return Failure(with_message(failure).message, code=code)


def as_whole_error(failure: Failure) -> Failure:
    """An error as it stands in place of an answer, whose head tells its status."""
    return Failure(_with_default_message(failure, status_of_failure(failure)).message)


def _with_default_message(failure: Failure, number: int) -> Failure:
    words = _WORDS.get(number, _WORDS[400 if number < _AT_FAULT else _AT_FAULT])
    return Failure(failure.message or failure.type or words)
