"""Error responses in the dialect's own shape, for faults."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.dialects import retry_delay
from llm_proxy.dialects.encode_context import AccountLimits
from llm_proxy.faults.kind import FaultContext
from llm_proxy.turns import Failure


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """What an HTTP error says."""

    code: int
    message: str = ""
    """The provider's own words for the status where it is empty."""
    type: str = ""
    retry_after: float | None = None
    """ms; told as it is, in s and ms."""
    should_retry: bool | None = None
    quota: AccountLimits | None = None
    """The countdown that goes with it."""
    retry_until: float | None = None
    """ms; how long to wait, told as the provider itself tells it, who may round it or be silent."""


def refusal_response(context: FaultContext, error_spec: ErrorSpec) -> Burst:
    """The answer that refuses a request so."""
    decoded_request = context.request
    delivery = replace(decoded_request.context, quota=error_spec.quota)
    failure = Failure(error_spec.message, type=error_spec.type)
    wait = error_spec.retry_until if error_spec.retry_after is None else error_spec.retry_after
    response = decoded_request.dialect.error_response(
        error_spec.code, failure, delivery, None if wait is None else wait / 1000
    )
    if error_spec.retry_after is not None:
        response = retry_delay.with_retry_headers(response, error_spec.retry_after)
    head = response.head
    if error_spec.should_retry is not None:
        again = ("x-should-retry", str(error_spec.should_retry).lower())
        head = replace(head, headers=(*head.headers, again))
    return (Begin(head), *map(Send, response.messages))
