"""HTTP error responses in the dialect's format, for faults."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy import unit_parsers
from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.encoding import AccountLimits
from llm_proxy.faults.kind import FaultArgument, FaultContext
from llm_proxy.turns import Failure

RETRY_ARGUMENTS: Final = {
    "retry-after": FaultArgument(
        partial(unit_parsers.parse_duration_ms, default_unit="s"),  # as in the header
        "retry delay, sent in headers such as `Retry-After`; a number without a unit is in seconds",
    ),
    "should-retry": FaultArgument(unit_parsers.parse_bool, "value of the header `x-should-retry`"),
}
"""The arguments of error responses that tell the client whether and when to retry."""


def http_error_response(
    context: FaultContext,
    code: int,
    message: str = "",
    type: str = "",  # noqa: A002 # the name of the argument in rules
    *,
    retry_after: float | None = None,
    should_retry: bool | None = None,
    account_limits: AccountLimits | None = None,
    provider_delay_ms: float | None = None,
) -> Burst:
    """The error response as actions, in the dialect of the request.

    An empty message selects the provider's own for the status.  `retry_after` (in ms) is sent
    exactly, as `retry-after` and `retry-after-ms`; `provider_delay_ms` as the provider sends it,
    who may round it or omit it.  `account_limits` are for the provider's countdown headers.
    """
    decoded_request = context.decoded_request
    delay_ms = provider_delay_ms if retry_after is None else retry_after
    response = decoded_request.dialect.error_response(
        code,
        Failure(message, type=type),
        replace(decoded_request.context, account_limits=account_limits),
        None if delay_ms is None else delay_ms / 1000,
    )
    if retry_after is not None:
        response = response_encoding.with_retry_headers(response, retry_after)
    head = response.head
    if should_retry is not None:
        header = ("x-should-retry", str(should_retry).lower())
        head = replace(head, headers=(*head.headers, header))
    return (Begin(head), *map(Send, response.framed_messages))
