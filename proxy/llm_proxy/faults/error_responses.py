"""Refusals in the dialect's own shape, for the faults that give one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llm_proxy.actions import Begin, Burst, Send
from llm_proxy.dialects import retry_delay
from llm_proxy.dialects.encode_context import Quota
from llm_proxy.faults.kind import Met
from llm_proxy.turns import Failure


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an HTTP error says."""

    code: int
    message: str = ""
    """The provider's own words for the status where it is empty."""
    type: str = ""
    retry_after: float | None = None
    """ms; told as it is, in s and ms."""
    should_retry: bool | None = None
    quota: Quota | None = None
    """The countdown that goes with it."""
    until: float | None = None
    """ms; how long to wait, told as the provider itself tells it, who may round it or be silent."""


def refused(met: Met, what: Refusal) -> Burst:
    """The answer that refuses a request so."""
    asked = met.asked
    delivery = replace(asked.delivery, quota=what.quota)
    failure = Failure(what.message, type=what.type)
    wait = what.until if what.retry_after is None else what.retry_after
    response = asked.dialect.refuse(
        what.code, failure, delivery, None if wait is None else wait / 1000
    )
    if what.retry_after is not None:
        response = retry_delay.told(response, what.retry_after)
    head = response.head
    if what.should_retry is not None:
        again = ("x-should-retry", str(what.should_retry).lower())
        head = replace(head, headers=(*head.headers, again))
    return (Begin(head), *map(Send, response.messages))
