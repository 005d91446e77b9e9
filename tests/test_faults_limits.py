"""Faults of limits: rate-limit, overloaded, quota."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT, dialect_record, json_request
from fault_injection import (
    apply_faults,
    encoded_response,
    response_burst,
    routed_request,
    sent_body,
    turn_request,
)
from llm_proxy import dialects
from llm_proxy.actions import Begin, Burst
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encoding import AccountLimits, RateLimitWindow
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Headers, Request, header_value
from llm_proxy.faults.engine import FaultEngine, RequestFaults
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.turns import Failure, Reasoning, Text, Turn, Usage

NAMES = sorted(dialects.chat_dialects())
LIMITS = AccountLimits(RateLimitWindow(60, 0, 1.0), RateLimitWindow(60_000, 0, 1.0))


def refusal_response(request: Request, rule: str) -> DialectResponse:
    """The error response that replaces the response to this request."""
    actions, injection = apply_faults(request, response_burst(encoded_response(request)), rule)
    assert injection.records[0].effect is FaultEffect.REFUSED
    (begin, *_) = actions
    assert isinstance(begin, Begin)
    return DialectResponse(begin.head, "whole", (sent_body(actions),))


def without_ids(headers: Headers) -> Headers:
    """The headers without those that hold a request id."""
    ids = ("request-id", "x-request-id", "x-amzn-requestid", "x-debug-trace-id")
    return tuple(header for header in headers if header[0].lower() not in ids)


# rate-limit


@each_row("name", NAMES)
def test_rate_limit_is_the_providers_own_error_response(name: str) -> None:
    response = refusal_response(turn_request(name), "rate-limit")
    dialect = dialects.dialect_named(name)
    expected_response = dialect.error_response(
        429, Failure(""), replace(ENCODE_CONTEXT, created_unix_s=0, account_limits=LIMITS), 1.0
    )
    assert response.head.status == 429
    assert without_ids(response.head.headers) == without_ids(expected_response.head.headers)
    (decoded,), (expected,) = (
        dialect.decode_response(response),
        dialect.decode_response(expected_response),
    )
    assert decoded.failure == expected.failure


@each_row("name", NAMES)
def test_retry_headers_are_those_of_the_rule(name: str) -> None:
    response = refusal_response(turn_request(name), "rate-limit,retry-after=50ms,should-retry=no")
    headers = response.head.headers
    retry_values = [
        header_value(headers, item) for item in ("retry-after", "retry-after-ms", "x-should-retry")
    ]
    assert retry_values == ["1", "50", "false"]


def test_there_is_no_should_retry_header_by_default() -> None:
    for rule in ("rate-limit", "overloaded"):
        assert (
            header_value(refusal_response(turn_request(), rule).head.headers, "x-should-retry")
            is None
        )


# overloaded


@each_row("name", NAMES)
def test_an_overloaded_provider_has_a_status_of_its_own(name: str) -> None:
    response = refusal_response(turn_request(name), "overloaded")
    assert response.head.status == dialect_record(name).overloaded_status
    assert dialects.dialect_named(name).decode_response(response)[0].failure is not None


def test_anthropics_overloaded_error() -> None:
    document = json.loads(
        b"".join(refusal_response(turn_request("anthropic"), "overloaded").framed_messages)
    )
    assert document["error"] == {"type": "overloaded_error", "message": "Overloaded"}


# Rate-limit headers


@each_row("name", NAMES)
def test_a_refusal_has_the_rate_limit_headers_of_any_response(name: str) -> None:
    dialect = dialects.dialect_named(name)
    context = replace(ENCODE_CONTEXT, account_limits=LIMITS)
    limit_headers = set(dialect.rate_limit_headers(context))
    assert limit_headers <= set(dialect.error_response(429, Failure(""), context).head.headers)
    assert dialect.rate_limit_headers(ENCODE_CONTEXT) == ()


def test_an_absent_limit_has_no_header() -> None:
    context = replace(
        ENCODE_CONTEXT, account_limits=AccountLimits(token_window=RateLimitWindow(100, 40, 1.5))
    )
    limit_headers = dialects.dialect_named("openai-chat").rate_limit_headers(context)
    assert limit_headers == (
        ("x-ratelimit-limit-tokens", "100"),
        ("x-ratelimit-remaining-tokens", "40"),
        ("x-ratelimit-reset-tokens", "1.5s"),
    )


# quota


class QuotaRun:
    """Requests at given times under a quota rule."""

    def __init__(self, rule: str) -> None:
        self.engine = FaultEngine([parse_rule(rule)])

    def ask(
        self, request: Request, at_ms: float, session: str = "default", turn: Turn | None = None
    ) -> Begin:
        """The head of the response; the time is in ms."""
        injection = self.engine.select_faults(routed_request(request, session), (), at_ms)
        response = encoded_response(request) if turn is None else encoded_response(request, turn)
        burst = injection.replacement_response() or response_burst(response)
        sent = injection.rewrite_response(burst)
        begin = next(item for item in sent if isinstance(item, Begin))
        for report_sent_response in injection.response_sent_callbacks:
            report_sent_response(begin.head, sent_body(sent))
        self.last_faults: RequestFaults = injection
        self.sent_burst: Burst = sent
        return begin

    def status(self, at_ms: float, session: str = "default", **options: Any) -> int:
        """The status of an OpenAI chat response."""
        return self.ask(turn_request(), at_ms, session, **options).head.status


def test_requests_are_counted_in_windows_that_begin_with_a_request() -> None:
    run = QuotaRun("quota,requests=2,window=10s")
    times = (5000, 6000, 14_999, 15_000, 29_000, 30_000, 38_999, 39_000)
    assert [run.status(at) for at in times] == [200, 200, 429, 200, 200, 200, 429, 200]


def test_each_session_has_a_quota_of_its_own_and_a_new_one_when_it_begins_again() -> None:
    run = QuotaRun("quota,requests=1")
    assert [run.status(0, item) for item in ("a", "a", "b", "b")] == [200, 429, 200, 429]
    run.engine.reset_session("a")
    assert [run.status(0, item) for item in ("a", "a", "b")] == [200, 429, 429]


def test_a_response_within_the_quota_has_rate_limit_headers_and_no_fault_record() -> None:
    run = QuotaRun("quota,requests=3,tokens=500,window=10s")
    whole = response_burst(encoded_response(turn_request()))
    run.ask(turn_request(), 0)
    begin = run.ask(turn_request(), 4000)
    limit_headers = {
        header[0]: header[1] for header in begin.head.headers if header[0].startswith("x-ratelimit")
    }
    assert limit_headers == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "6s",
        "x-ratelimit-limit-tokens": "500",
        "x-ratelimit-remaining-tokens": "488",  # the first response used 12
        "x-ratelimit-reset-tokens": "6s",
    }
    assert sent_body(run.sent_burst) == sent_body(whole)
    assert run.last_faults.records == ()
    assert run.engine.startup_rules[0].to_json_fields() == {
        "rule": "quota,requests=3,tokens=500,window=10s", "matched": 2, "injected": 0,
    }  # fmt: skip


def test_rate_limit_headers_replace_those_of_the_provider() -> None:
    run = QuotaRun("quota,requests=3")
    request = turn_request()
    response = encoded_response(request)
    headers = (*response.head.headers, ("X-RateLimit-Remaining-Requests", "9999"))
    injection = run.engine.select_faults(routed_request(request), (), 0)
    burst = response_burst(replace(response, head=replace(response.head, headers=headers)))
    begin = next(item for item in injection.rewrite_response(burst) if isinstance(item, Begin))
    remaining_headers = [
        header
        for header in begin.head.headers
        if header[0].lower() == "x-ratelimit-remaining-requests"
    ]
    assert remaining_headers == [("x-ratelimit-remaining-requests", "2")]


def test_a_refusal_beyond_the_quota_has_the_end_of_the_window() -> None:
    run = QuotaRun("quota,requests=1,window=10s")
    run.ask(turn_request(), 1000)
    begin = run.ask(turn_request(), 2500)
    headers = dict(begin.head.headers)
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("9", "8500")
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert headers["x-ratelimit-reset-requests"] == "8.5s"
    (record,) = run.last_faults.records
    assert (record.fault, record.effect) == ("quota", FaultEffect.REFUSED)
    assert run.engine.startup_rules[0].to_json_fields()["injected"] == 1


@each_row("name", NAMES)
def test_every_dialect_refuses_what_is_beyond_a_quota(name: str) -> None:
    run = QuotaRun("quota,requests=1,window=10s")
    heads = [run.ask(turn_request(name), at).head for at in (0, 1000)]
    assert [head.status for head in heads] == [200, 429]
    assert dialects.dialect_named(name).rate_limit_headers(
        replace(ENCODE_CONTEXT, account_limits=LIMITS)
    ) == () or any("remaining" in name.lower() and value == "0" for name, value in heads[0].headers)


def test_tokens_are_the_responses_usage_and_a_quarter_of_the_request_characters() -> None:
    run = QuotaRun("quota,tokens=30,window=10s")
    request = json_request(
        "/v1/chat/completions", model="m", stream=True, stream_options={"include_usage": True},
        messages=[{"role": "user", "content": "x" * 39}],
    )  # fmt: skip
    # 10 for the request and 12 (its usage) for the response; 10 more exceed the 30.
    assert run.ask(request, 0).head.status == 200
    assert run.ask(request, 0).head.status == 429
    assert run.status(0) == 200  # a request without text fits in
    assert run.status(10_000) == 200


def test_tokens_of_a_response_without_usage_are_a_quarter_of_its_characters() -> None:
    run = QuotaRun("quota,tokens=30,window=10s")
    request = json_request("/v1/chat/completions", model="m", stream=True, messages=[])
    turn = Turn((Reasoning("y" * 40), Text("x" * 41)))
    assert run.ask(request, 0, turn=turn).head.status == 200
    begin = run.ask(request, 0, turn=turn)
    assert (
        header_value(begin.head.headers, "x-ratelimit-remaining-tokens") == "9"
    )  # 10 and 11 are used


def test_reasoning_costs_tokens_where_the_output_does_not_count_it() -> None:
    run = QuotaRun("quota,tokens=100")
    turn = Turn((Text("x"),), usage=Usage(input=1, output=10, reasoning=50))
    statuses = [run.ask(turn_request("gemini"), 0, turn=turn).head.status for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_an_auxiliary_request_costs_a_quarter_of_its_characters() -> None:
    run = QuotaRun("quota,tokens=30")
    request = json_request("/v1/embeddings", model="m", input="x" * 120)
    injection = run.engine.select_faults(routed_request(request), (), 0)
    assert injection.replacement_response() is not None


def test_quotas_combine_with_other_faults() -> None:
    engine = FaultEngine(map(parse_rule, ("quota,requests=2", "status,code=500")))
    heads: list[Begin] = []
    for _ in range(3):
        injection = engine.select_faults(routed_request(turn_request()), (), 0)
        actions = injection.rewrite_response(injection.replacement_response() or ())
        heads += [item for item in actions if isinstance(item, Begin)]
    assert [head.head.status for head in heads] == [500, 500, 429]
    remaining = [
        header_value(head.head.headers, "x-ratelimit-remaining-requests") for head in heads
    ]
    assert remaining == ["1", "0", "0"]


@each_row(
    ("rule", "error"),
    [
        ("quota", "quota requires requests= or tokens="),
        ("quota,requests=0", "requests=0 is not a positive integer"),
        ("quota,tokens=5,window=0s", "window= must be longer than 0s"),
        ("quota,tokens=5,window=1s..2s", "is not a duration"),
        ("quota,tokens=5,nth=2", "quota does not support nth=; remove it"),
        ("quota,tokens=5,probability=0.2", "quota does not support"),
        ("quota,tokens=5,after=2", "quota does not support a location"),
        ("rate-limit,after=2", "rate-limit does not support a location"),
        ("overloaded,bytes=2", "overloaded does not support a location"),
    ],
)
def test_a_meaningless_rule_is_refused(rule: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        parse_rule(rule)


def test_a_quota_can_have_a_selector() -> None:
    run = QuotaRun("quota,requests=1,model=other*")
    assert [run.status(0) for _ in range(3)] == [200, 200, 200]
