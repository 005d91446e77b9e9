"""`quota`: so many requests, or tokens, a window; what is more is refused.

    request 1   request 2   request 3             request 4
    ├ 200 ──────┼ 200 ──────┼ 429 retry-after ────┼ 200 ──── …   quota,requests=2,window=60s
    └──────────────── window ────────────────────┘└─ the next window

The window is fixed: it begins with a session's first request, and the next one with the first
request after its end.  What is within the quota passes, and bears the provider's own countdown
headers in place of those that it has.  What is beyond is the provider's 429, with the wait until
the window's end, and nobody is asked for an answer; it does not count.

A request costs a quarter of its characters in tokens from the moment it is let in, and its answer
what it tells of itself, else a quarter of its characters, once it has gone out.  Sessions have
quotas of their own, and a session that is begun again has a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from llm_proxy import unit_parsers
from llm_proxy.actions import Action, Begin, Burst
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.dialects.encode_context import AccountLimits, RateLimitWindow
from llm_proxy.exchange import Headers, ResponseHead
from llm_proxy.faults import tokens
from llm_proxy.faults.error_responses import ErrorSpec, refusal_response
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    FaultArgument,
    FaultContext,
    FaultKind,
    MeteredFault,
    ReplaceResponse,
    Transform,
    Work,
    Working,
)
from llm_proxy.faults.kinds import rate_limit
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """What is allowed in a window; None is as much as anybody likes."""

    requests: int | None = None
    tokens: int | None = None
    window: float = 60_000.0
    """ms."""

    def __post_init__(self) -> None:
        """Raises `ValueError` where nothing is limited, or all is refused."""
        if self.requests is None and self.tokens is None:
            raise ValueError("quota needs requests or tokens: how many are allowed in a window")
        if 0 in (self.requests, self.tokens) or self.window <= 0:
            raise ValueError("a quota of 0, or for no time, lets nothing in: begin with 1")

    def mechanism(self, _place: Place | None, /) -> Work:
        """An account for each session."""
        return MeteredFault(lambda: _QuotaMeter(self))


@dataclass(slots=True)
class _SessionQuota:
    """What one session has used of its window."""

    begun: float
    requests: int = 0
    tokens: list[int] = field(default_factory=list)
    """Of each request and each answer; answers may be added in another thread."""


class _QuotaMeter:
    """The accounts of all sessions."""

    def __init__(self, limits: QuotaLimits) -> None:
        self._limits = limits
        self._session_quotas: dict[str, _SessionQuota] = {}

    def admit(self, context: FaultContext, session: str, now: float) -> Working | None:
        limits = self._limits
        account = self._session_quotas.get(session)
        if account is None or now >= account.begun + limits.window:
            account = self._session_quotas[session] = _SessionQuota(now)
        cost = 0 if limits.tokens is None else tokens.prompt_tokens(context)
        if self._exceeds(account, cost):
            left = account.begun + limits.window - now
            refusal = ErrorSpec(
                rate_limit.STATUS, quota=self._remaining_limits(account, now), retry_until=left
            )
            return ReplaceResponse(lambda context: refusal_response(context, refusal))
        account.requests += 1
        account.tokens.append(cost)
        delivery = replace(context.request.context, quota=self._remaining_limits(account, now))
        headers = context.request.dialect.rate_limit_headers(delivery)
        afterwards = None if limits.tokens is None else partial(_charge, account, context.request)
        return Transform(lambda _: _LimitHeaders(headers), is_quiet=True, on_finished=afterwards)

    def forget_session(self, session: str) -> None:
        self._session_quotas.pop(session, None)

    def _exceeds(self, account: _SessionQuota, cost: int) -> bool:
        limits = self._limits
        if limits.requests is not None and account.requests >= limits.requests:
            return True
        return limits.tokens is not None and sum(account.tokens) + max(cost, 1) > limits.tokens

    def _remaining_limits(self, account: _SessionQuota, now: float) -> AccountLimits:
        limits = self._limits
        reset = (account.begun + limits.window - now) / 1000

        def window(limit: int | None, used: int) -> RateLimitWindow | None:
            return None if limit is None else RateLimitWindow(limit, max(limit - used, 0), reset)

        return AccountLimits(
            window(limits.requests, account.requests), window(limits.tokens, sum(account.tokens))
        )


def _charge(
    account: _SessionQuota, decoded_request: DecodedRequest, head: ResponseHead, body: bytes
) -> None:
    account.tokens.append(tokens.response_tokens(decoded_request, head, body))


class _LimitHeaders:
    """Puts the countdown into a head, in place of what stands there."""

    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def feed(self, action: Action) -> Burst:
        if not isinstance(action, Begin):
            return (action,)
        head = action.head
        named = {name.lower() for name, _ in self._headers}
        kept = tuple(header for header in head.headers if header[0].lower() not in named)
        return (Begin(replace(head, headers=(*kept, *self._headers))),)

    def close(self) -> Burst:
        return ()


KIND = FaultKind(
    "quota", FaultEffect.REFUSED, "requests or tokens a window, with the provider's "
                                  "countdown", QuotaLimits,
    {
        "requests": FaultArgument(unit_parsers.parse_count, "how many requests are allowed in a "
                                                            "window"),
        "tokens": FaultArgument(unit_parsers.parse_count, "how many tokens are allowed in a "
                                                          "window"),
        "window": FaultArgument(unit_parsers.parse_milliseconds, "how long a window is", "60s"),
    },
    scope="rule", example="quota,requests=1,window=1s",
)  # fmt: skip
