"""Anthropic's errors and limits, in words and in headers."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.encode_context import Delivery, Quota
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


def refuse(
    status: int,
    failure: Failure,
    delivery: Delivery,
    retry_after: float | None = None,
    request_id: str = "",
) -> Response:
    """An HTTP error; `request_id` is made where none is given, `retry_after` is in s."""
    named = request_id or made_id(delivery)
    retry = () if retry_after is None else (("retry-after", str(ceil(retry_after))),)
    body = {**shape(fields(filled(status, failure))), REQUEST_ID: named}
    return response_encoding.document(body, (*headers(delivery, named), *retry), status)


def in_place(turn: Turn, delivery: Delivery) -> Response:
    """The HTTP error that stands in place of an answer, told from a turn that has one."""
    failure = turn.failure or Failure("")
    return refuse(_status(failure), failure, delivery, request_id=request_id(turn, delivery))


def in_stream(turn: Turn, failure: Failure, delivery: Delivery) -> Document:
    """The event that ends a stream with an error."""
    said = {"details": None, **fields(failure)}
    return {**shape(said), REQUEST_ID: request_id(turn, delivery)}


def shape(error: Document) -> Document:
    """The document of an error."""
    return {"type": "error", "error": error}


def fields(failure: Failure) -> Document:
    """The fields of an error; its code stands among the details."""
    details = {"details": {"error_code": failure.code}} if failure.code else {}
    return {**details, "type": failure.type, "message": failure.message}


def filled(status: int, failure: Failure) -> Failure:
    """The error with the words that come with the status, where it has none."""
    kind, message = _WORDS.get(status, _WORDS[400 if status < 500 else 500])
    return Failure(failure.message or message, failure.type or kind, failure.code)


def instead(failure: Failure) -> Failure:
    """An error in the words of the status that its type stands for."""
    return filled(_status(failure), failure)


def request_id(turn: Turn, delivery: Delivery) -> str:
    """What the request of this turn is known by."""
    given = dict(turn.metadata).get(REQUEST_ID)
    is_id = isinstance(given, str) and _ID.fullmatch(given)
    return str(given) if is_id else made_id(delivery)


def known(turn: Turn, delivery: Delivery) -> Turn:
    """A turn that failed, with what its request is known by and nothing else beside it."""
    return replace(turn, metadata=((REQUEST_ID, request_id(turn, delivery)),))


def made_id(delivery: Delivery) -> str:
    """An id for a request."""
    return delivery.identifier("req_")


def headers(delivery: Delivery, request_id: str) -> Headers:
    """The request's id, and the limits that it counts towards."""
    return (("request-id", request_id), *countdown(delivery))


def countdown(delivery: Delivery) -> Headers:
    """The limits that a request counts towards."""
    quota = delivery.quota or Quota()
    return tuple(
        (f"anthropic-ratelimit-{what}-{name}", value)
        for what, window in quota.windows
        for name, value in (
            ("limit", str(window.limit)),
            ("remaining", str(window.remaining)),
            ("reset", moment(delivery.created + window.reset)),
        )
    )


def moment(seconds: float) -> str:
    """A time in s since 1970 as RFC 3339 writes it, in whole seconds."""
    return datetime.fromtimestamp(ceil(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _status(failure: Failure) -> int:
    """The status that the type of an error stands for."""
    return next((it for it, (kind, _) in _WORDS.items() if kind == failure.type), 500)
