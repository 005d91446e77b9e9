"""Faults of limits: a provider that refuses, is overloaded, or counts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dialect_manners import DELIVERY, asking
from fault_injection import answer_of, asked, body, burst_of, call_of, struck
from llm_proxy import dialects
from llm_proxy.actions import Begin, Burst
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encode_context import AccountLimits, RateLimitWindow
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Headers, Request, header_value
from llm_proxy.faults.engine import FaultEngine
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.request_faults import RequestFaults
from llm_proxy.turns import Failure, Reasoning, Text, Turn, Usage

NAMES = sorted(dialects.chat_dialects())
LIMITS = AccountLimits(RateLimitWindow(60, 0, 1.0), RateLimitWindow(60_000, 0, 1.0))


def instead(request: Request, rule: str) -> DialectResponse:
    """What this request is answered with in place of the answer."""
    gone, injection = struck(request, burst_of(answer_of(request)), rule)
    assert injection.records[0].effect is FaultEffect.REFUSED
    (begin, *_) = gone
    assert isinstance(begin, Begin)
    return DialectResponse(begin.head, "whole", (body(gone),))


def without_ids(headers: Headers) -> Headers:
    """The headers that every refusal has alike."""
    ids = ("request-id", "x-request-id", "x-amzn-requestid", "x-debug-trace-id")
    return tuple(header for header in headers if header[0].lower() not in ids)


# rate-limit


@pytest.mark.parametrize("name", NAMES)
def test_a_request_too_many_is_refused_in_the_providers_own_way(name: str) -> None:
    refused = instead(asked(name), "rate-limit")
    dialect = dialects.dialect_named(name)
    own = dialect.error_response(429, Failure(""), replace(DELIVERY, created=0, quota=LIMITS), 1.0)
    assert refused.head.status == 429
    assert without_ids(refused.head.headers) == without_ids(own.head.headers)
    (told,), (expected,) = dialect.decode(refused), dialect.decode(own)
    assert told.failure == expected.failure


@pytest.mark.parametrize("name", NAMES)
def test_a_wait_is_told_as_it_was_written(name: str) -> None:
    refused = instead(asked(name), "rate-limit,retry-after=50ms,should-retry=no")
    headers = refused.head.headers
    told = [
        header_value(headers, item) for item in ("retry-after", "retry-after-ms", "x-should-retry")
    ]
    assert told == ["1", "50", "false"]


def test_nothing_says_whether_to_retry_unless_asked() -> None:
    for rule in ("rate-limit", "overloaded"):
        assert header_value(instead(asked(), rule).head.headers, "x-should-retry") is None


# overloaded


@pytest.mark.parametrize("name", NAMES)
def test_an_overloaded_provider_has_a_status_of_its_own(name: str) -> None:
    refused = instead(asked(name), "overloaded")
    assert refused.head.status == (529 if name == "anthropic" else 503)
    assert dialects.dialect_named(name).decode(refused)[0].failure is not None


def test_anthropic_says_that_it_is_overloaded() -> None:
    said = json.loads(b"".join(instead(asked("anthropic"), "overloaded").messages))
    assert said["error"] == {"type": "overloaded_error", "message": "Overloaded"}


# Countdowns


@pytest.mark.parametrize("name", NAMES)
def test_a_refusal_tells_the_countdown_that_any_answer_tells(name: str) -> None:
    dialect = dialects.dialect_named(name)
    delivery = replace(DELIVERY, quota=LIMITS)
    told = set(dialect.rate_limit_headers(delivery))
    assert told <= set(dialect.error_response(429, Failure(""), delivery).head.headers)
    assert dialect.rate_limit_headers(DELIVERY) == ()


def test_a_limit_that_there_is_not_is_not_told() -> None:
    delivery = replace(DELIVERY, quota=AccountLimits(tokens=RateLimitWindow(100, 40, 1.5)))
    told = dialects.dialect_named("openai-chat").rate_limit_headers(delivery)
    assert told == (
        ("x-ratelimit-limit-tokens", "100"),
        ("x-ratelimit-remaining-tokens", "40"),
        ("x-ratelimit-reset-tokens", "1.5s"),
    )


# quota


class Run:
    """Requests to a provider with a quota, at times of their own."""

    def __init__(self, rule: str) -> None:
        self.injector = FaultEngine([parse_rule(rule)])

    def ask(
        self, request: Request, at: float, session: str = "default", turn: Turn | None = None
    ) -> Begin:
        """The head of the answer; `at` is in ms."""
        injection = self.injector.faults_for(call_of(request, session), (), at)
        answer = answer_of(request) if turn is None else answer_of(request, turn)
        burst = injection.replacement_response() or burst_of(answer)
        gone = injection.rewrite_burst(burst)
        begin = next(item for item in gone if isinstance(item, Begin))
        injection.report_to_meters(begin.head, body(gone))
        self.last: RequestFaults = injection
        self.gone: Burst = gone
        return begin

    def status(self, at: float, session: str = "default", **about: Any) -> int:
        """The status of an answer in the dialect of OpenAI."""
        return self.ask(asked(), at, session, **about).head.status


def test_requests_are_counted_in_windows_that_begin_with_a_request() -> None:
    run = Run("quota,requests=2,window=10s")
    times = (5000, 6000, 14_999, 15_000, 29_000, 30_000, 38_999, 39_000)
    assert [run.status(at) for at in times] == [200, 200, 429, 200, 200, 200, 429, 200]


def test_each_session_has_a_quota_of_its_own_and_a_new_one_when_it_begins_again() -> None:
    run = Run("quota,requests=1")
    assert [run.status(0, item) for item in ("a", "a", "b", "b")] == [200, 429, 200, 429]
    run.injector.reset_session("a")
    assert [run.status(0, item) for item in ("a", "a", "b")] == [200, 429, 429]


def test_an_answer_within_the_quota_bears_the_countdown_and_is_no_injection() -> None:
    run = Run("quota,requests=3,tokens=500,window=10s")
    whole = burst_of(answer_of(asked()))
    run.ask(asked(), 0)
    begin = run.ask(asked(), 4000)
    told = {
        header[0]: header[1] for header in begin.head.headers if header[0].startswith("x-ratelimit")
    }
    assert told == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "6s",
        "x-ratelimit-limit-tokens": "500",
        "x-ratelimit-remaining-tokens": "488",  # the first answer told of 12
        "x-ratelimit-reset-tokens": "6s",
    }
    assert body(run.gone) == body(whole)
    assert run.last.records == ()
    assert run.injector.startup_rules[0].to_document() == {
        "rule": "quota,requests=3,tokens=500,window=10s", "seen": 2, "struck": 0,
    }  # fmt: skip


def test_a_countdown_takes_the_place_of_the_providers_real_one() -> None:
    run = Run("quota,requests=3")
    request = asked()
    real = answer_of(request)
    headers = (*real.head.headers, ("X-RateLimit-Remaining-Requests", "9999"))
    injection = run.injector.faults_for(call_of(request), (), 0)
    burst = burst_of(replace(real, head=replace(real.head, headers=headers)))
    begin = next(item for item in injection.rewrite_burst(burst) if isinstance(item, Begin))
    named = [
        header
        for header in begin.head.headers
        if header[0].lower() == "x-ratelimit-remaining-requests"
    ]
    assert named == [("x-ratelimit-remaining-requests", "2")]


def test_a_refusal_beyond_the_quota_says_when_the_window_ends() -> None:
    run = Run("quota,requests=1,window=10s")
    run.ask(asked(), 1000)
    begin = run.ask(asked(), 2500)
    headers = dict(begin.head.headers)
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("9", "8500")
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert headers["x-ratelimit-reset-requests"] == "8.5s"
    (injected,) = run.last.records
    assert (injected.fault, injected.effect) == ("quota", FaultEffect.REFUSED)
    assert run.injector.startup_rules[0].to_document()["struck"] == 1


@pytest.mark.parametrize("name", NAMES)
def test_every_dialect_refuses_what_is_beyond_a_quota(name: str) -> None:
    run = Run("quota,requests=1,window=10s")
    heads = [run.ask(asked(name), at).head for at in (0, 1000)]
    assert [head.status for head in heads] == [200, 429]
    assert dialects.dialect_named(name).rate_limit_headers(
        replace(DELIVERY, quota=LIMITS)
    ) == () or any("remaining" in name.lower() and value == "0" for name, value in heads[0].headers)


def test_tokens_are_those_that_answers_tell_and_a_quarter_of_what_is_asked() -> None:
    run = Run("quota,tokens=30,window=10s")
    request = asking(
        "/v1/chat/completions", model="m", stream=True, stream_options={"include_usage": True},
        messages=[{"role": "user", "content": "x" * 39}],
    )  # fmt: skip
    # 10 for the question, and 12 for the answer as it tells; then 10 are beyond the 30.
    assert run.ask(request, 0).head.status == 200
    assert run.ask(request, 0).head.status == 429
    assert run.status(0) == 200  # a request of no words fits in
    assert run.status(10_000) == 200


def test_tokens_of_an_answer_that_tells_none_are_a_quarter_of_its_words() -> None:
    run = Run("quota,tokens=30,window=10s")
    request = asking("/v1/chat/completions", model="m", stream=True, messages=[])
    turn = Turn((Reasoning("y" * 40), Text("x" * 41)))
    assert run.ask(request, 0, turn=turn).head.status == 200
    begin = run.ask(request, 0, turn=turn)
    assert (
        header_value(begin.head.headers, "x-ratelimit-remaining-tokens") == "9"
    )  # 10 and 11 are spent


def test_reasoning_costs_tokens_where_the_output_does_not_count_it() -> None:
    run = Run("quota,tokens=100")
    turn = Turn((Text("x"),), usage=Usage(input=1, output=10, reasoning=50))
    told = [run.ask(asked("gemini"), 0, turn=turn).head.status for _ in range(3)]
    assert told == [200, 200, 429]


def test_what_is_asked_beside_turns_costs_a_quarter_of_its_characters() -> None:
    run = Run("quota,tokens=30")
    request = asking("/v1/embeddings", model="m", input="x" * 120)
    injection = run.injector.faults_for(call_of(request), (), 0)
    assert injection.replacement_response() is not None


def test_quotas_go_with_other_faults() -> None:
    injector = FaultEngine(map(parse_rule, ("quota,requests=2", "status,code=500")))
    heads: list[Begin] = []
    for _ in range(3):
        injection = injector.faults_for(call_of(asked()), (), 0)
        gone = injection.rewrite_burst(injection.replacement_response() or ())
        heads += [item for item in gone if isinstance(item, Begin)]
    assert [head.head.status for head in heads] == [500, 500, 429]
    left = [header_value(head.head.headers, "x-ratelimit-remaining-requests") for head in heads]
    assert left == ["1", "0", "0"]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("quota", "quota needs requests or tokens"),
        ("quota,requests=0", "lets nothing in"),
        ("quota,tokens=5,window=0s", "lets nothing in"),
        ("quota,tokens=5,window=1s..2s", "is not a span of time"),
        ("quota,tokens=5,nth=2", "quota has occasions of its own: leave nth out"),
        ("quota,tokens=5,probability=0.2", "quota has occasions of its own"),
        ("quota,tokens=5,after=2", "quota has no place in the stream"),
        ("rate-limit,after=2", "rate-limit has no place in the stream"),
        ("overloaded,bytes=2", "overloaded has no place in the stream"),
    ],
)
def test_what_has_no_meaning_is_refused(rule: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_rule(rule)


def test_a_quota_may_be_for_some() -> None:
    run = Run("quota,requests=1,model=other*")
    assert [run.status(0) for _ in range(3)] == [200, 200, 200]
