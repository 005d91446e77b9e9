"""Anthropic errors, rate limits and auxiliary endpoints (models, token counts)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from anthropic_encoding import WHOLE_REQUEST
from anthropic_events import DIALECT, VERSION_HEADERS, anthropic_request
from case_tables import each_row
from dialect_manners import ENCODE_CONTEXT
from llm_proxy import dialects
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.encoding import AccountLimits, EncodeContext, RateLimitWindow
from llm_proxy.exchange import Request, header_value
from llm_proxy.turns import Failure, Text, Turn

QUOTA: Final = AccountLimits(
    request_window=RateLimitWindow(50, 49, 1.5), token_window=RateLimitWindow(40_000, 0, 60)
)


def json_body(response: DialectResponse) -> Any:
    return json.loads(b"".join(response.framed_messages))


@each_row(
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
def test_each_status_has_its_own_default_message(status: int, kind: str, message: str) -> None:
    response = DIALECT.error_response(status, Failure(""), ENCODE_CONTEXT)

    request_id = header_value(response.head.headers, "request-id")
    assert request_id
    assert request_id.startswith("req_")
    assert response.head.status == status
    assert json_body(response) == {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": request_id,
    }
    (turn,) = DIALECT.decode_response(response)
    assert turn.failure == Failure(message, kind)


def test_an_error_keeps_its_own_message() -> None:
    response = DIALECT.error_response(
        429, Failure("Slow down.", "own_error", "spent"), ENCODE_CONTEXT
    )

    assert json_body(response)["error"] == {
        "type": "own_error", "message": "Slow down.", "details": {"error_code": "spent"},
    }  # fmt: skip
    assert DIALECT.decode_response(response)[0].failure == Failure(
        "Slow down.", "own_error", "spent"
    )


@each_row(
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
    metadata = (("request_id", "req_1"), ("container", "gone"))
    turn = Turn((Text("gone"),), failure=Failure("Oh", kind), metadata=metadata)
    response = DIALECT.encode_response(WHOLE_REQUEST, (turn,), ENCODE_CONTEXT)

    assert (response.head.status, json_body(response)["error"]["type"]) == (status, kind)
    assert (
        header_value(response.head.headers, "request-id")
        == json_body(response)["request_id"]
        == "req_1"
    )
    assert (
        DIALECT.decode_response(response)
        == DIALECT.representable_turns(WHOLE_REQUEST, (turn,), ENCODE_CONTEXT).turns
    )


def test_retry_after_is_in_whole_seconds() -> None:
    response = DIALECT.error_response(429, Failure(""), ENCODE_CONTEXT, 2.1)

    assert header_value(response.head.headers, "retry-after") == "3"
    assert (
        header_value(
            DIALECT.error_response(429, Failure(""), ENCODE_CONTEXT).head.headers, "retry-after"
        )
        is None
    )


def test_rate_limits_are_sent_with_their_reset_times() -> None:
    response = DIALECT.encode_response(
        WHOLE_REQUEST, (Turn((Text("Hi"),)),), replace(ENCODE_CONTEXT, account_limits=QUOTA)
    )

    limits = {name: value for name, value in response.head.headers if "ratelimit" in name}
    assert limits == {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:22Z",
        "anthropic-ratelimit-tokens-limit": "40000",
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2023-11-14T22:14:20Z",
    }


def auxiliary_response(
    path: str, query: str = "", context: EncodeContext = ENCODE_CONTEXT
) -> DialectResponse:
    """The response to a GET."""
    request = Request("GET", path, query, VERSION_HEADERS, b"")
    assert dialects.dialect_of_request(request) is dialects.dialect_named("anthropic")
    response = DIALECT.auxiliary_response(request, context)
    assert response is not None
    assert DIALECT.decode_response(response) == ()
    return response


SMALL_MODEL: Final = {
    "type": "model", "id": "small", "display_name": "small",
    "created_at": "2023-11-14T22:13:20Z", "lifecycle": "active",
}  # fmt: skip


def test_the_models_are_listed() -> None:
    assert json_body(auxiliary_response("/v1/models")) == {
        "data": [SMALL_MODEL, {**SMALL_MODEL, "id": "large", "display_name": "large"}],
        "has_more": False, "first_id": "small", "last_id": "large",
    }  # fmt: skip
    assert json_body(auxiliary_response("/v1/models", context=EncodeContext("s", 0))) == {
        "data": [], "has_more": False, "first_id": None, "last_id": None,
    }  # fmt: skip


MANY_MODELS_CONTEXT: Final = replace(
    ENCODE_CONTEXT, models=tuple(f"m{number}" for number in range(30))
)


@each_row(
    ("query", "first", "last", "has_more"),
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
def test_the_model_list_is_paginated(
    query: str, first: str | None, last: str | None, has_more: bool
) -> None:
    page = json_body(auxiliary_response("/v1/models", query, MANY_MODELS_CONTEXT))

    assert (page["first_id"], page["last_id"], page["has_more"]) == (first, last, has_more)
    assert [item["id"] for item in page["data"]][:: max(1, len(page["data"]) - 1)] == (
        [first, last] if first else []
    )


def test_a_model_is_there_or_not_found() -> None:
    assert json_body(auxiliary_response("/v1/models/small")) == SMALL_MODEL
    assert (
        json_body(auxiliary_response("/v1/models/any", context=EncodeContext("s", 1_700_000_000)))[
            "id"
        ]
        == "any"
    )
    request = anthropic_request("/v1/models/other", "GET", VERSION_HEADERS)
    missing = DIALECT.auxiliary_response(request, ENCODE_CONTEXT)
    assert missing
    assert missing.head.status == 404
    assert json_body(missing)["error"] == {"type": "not_found_error", "message": "model: other"}


@each_row(
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
def test_only_count_tokens_paths_count_tokens(path: str, is_count: bool) -> None:
    response = DIALECT.auxiliary_response(anthropic_request(path, messages=[]), ENCODE_CONTEXT)

    assert (response is not None) is is_count
    assert response is None or json_body(response) == {"input_tokens": 1}


@each_row(
    ("request_body", "tokens"),
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
    request_body: dict[str, Any], tokens: int
) -> None:
    response = DIALECT.auxiliary_response(
        anthropic_request("/v1/messages/count_tokens", **request_body), ENCODE_CONTEXT
    )

    assert response
    assert json_body(response) == {"input_tokens": tokens}
