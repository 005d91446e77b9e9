"""Errors and rate limit headers of OpenAI's APIs."""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil
from typing import Final

from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import AccountLimits, EncodeContext
from llm_proxy.dialects.openai.provider_variants import ProviderVariant, provider_variant
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import Errors
from llm_proxy.exchange import Headers
from llm_proxy.turns import Failure

ERRORS: Final = Errors(
    {
        400: Failure(
            "We could not parse the JSON body of your request.",
            "invalid_request_error",
        ),
        401: Failure(
            "Incorrect API key provided. You can find your API key in your account's settings.",
            "invalid_request_error",
            "invalid_api_key",
        ),
        403: Failure(
            "Country, region, or territory not supported",
            "invalid_request_error",
            "unsupported_country_region_territory",
        ),
        404: Failure(
            "The model does not exist or you do not have access to it.",
            "invalid_request_error",
            "model_not_found",
        ),
        429: Failure(
            "Rate limit reached on requests per min (RPM). Please try again later.",
            "requests",
            "rate_limit_exceeded",
        ),
        500: Failure(
            "The server had an error while processing your request. Sorry about that!",
            "server_error",
        ),
        503: Failure(
            "The engine is currently overloaded, please try again later",
            "service_unavailable_error",
        ),
    },
    {
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
    },
)

_NUMERIC_CODE: Final = re.compile("[1-9][0-9]{0,9}")


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
    error = ERRORS.with_defaults(failure, status)
    if variant.has_numeric_error_codes:
        return replace(error, code=failure.code or str(status))
    return error


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
