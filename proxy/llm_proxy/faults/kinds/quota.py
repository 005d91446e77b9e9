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
from llm_proxy.dialects.decoded_request import Asked
from llm_proxy.dialects.encode_context import Quota, Window
from llm_proxy.exchange import Head, Headers
from llm_proxy.faults import tokens
from llm_proxy.faults.error_responses import Refusal, refused
from llm_proxy.faults.fault_record import Effect
from llm_proxy.faults.kind import Argument, Bend, Instead, Kind, Met, Metered, Work, Working
from llm_proxy.faults.kinds import rate_limit
from llm_proxy.faults.location import Place


@dataclass(frozen=True, slots=True)
class Limits:
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

    def work(self, _place: Place | None, /) -> Work:
        """An account for each session."""
        return Metered(lambda: _Accounts(self))


@dataclass(slots=True)
class _Account:
    """What one session has used of its window."""

    begun: float
    requests: int = 0
    tokens: list[int] = field(default_factory=list)
    """Of each request and each answer; answers may be added in another thread."""


class _Accounts:
    """The accounts of all sessions."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._accounts: dict[str, _Account] = {}

    def admit(self, met: Met, session: str, now: float) -> Working | None:
        limits = self._limits
        account = self._accounts.get(session)
        if account is None or now >= account.begun + limits.window:
            account = self._accounts[session] = _Account(now)
        cost = 0 if limits.tokens is None else tokens.asked_for(met)
        if self._is_too_much(account, cost):
            left = account.begun + limits.window - now
            refusal = Refusal(rate_limit.STATUS, quota=self._left(account, now), until=left)
            return Instead(lambda met: refused(met, refusal))
        account.requests += 1
        account.tokens.append(cost)
        delivery = replace(met.asked.delivery, quota=self._left(account, now))
        told = met.asked.dialect.countdown(delivery)
        afterwards = None if limits.tokens is None else partial(_spend, account, met.asked)
        return Bend(lambda _: _Telling(told), quiet=True, afterwards=afterwards)

    def forget(self, session: str) -> None:
        self._accounts.pop(session, None)

    def _is_too_much(self, account: _Account, cost: int) -> bool:
        """Whether a request of that many tokens is beyond the quota."""
        limits = self._limits
        if limits.requests is not None and account.requests >= limits.requests:
            return True
        return limits.tokens is not None and sum(account.tokens) + max(cost, 1) > limits.tokens

    def _left(self, account: _Account, now: float) -> Quota:
        limits = self._limits
        reset = (account.begun + limits.window - now) / 1000

        def window(limit: int | None, used: int) -> Window | None:
            return None if limit is None else Window(limit, max(limit - used, 0), reset)

        return Quota(
            window(limits.requests, account.requests), window(limits.tokens, sum(account.tokens))
        )


def _spend(account: _Account, asked: Asked, head: Head, body: bytes) -> None:
    account.tokens.append(tokens.answered(asked, head, body))


class _Telling:
    """Puts the countdown into a head, in place of what stands there."""

    def __init__(self, told: Headers) -> None:
        self._told = told

    def feed(self, action: Action) -> Burst:
        if not isinstance(action, Begin):
            return (action,)
        head = action.head
        named = {name.lower() for name, _ in self._told}
        kept = tuple(it for it in head.headers if it[0].lower() not in named)
        return (Begin(replace(head, headers=(*kept, *self._told))),)

    def close(self) -> Burst:
        return ()


KIND = Kind(
    "quota", Effect.REFUSED, "requests or tokens a window, with the provider's countdown", Limits,
    {
        "requests": Argument(unit_parsers.count, "how many requests are allowed in a window"),
        "tokens": Argument(unit_parsers.count, "how many tokens are allowed in a window"),
        "window": Argument(unit_parsers.milliseconds, "how long a window is", "60s"),
    },
    scope="rule", example="quota,requests=1,window=1s",
)  # fmt: skip
