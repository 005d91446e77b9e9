"""Errors and rate limit headers of OpenAI's APIs."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import AccountLimits, EncodeContext
from llm_proxy.dialects.openai.provider_variants import FamilyMember, family_member
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


def error_response(
    status: int, failure: Failure, context: EncodeContext, retry_after: float | None = None
) -> DialectResponse:
    """An HTTP error, in the shape of the member of the family that speaks."""
    member = family_member(context.provider)
    document = error_fields(with_status_defaults(status, failure, member), member)
    value = {"object": "error", **document} if member.has_flat_errors else {"error": document}
    return response_encoding.json_response(
        value, (*response_headers(context), *retry_headers(retry_after)), status
    )


def with_status_defaults(status: int, failure: Failure, member: FamilyMember) -> Failure:
    """The error with the type, the code and the words of the status, where it has none."""
    kind, code, message = _WORDS.get(status, _WORDS[400 if status < 500 else 500])
    own = status in _WORDS
    return Failure(
        failure.message or message,
        failure.type or kind,
        failure.code or (str(status) if member.has_numeric_codes else code if own else ""),
    )


def status_of_failure(failure: Failure) -> int:
    """The status of an error that stands in place of an answer: by its code, else by its type."""
    if _STATUS.fullmatch(failure.code):
        return int(failure.code)
    return _STATUSES.get(failure.code) or _STATUSES.get(failure.type, 500)


def as_whole_error(failure: Failure, member: FamilyMember) -> Failure:
    """An error that stands in place of an answer, as its status fills it."""
    return with_status_defaults(status_of_failure(failure), failure, member)


def error_fields(failure: Failure, member: FamilyMember) -> Document:
    """The fields of an error."""
    is_number = member.has_numeric_codes and _NUMBER.fullmatch(failure.code)
    code = int(failure.code) if is_number else failure.code or None
    return {"message": failure.message, "type": failure.type or None, "param": None, "code": code}


def retry_headers(after: float | None) -> Headers:
    """When to ask again, in s and in ms."""
    if after is None:
        return ()
    return (("retry-after", str(ceil(after))), ("retry-after-ms", f"{after * 1000:.0f}"))


def response_headers(context: EncodeContext) -> Headers:
    """The request's id, and the limits that it counts towards."""
    return (("x-request-id", context.identifier("req_", length=32)), *rate_limit_headers(context))


def rate_limit_headers(context: EncodeContext) -> Headers:
    """The limits that a request counts towards."""
    quota = context.quota or AccountLimits()
    return tuple(
        (f"x-ratelimit-{label}-{name}", value)
        for name, window in quota.windows_by_name
        for label, value in (
            ("limit", str(window.limit)),
            ("remaining", str(window.remaining)),
            ("reset", _go_duration(window.reset)),
        )
    )


def _go_duration(seconds: float) -> str:
    """A duration as Go writes it: `12ms`, `8.64s`, `6m0s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    shown = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{shown}"
    return f"{minutes}m{shown}" if minutes else shown
