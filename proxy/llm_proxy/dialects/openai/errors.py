"""Errors and rate limit headers of OpenAI's APIs."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import AccountLimits, EncodeContext
from llm_proxy.dialects.openai.provider_variants import ProviderVariant, provider_variant
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Headers
from llm_proxy.turns import Failure

_STATUS_DEFAULTS: Final = {
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
"""Default type, code and message by status; other statuses use those of 400 or 500."""

_STATUS_BY_CODE_OR_TYPE: Final = {
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
"""The status of an error by its code or type."""

_NUMERIC_CODE: Final = re.compile("[1-9][0-9]{0,9}")
_HTTP_ERROR_STATUS: Final = re.compile("[45][0-9][0-9]")


def error_response(
    status: int, failure: Failure, context: EncodeContext, retry_after_s: float | None = None
) -> DialectResponse:
    """An HTTP error in the format of the context's provider; missing fields get defaults."""
    variant = provider_variant(context.provider)
    document = error_fields(with_status_defaults(status, failure, variant), variant)
    value = {"object": "error", **document} if variant.has_flat_errors else {"error": document}
    return response_encoding.json_response(
        value, (*common_response_headers(context), *retry_after_headers(retry_after_s)), status
    )


def with_status_defaults(status: int, failure: Failure, variant: ProviderVariant) -> Failure:
    """The error, its missing type, code and message filled with those of the status."""
    kind, code, message = _STATUS_DEFAULTS.get(
        status, _STATUS_DEFAULTS[400 if status < 500 else 500]
    )
    is_known_status = status in _STATUS_DEFAULTS
    return Failure(
        failure.message or message,
        failure.type or kind,
        failure.code
        or (str(status) if variant.has_numeric_error_codes else code if is_known_status else ""),
    )


def status_of_failure(failure: Failure) -> int:
    """The HTTP status for an error without a turn: by its code, else its type, else 500."""
    if _HTTP_ERROR_STATUS.fullmatch(failure.code):
        return int(failure.code)
    return _STATUS_BY_CODE_OR_TYPE.get(failure.code) or _STATUS_BY_CODE_OR_TYPE.get(
        failure.type, 500
    )


def as_http_error_failure(failure: Failure, member: ProviderVariant) -> Failure:
    """The error as an HTTP error has it: completed with the defaults of its status."""
    return with_status_defaults(status_of_failure(failure), failure, member)


def error_fields(failure: Failure, variant: ProviderVariant) -> Document:
    """The JSON object of an error; the code is a number where the provider's codes are."""
    is_numeric = variant.has_numeric_error_codes and _NUMERIC_CODE.fullmatch(failure.code)
    code = int(failure.code) if is_numeric else failure.code or None
    return {"message": failure.message, "type": failure.type or None, "param": None, "code": code}


def retry_after_headers(retry_after_s: float | None) -> Headers:
    """`retry-after` (whole s) and `retry-after-ms`; none where the time is None."""
    if retry_after_s is None:
        return ()
    return (
        ("retry-after", str(ceil(retry_after_s))),
        ("retry-after-ms", f"{retry_after_s * 1000:.0f}"),
    )


def common_response_headers(context: EncodeContext) -> Headers:
    """The headers of every response: `x-request-id` and rate limits."""
    return (
        ("x-request-id", context.fake_identifier("req_", length=32)),
        *rate_limit_headers(context),
    )


def rate_limit_headers(context: EncodeContext) -> Headers:
    """The `x-ratelimit-*` headers of `context.quota`; none without a quota."""
    quota = context.account_limits or AccountLimits()
    return tuple(
        (f"x-ratelimit-{label}-{name}", value)
        for name, window in quota.named_windows
        for label, value in (
            ("limit", str(window.limit)),
            ("remaining", str(window.remaining)),
            ("reset", _format_go_duration(window.reset_s)),
        )
    )


def _format_go_duration(duration_s: float) -> str:
    """A duration in Go's notation: `12ms`, `8.64s`, `6m0s`."""
    if duration_s < 1:
        return f"{duration_s * 1000:.0f}ms"
    minutes, rest_s = divmod(duration_s, 60)
    hours, minutes = divmod(int(minutes), 60)
    seconds_text = f"{rest_s:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{seconds_text}"
    return f"{minutes}m{seconds_text}" if minutes else seconds_text
