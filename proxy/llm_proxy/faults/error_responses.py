"""HTTP error responses in the dialect's format, for faults."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.dialects import retry_delay
from llm_proxy.dialects.encode_context import AccountLimits
from llm_proxy.faults.kind import FaultContext
from llm_proxy.turns import Failure


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """The contents of an HTTP error response."""

    status_code: int
    message: str = ""
    """Empty selects the provider's own message for the status."""
    type: str = ""
    retry_after_ms: float | None = None
    """Sent exactly, as `retry-after` and `retry-after-ms`."""
    should_retry: bool | None = None
    account_limits: AccountLimits | None = None
    """The rate limits for the provider's countdown headers."""
    provider_retry_delay_ms: float | None = None
    """Sent as the provider itself sends it, who may round it or omit it."""


def http_error_response(context: FaultContext, error_spec: ErrorSpec) -> Burst:
    """The error response as actions, in the dialect of the request."""
    decoded_request = context.decoded_request
    encode_context = replace(decoded_request.context, account_limits=error_spec.account_limits)
    failure = Failure(error_spec.message, type=error_spec.type)
    retry_delay_ms = (
        error_spec.provider_retry_delay_ms
        if error_spec.retry_after_ms is None
        else error_spec.retry_after_ms
    )
    response = decoded_request.dialect.error_response(
        error_spec.status_code,
        failure,
        encode_context,
        None if retry_delay_ms is None else retry_delay_ms / 1000,
    )
    if error_spec.retry_after_ms is not None:
        response = retry_delay.with_retry_headers(response, error_spec.retry_after_ms)
    head = response.head
    if error_spec.should_retry is not None:
        should_retry_header = ("x-should-retry", str(error_spec.should_retry).lower())
        head = replace(head, headers=(*head.headers, should_retry_header))
    return (Begin(head), *map(Send, response.framed_messages))
