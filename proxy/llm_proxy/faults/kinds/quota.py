"""`quota`: requests that exceed a request or token limit are rejected.

    request 1   request 2   request 3             request 4
    ├ 200 ──────┼ 200 ──────┼ 429 retry-after ────┼ 200 ──── …   quota,requests=2,window=60s
    └──────────────── window ────────────────────┘└─ the next window

Each session has its own quota. The first request starts a time window. After the window, the next
request starts a new window. Responses contain the provider's rate limit headers. Requests that
exceed the quota are rejected with HTTP 429. Rejected requests do not count towards the quota.

Tokens are estimated at one per four characters, except for responses that report usage.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from llm_proxy import unit_parsers
from llm_proxy.dialects import estimates_and_fakes
from llm_proxy.dialects.encoding import AccountLimits, RateLimitWindow
from llm_proxy.errors import UsageError
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.error_responses import http_error_response
from llm_proxy.faults.kind import (
    FaultArgument,
    FaultContext,
    FaultEffect,
    FaultKind,
    HeadTransform,
    Mechanism,
    MeteredFault,
    ReplaceResponse,
    RequestMechanism,
    Transform,
)
from llm_proxy.faults.kinds import rate_limit
from llm_proxy.faults.spoiled_responses import decode_sent_response
from llm_proxy.pacing.tokens import count_output_chars


def _quota(window: float, requests: int | None = None, tokens: int | None = None) -> Mechanism:
    if requests is None and tokens is None:
        raise UsageError("quota requires requests= or tokens=")
    if window <= 0:
        raise UsageError("window= must be longer than 0s")
    return MeteredFault(lambda: _QuotaMeter(window, requests, tokens))


@dataclass(slots=True)
class _SessionUsage:
    """What one session has used in its current window."""

    window_start_ms: float
    request_count: int = 0
    token_counts: list[int] = field(default_factory=list)
    """For each request and each response; those of responses may be added in another thread."""


@dataclass(frozen=True, slots=True)
class _QuotaMeter:
    window_ms: float
    max_requests: int | None
    max_tokens: int | None
    """Per window and session; None is unlimited."""
    usages: dict[str, _SessionUsage] = field(default_factory=dict)
    """By session."""

    def mechanism_for_request(
        self, context: FaultContext, session: str, elapsed_ms: float
    ) -> RequestMechanism | None:
        usage = self.usages.get(session)
        if usage is None or elapsed_ms >= usage.window_start_ms + self.window_ms:
            usage = self.usages[session] = _SessionUsage(elapsed_ms)
        remaining_ms = usage.window_start_ms + self.window_ms - elapsed_ms
        prompt_tokens = 0 if self.max_tokens is None else _estimate_prompt_tokens(context)
        if (self.max_requests is not None and usage.request_count >= self.max_requests) or (
            self.max_tokens is not None
            and sum(usage.token_counts) + max(prompt_tokens, 1) > self.max_tokens
        ):
            limits = self._account_limits(usage, remaining_ms)
            return ReplaceResponse(
                lambda context: http_error_response(
                    context,
                    rate_limit.TOO_MANY_REQUESTS,
                    account_limits=limits,
                    provider_delay_ms=remaining_ms,
                )
            )
        usage.request_count += 1
        usage.token_counts.append(prompt_tokens)
        decoded_request = context.decoded_request
        limit_headers = decoded_request.dialect.rate_limit_headers(
            replace(
                decoded_request.context, account_limits=self._account_limits(usage, remaining_ms)
            )
        )
        replaced_names = {name.lower() for name, _ in limit_headers}

        def with_limits(head: ResponseHead) -> ResponseHead:
            kept = [header for header in head.headers if header[0].lower() not in replaced_names]
            return replace(head, headers=(*kept, *limit_headers))

        def add_response_tokens(head: ResponseHead, body: bytes) -> None:
            usage.token_counts.append(_count_response_tokens(context, head, body))

        return Transform(
            lambda _: HeadTransform(with_limits),
            is_harmless=True,
            on_response_sent=None if self.max_tokens is None else add_response_tokens,
        )

    def forget_session(self, session: str) -> None:
        self.usages.pop(session, None)

    def _account_limits(self, usage: _SessionUsage, remaining_ms: float) -> AccountLimits:
        def limit_window(limit: int | None, used: int) -> RateLimitWindow | None:
            if limit is None:
                return None
            return RateLimitWindow(limit, max(limit - used, 0), remaining_ms / 1000)

        return AccountLimits(
            limit_window(self.max_requests, usage.request_count),
            limit_window(self.max_tokens, sum(usage.token_counts)),
        )


def _estimate_prompt_tokens(context: FaultContext) -> int:
    """A quarter of the characters of a request's prompt; of its body, if it is for no turn."""
    conversation = context.get_conversation()
    return estimates_and_fakes.estimated_token_count(
        context.decoded_request.request.body.decode("utf-8", "replace")
        if conversation is None
        else conversation.prompt
    )


def _count_response_tokens(context: FaultContext, head: ResponseHead, body: bytes) -> int:
    """The output tokens that a response reports, else a quarter of its output characters."""
    dialect = context.decoded_request.dialect
    turns = decode_sent_response(dialect, context.decoded_request.request, head, body)
    for turn in turns:
        if turn.usage is not None and turn.usage.output is not None:
            is_included = dialect.token_counting.reasoning_is_output
            return turn.usage.output + (0 if is_included else turn.usage.reasoning or 0)
    return estimates_and_fakes.token_count_of_chars(count_output_chars(turns))


KIND = FaultKind(
    "quota",
    FaultEffect.REFUSED,
    "request or token quota exceeded",
    _quota,
    {
        "requests": FaultArgument(unit_parsers.parse_positive_count, "requests per window"),
        "tokens": FaultArgument(unit_parsers.parse_positive_count, "tokens per window"),
        "window": FaultArgument(unit_parsers.parse_duration_ms, "duration of the window", "60s"),
    },
    scope="rule",
    example="quota,requests=1,window=1s",
)
