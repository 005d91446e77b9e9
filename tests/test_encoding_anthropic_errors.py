"""Anthropic's errors and limits, and what its clients ask beside messages."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest

from anthropic_encoding import WHOLE
from anthropic_events import DIALECT, VERSION, asked
from dialect_manners import DELIVERY
from llm_proxy import dialects
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.encode_context import AccountLimits, EncodeContext, RateLimitWindow
from llm_proxy.exchange import Request, header_value
from llm_proxy.turns import Failure, Text, Turn

QUOTA: Final = AccountLimits(
    requests=RateLimitWindow(50, 49, 1.5), tokens=RateLimitWindow(40_000, 0, 60)
)


def body(response: DialectResponse) -> Any:
    return json.loads(b"".join(response.messages))


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (400, "invalid_request_error", "Invalid request"),
        (401, "authentication_error", "invalid x-api-key"),
        (402, "billing_error", "Billing error"),
        (403, "permission_error", "Permission denied"),
        (404, "not_found_error", "Not found"),
        (408, "timeout_error", "Request timed out"),
        (409, "conflict_error", "Conflict"),
        (413, "request_too_large", "Request exceeds the maximum size"),
        (422, "invalid_request_error", "Invalid request"),
        (429, "rate_limit_error", "Rate limited"),
        (500, "api_error", "Internal server error"),
        (502, "api_error", "Internal server error"),
        (503, "api_error", "Service unavailable"),
        (504, "timeout_error", "Request timed out"),
        (529, "overloaded_error", "Overloaded"),
    ],
)
def test_each_status_has_words_of_its_own(status: int, kind: str, message: str) -> None:
    refusal = DIALECT.error_response(status, Failure(""), DELIVERY)

    request_id = header_value(refusal.head.headers, "request-id")
    assert request_id
    assert request_id.startswith("req_")
    assert refusal.head.status == status
    assert body(refusal) == {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": request_id,
    }
    (turn,) = DIALECT.decode(refusal)
    assert turn.failure == Failure(message, kind)


def test_an_error_keeps_the_words_that_it_has() -> None:
    refusal = DIALECT.error_response(429, Failure("Slow down.", "own_error", "spent"), DELIVERY)

    assert body(refusal)["error"] == {
        "type": "own_error", "message": "Slow down.", "details": {"error_code": "spent"},
    }  # fmt: skip
    assert DIALECT.decode(refusal)[0].failure == Failure("Slow down.", "own_error", "spent")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("not_found_error", 404),
        ("overloaded_error", 529),
        ("timeout_error", 504),
        ("api_error", 500),
        ("unheard_of", 500),
    ],
)
def test_an_error_in_place_of_a_message_has_the_status_of_its_type(kind: str, status: int) -> None:
    about = (("request_id", "req_1"), ("container", "gone"))
    turn = Turn((Text("gone"),), failure=Failure("Oh", kind), metadata=about)
    response = DIALECT.encode(WHOLE, (turn,), DELIVERY)

    assert (response.head.status, body(response)["error"]["type"]) == (status, kind)
    assert (
        header_value(response.head.headers, "request-id") == body(response)["request_id"] == "req_1"
    )
    assert DIALECT.decode(response) == DIALECT.convert(WHOLE, (turn,), DELIVERY).turns


def test_when_to_ask_again_is_told_in_whole_seconds() -> None:
    refusal = DIALECT.error_response(429, Failure(""), DELIVERY, 2.1)

    assert header_value(refusal.head.headers, "retry-after") == "3"
    assert (
        header_value(DIALECT.error_response(429, Failure(""), DELIVERY).head.headers, "retry-after")
        is None
    )


def test_limits_are_told_with_the_moment_when_they_are_whole_again() -> None:
    response = DIALECT.encode(WHOLE, (Turn((Text("Hi"),)),), replace(DELIVERY, quota=QUOTA))

    limits = {name: it for name, it in response.head.headers if "ratelimit" in name}
    assert limits == {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:22Z",
        "anthropic-ratelimit-tokens-limit": "40000",
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2023-11-14T22:14:20Z",
    }


def aside(path: str, query: str = "", delivery: EncodeContext = DELIVERY) -> DialectResponse:
    """The answer to a GET."""
    request = Request("GET", path, query, VERSION, b"")
    assert dialects.find_dialect(request) is dialects.dialect_named("anthropic")
    answer = DIALECT.auxiliary_response(request, delivery)
    assert answer is not None
    assert DIALECT.decode(answer) == ()
    return answer


SMALL: Final = {
    "type": "model", "id": "small", "display_name": "small",
    "created_at": "2023-11-14T22:13:20Z", "lifecycle": "active",
}  # fmt: skip


def test_the_models_are_listed() -> None:
    assert body(aside("/v1/models")) == {
        "data": [SMALL, {**SMALL, "id": "large", "display_name": "large"}],
        "has_more": False, "first_id": "small", "last_id": "large",
    }  # fmt: skip
    assert body(aside("/v1/models", delivery=EncodeContext("s", 0))) == {
        "data": [], "has_more": False, "first_id": None, "last_id": None,
    }  # fmt: skip


MANY: Final = replace(DELIVERY, models=tuple(f"m{number}" for number in range(30)))


@pytest.mark.parametrize(
    ("query", "first", "last", "more"),
    [
        ("", "m0", "m19", True),
        ("limit=1000", "m0", "m29", False),
        ("limit=odd", "m0", "m19", True),
        ("limit=0", "m0", "m19", True),
        ("limit=99999", "m0", "m19", True),
        ("limit=3&after_id=m4", "m5", "m7", True),
        ("limit=3&after_id=m27", "m28", "m29", False),
        ("limit=3&before_id=m4", "m1", "m3", True),
        ("limit=3&before_id=m2", "m0", "m1", False),
        ("after_id=unheard_of", "m0", "m19", True),
        ("after_id=m29", None, None, False),
    ],
)
def test_the_list_has_pages(query: str, first: str | None, last: str | None, more: bool) -> None:
    page = body(aside("/v1/models", query, MANY))

    assert (page["first_id"], page["last_id"], page["has_more"]) == (first, last, more)
    assert [item["id"] for item in page["data"]][:: max(1, len(page["data"]) - 1)] == (
        [first, last] if first else []
    )


def test_a_model_is_there_or_not_found() -> None:
    assert body(aside("/v1/models/small")) == SMALL
    assert body(aside("/v1/models/any", delivery=EncodeContext("s", 1_700_000_000)))["id"] == "any"
    request = asked("/v1/models/other", "GET", VERSION)
    missing = DIALECT.auxiliary_response(request, DELIVERY)
    assert missing
    assert missing.head.status == 404
    assert body(missing)["error"] == {"type": "not_found_error", "message": "model: other"}


@pytest.mark.parametrize(
    ("path", "is_count"),
    [
        ("/v1/messages/count_tokens", True),
        ("/messages/count_tokens", True),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict", True),
        ("/v1/messages", False),
        ("/v1/complete", False),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict", False),
    ],
)
def test_tokens_are_counted_where_that_is_asked(path: str, is_count: bool) -> None:
    answer = DIALECT.auxiliary_response(asked(path, messages=[]), DELIVERY)

    assert (answer is not None) is is_count
    assert answer is None or body(answer) == {"input_tokens": 1}


@pytest.mark.parametrize(
    ("asks", "tokens"),
    [
        ({"messages": [{"role": "user", "content": "12345678"}]}, 2),
        ({"messages": [{"role": "user", "content": "123456789"}]}, 3),
        ({"messages": [{"content": [{"type": "text", "text": "1234"}, 5]}], "system": "1234"}, 2),
        ({"system": [{"type": "text", "text": "x" * 400}]}, 100),
        ({"messages": [{"content": [{"type": "image", "source": {"data": "x" * 400}}]}]}, 1),
        ({"messages": [{"content": [{"type": "tool_use", "name": "look", "input": {"a": 1}}]}]}, 3),
        ({"tools": [{"name": "f", "description": "123", "input_schema": {"type": "x"}}]}, 4),
        ({"messages": "odd", "model": "never counted", "tools": None}, 1),
    ],
)
def test_four_characters_that_the_model_reads_are_a_token(
    asks: dict[str, Any], tokens: int
) -> None:
    answer = DIALECT.auxiliary_response(asked("/v1/messages/count_tokens", **asks), DELIVERY)

    assert answer
    assert body(answer) == {"input_tokens": tokens}
