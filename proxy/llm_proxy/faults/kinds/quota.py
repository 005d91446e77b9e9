"""`quota`: limits requests or tokens per window, and refuses what exceeds the limit.

    request 1   request 2   request 3             request 4
    ├ 200 ──────┼ 200 ──────┼ 429 retry-after ────┼ 200 ──── …   quota,requests=2,window=60s
    └──────────────── window ────────────────────┘└─ the next window

The window is fixed: it begins with a session's first request, and the next one with the first
request after its end.  A request within the quota passes, and its response gets the provider's
rate limit headers in place of its own.  A request beyond the quota gets the provider's 429, with
the time until the window's end; the real response is never fetched, and the request does not count.

Tokens are counted for a request when it passes, a quarter of its characters; and for its response
once it was sent: those that it reports, else a quarter of its characters.  Each session has its own
quota, and a session that is reset starts a new one.
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
from llm_proxy.faults.error_responses import ErrorSpec, http_error_response
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.kind import (
    FaultArgument,
    FaultContext,
    FaultKind,
    Mechanism,
    MeteredFault,
    ReplaceResponse,
    RequestMechanism,
    Transform,
)
from llm_proxy.faults.kinds import rate_limit
from llm_proxy.faults.location import StreamLocation


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits each session to a number of requests and tokens per window; None is unlimited."""

    requests: int | None = None
    tokens: int | None = None
    window: float = 60_000.0
    """ms."""

    def __post_init__(self) -> None:
        """Raises `ValueError` where nothing is limited, or everything is refused."""
        if self.requests is None and self.tokens is None:
            raise ValueError("quota needs requests or tokens: how many are allowed in a window")
        if 0 in (self.requests, self.tokens) or self.window <= 0:
            raise ValueError("a quota of 0, or for no time, lets nothing in: begin with 1")

    def make_mechanism(self, _location: StreamLocation | None, /) -> Mechanism:
        """A meter that counts each session."""
        return MeteredFault(lambda: _QuotaMeter(self))


@dataclass(slots=True)
class _SessionQuotaUsage:
    """What one session has used in its current window."""

    window_start_ms: float
    request_count: int = 0
    token_counts: list[int] = field(default_factory=list)
    """For each request and each response; those of responses may be added in another thread."""


class _QuotaMeter:
    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._session_quotas: dict[str, _SessionQuotaUsage] = {}

    def mechanism_for_request(
        self, context: FaultContext, session: str, elapsed_ms: float
    ) -> RequestMechanism | None:
        quota = self._quota
        session_quota = self._session_quotas.get(session)
        if session_quota is None or elapsed_ms >= session_quota.window_start_ms + quota.window:
            session_quota = self._session_quotas[session] = _SessionQuotaUsage(elapsed_ms)
        prompt_tokens = 0 if quota.tokens is None else tokens.estimate_prompt_tokens(context)
        if self._would_exceed(session_quota, prompt_tokens):
            remaining_ms = session_quota.window_start_ms + quota.window - elapsed_ms
            error_spec = ErrorSpec(
                rate_limit.TOO_MANY_REQUESTS,
                account_limits=self._account_limits(session_quota, elapsed_ms),
                provider_retry_delay_ms=remaining_ms,
            )
            return ReplaceResponse(lambda context: http_error_response(context, error_spec))
        session_quota.request_count += 1
        session_quota.token_counts.append(prompt_tokens)
        encode_context = replace(
            context.decoded_request.context,
            account_limits=self._account_limits(session_quota, elapsed_ms),
        )
        headers = context.decoded_request.dialect.rate_limit_headers(encode_context)
        on_response_sent = (
            None
            if quota.tokens is None
            else partial(_add_response_tokens, session_quota, context.decoded_request)
        )
        return Transform(
            lambda _: _LimitHeadersTransform(headers),
            is_harmless=True,
            on_response_sent=on_response_sent,
        )

    def forget_session(self, session: str) -> None:
        self._session_quotas.pop(session, None)

    def _would_exceed(self, session_quota: _SessionQuotaUsage, prompt_tokens: int) -> bool:
        quota = self._quota
        if quota.requests is not None and session_quota.request_count >= quota.requests:
            return True
        return (
            quota.tokens is not None
            and sum(session_quota.token_counts) + max(prompt_tokens, 1) > quota.tokens
        )

    def _account_limits(
        self, session_quota: _SessionQuotaUsage, elapsed_ms: float
    ) -> AccountLimits:
        quota = self._quota
        reset_s = (session_quota.window_start_ms + quota.window - elapsed_ms) / 1000

        def rate_limit_window(limit: int | None, used: int) -> RateLimitWindow | None:
            return None if limit is None else RateLimitWindow(limit, max(limit - used, 0), reset_s)

        return AccountLimits(
            rate_limit_window(quota.requests, session_quota.request_count),
            rate_limit_window(quota.tokens, sum(session_quota.token_counts)),
        )


def _add_response_tokens(
    session_quota: _SessionQuotaUsage,
    decoded_request: DecodedRequest,
    head: ResponseHead,
    body: bytes,
) -> None:
    session_quota.token_counts.append(tokens.count_response_tokens(decoded_request, head, body))


class _LimitHeadersTransform:
    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def feed(self, action: Action) -> Burst:
        if not isinstance(action, Begin):
            return (action,)
        head = action.head
        replaced_names = {name.lower() for name, _ in self._headers}
        kept = tuple(header for header in head.headers if header[0].lower() not in replaced_names)
        return (Begin(replace(head, headers=(*kept, *self._headers))),)

    def close(self) -> Burst:
        return ()


KIND = FaultKind(
    "quota", FaultEffect.REFUSED, "requests or tokens a window, with the provider's "
                                  "countdown", Quota,
    {
        "requests": FaultArgument(unit_parsers.parse_count, "how many requests are allowed in a "
                                                            "window"),
        "tokens": FaultArgument(unit_parsers.parse_count, "how many tokens are allowed in a "
                                                          "window"),
        "window": FaultArgument(unit_parsers.parse_duration_ms, "how long a window is", "60s"),
    },
    scope="rule", example="quota,requests=1,window=1s",
)  # fmt: skip
