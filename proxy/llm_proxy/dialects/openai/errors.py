"""The errors and limits of OpenAI's APIs, in words and in headers."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.encode_context import Delivery, Quota
from llm_proxy.dialects.openai.family import Member, member
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Headers
from llm_proxy.turns import Failure

_WORDS: Final = {
    400: ("invalid_request_error", "", "We could not parse the JSON body of your request."),
    401: (
        "invalid_request_error", "invalid_api_key",
        "Incorrect API key provided. You can find your API key in your account's settings.",
    ),
    403: (
        "invalid_request_error", "unsupported_country_region_territory",
        "Country, region, or territory not supported",
    ),
    404: (
        "invalid_request_error", "model_not_found",
        "The model does not exist or you do not have access to it.",
    ),
    429: (
        "requests", "rate_limit_exceeded",
        "Rate limit reached on requests per min (RPM). Please try again later.",
    ),
    500: (
        "server_error", "",
        "The server had an error while processing your request. Sorry about that!",
    ),
    503: (
        "service_unavailable_error", "",
        "The engine is currently overloaded, please try again later",
    ),
}  # fmt: skip
"""Type, code and message of a status; other statuses have those of 400 or 500."""

_STATUSES: Final = {
    "invalid_api_key": 401,
    "unsupported_country_region_territory": 403,
    "model_not_found": 404,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "requests": 429,
    "tokens": 429,
    "invalid_request_error": 400,
    "overloaded_error": 503,
    "service_unavailable_error": 503,
}
"""The status that a code or a type of an error stands for."""

_NUMBER: Final = re.compile("[1-9][0-9]{0,9}")
_STATUS: Final = re.compile("[45][0-9][0-9]")


def refuse(
    status: int, failure: Failure, delivery: Delivery, retry_after: float | None = None
) -> Response:
    """An HTTP error, in the shape of the member of the family that speaks."""
    speaker = member(delivery.provider)
    about = fields(filled(status, failure, speaker), speaker)
    value = {"object": "error", **about} if speaker.flat_errors else {"error": about}
    return response_encoding.document(value, (*headers(delivery), *retry(retry_after)), status)


def filled(status: int, failure: Failure, speaker: Member) -> Failure:
    """The error with the type, the code and the words of the status, where it has none."""
    kind, code, message = _WORDS.get(status, _WORDS[400 if status < 500 else 500])
    own = status in _WORDS
    return Failure(
        failure.message or message,
        failure.type or kind,
        failure.code or (str(status) if speaker.numeric_codes else code if own else ""),
    )


def status(failure: Failure) -> int:
    """The status of an error that stands in place of an answer: by its code, else by its type."""
    if _STATUS.fullmatch(failure.code):
        return int(failure.code)
    return _STATUSES.get(failure.code) or _STATUSES.get(failure.type, 500)


def instead(failure: Failure, speaker: Member) -> Failure:
    """An error that stands in place of an answer, as its status fills it."""
    return filled(status(failure), failure, speaker)


def fields(failure: Failure, speaker: Member) -> Document:
    """The fields of an error."""
    is_number = speaker.numeric_codes and _NUMBER.fullmatch(failure.code)
    code = int(failure.code) if is_number else failure.code or None
    return {"message": failure.message, "type": failure.type or None, "param": None, "code": code}


def retry(after: float | None) -> Headers:
    """When to ask again, in s and in ms."""
    if after is None:
        return ()
    return (("retry-after", str(ceil(after))), ("retry-after-ms", f"{after * 1000:.0f}"))


def headers(delivery: Delivery) -> Headers:
    """The request's id, and the limits that it counts towards."""
    return (("x-request-id", delivery.identifier("req_", length=32)), *countdown(delivery))


def countdown(delivery: Delivery) -> Headers:
    """The limits that a request counts towards."""
    quota = delivery.quota or Quota()
    return tuple(
        (f"x-ratelimit-{what}-{name}", value)
        for name, window in quota.windows
        for what, value in (
            ("limit", str(window.limit)),
            ("remaining", str(window.remaining)),
            ("reset", _duration(window.reset)),
        )
    )


def _duration(seconds: float) -> str:
    """A duration as Go writes it: `12ms`, `8.64s`, `6m0s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    shown = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{shown}"
    return f"{minutes}m{shown}" if minutes else shown
