"""OpenAI chat completions: finish reasons, successive choices, errors and limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from case_tables import each_row
from dialect_manners import json_request
from llm_proxy.dialects import DIALECTS
from llm_proxy.dialects.encoding import AccountLimits, EncodeContext, RateLimitWindow
from llm_proxy.dialects.openai.chat import OpenAIChat
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import header_value
from llm_proxy.turns import Failure, FinishReason, Media, Refusal, Text, ToolCall, Turn, Usage

CHAT = OpenAIChat()
USAGE = Usage(9, 2)
CALLS = (ToolCall("call_a", "f", '{"a":1}'), ToolCall("call_b", "g", "{}"))


def parse_event(message: bytes) -> Any:
    text = message.decode().strip().removeprefix("data: ")
    return text if text == "[DONE]" else json.loads(text)


def deltas(events: list[Any]) -> list[tuple[Any, Any]]:
    """The delta and the finish reason of each chunk that has a choice."""
    chunks = [event for event in events if isinstance(event, dict) and event.get("choices")]
    return [
        (chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]) for chunk in chunks
    ]


@each_row(
    ("turn", "finish_reason"),
    [
        (Turn((Text("a"),)), "stop"),
        (Turn((Text("a"),), FinishReason.STOP_SEQUENCE), "stop"),
        (Turn((Text("a"),), FinishReason.CONTEXT_FULL), "length"),
        (Turn((Refusal("No."),), FinishReason.REFUSAL), "stop"),
        (Turn((), FinishReason.REFUSAL), "content_filter"),
        (Turn(CALLS, FinishReason.TOOL_CALLS), "tool_calls"),
        (Turn((Text("a"),), FinishReason.PAUSED), "stop"),
    ],
)
def test_finish_values_without_a_finish_reason_of_their_own_become_others(
    turn: Turn, finish_reason: str
) -> None:
    request = json_request("/v1/chat/completions", model="m", stream=True)
    *chunks, _ = CHAT.encode_response(request, [turn], EncodeContext("s", 0)).framed_messages

    assert deltas([*map(parse_event, chunks)])[-1] == ({}, finish_reason)


def test_choices_can_come_one_after_the_other_and_finish_once_as_the_first() -> None:
    request_fields: Any = {"stream": True, "stream_options": {"include_usage": True}}
    request = json_request("/v1/chat/completions", model="m", **request_fields)
    turns = [
        Turn((Text("a b"),), FinishReason.LENGTH, usage=USAGE),
        Turn(CALLS[:1], FinishReason.STOP),
    ]

    response = CHAT.encode_response(
        request, turns, EncodeContext("s", 0, choices_are_successive=True)
    )
    *chunks, usage, done = map(parse_event, response.framed_messages)

    assert [chunk["choices"][0]["index"] for chunk in chunks] == [0, 0, 0, 1, 1, 1, 0]
    assert [finish for _, finish in deltas(chunks)] == [None] * 6 + ["length"]
    assert deltas(chunks)[-1] == ({}, "length")
    assert (usage["choices"], usage["usage"]["total_tokens"], done) == ([], 11, "[DONE]")
    assert CHAT.decode_response(response)[1].finish is None


def test_the_finish_of_a_later_choice_is_a_loss_if_turns_are_successive() -> None:
    request = json_request("/v1/chat/completions", model="m", stream=True)
    turns = [
        Turn((Text("a"),)),
        Turn((Text("b"),), FinishReason.LENGTH, metadata=(("stop_reason", "x"),)),
        Turn((Text("c"),), FinishReason.STOP),  # as the first one
        Turn((Text("d"),)),
    ]

    assert CHAT.representable_turns(request, turns, EncodeContext("s", 0)).losses == ()
    losses = CHAT.representable_turns(
        request, turns, EncodeContext("s", 0, choices_are_successive=True)
    ).losses
    assert losses == ("finish reason length of a choice after the first", "metadata stop_reason")


@each_row(
    ("image", "converted"),
    [
        (
            Media("image/png", base64="aGk=", url="https://a.example"),
            Media("image/png", base64="aGk="),
        ),
        (
            Media("image/png", url="https://a.example"),
            Media("image/*", url="https://a.example"),
        ),
    ],
)
def test_an_image_is_inline_or_else_by_its_url(image: Media, converted: Media) -> None:
    request = json_request("/v1/chat/completions", model="m")

    [turn] = CHAT.representable_turns(request, [Turn((image,))], EncodeContext("s", 0)).turns
    assert turn.parts == (converted,)


def test_an_image_without_content_is_refused() -> None:
    request = json_request("/v1/chat/completions", model="m")

    with pytest.raises(NotRepresentable, match="media"):
        CHAT.representable_turns(request, [Turn((Media("image/png"),))], EncodeContext("s", 0))


@each_row(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "invalid_request_error", "invalid_api_key"),
        (403, "invalid_request_error", "unsupported_country_region_territory"),
        (404, "invalid_request_error", "model_not_found"),
        (429, "requests", "rate_limit_exceeded"),
        (418, "invalid_request_error", None),
        (500, "server_error", None),
        (503, "service_unavailable_error", None),
    ],
)
def test_each_status_has_its_own_default_error(status: int, kind: str, code: str | None) -> None:
    response = CHAT.error_response(status, Failure(""), EncodeContext("s", 0))
    error = json.loads(response.framed_messages[0])["error"]

    assert (response.head.status, error["type"], error["code"]) == (status, kind, code)
    assert len(error["message"].split()) > 4


@each_row(
    ("failure", "status"),
    [
        (Failure("a", code="invalid_api_key"), 401),
        (Failure("a", "invalid_request_error", "model_not_found"), 404),
        (Failure("a", "insufficient_quota"), 429),
        (Failure("a", code="429"), 429),
        (Failure("a", "tokens"), 429),
        (Failure("a", "service_unavailable_error"), 503),
        (Failure("a", "overloaded_error"), 503),
        (Failure("a"), 500),
    ],
)
def test_an_error_in_place_of_an_answer_has_its_status(failure: Failure, status: int) -> None:
    request = json_request("/v1/chat/completions", model="m")

    assert (
        CHAT.encode_response(
            request, [Turn((), failure=failure)], EncodeContext("s", 0)
        ).head.status
        == status
    )


def test_limits_are_counted_down_in_headers_and_a_retry_has_its_time() -> None:
    quota = AccountLimits(RateLimitWindow(500, 499, 0.12), RateLimitWindow(30_000, 29_000, 366.5))
    response = CHAT.error_response(
        429, Failure("Slow"), EncodeContext("s", 0, account_limits=quota), 1.5
    )

    headers = {
        name: header_value(response.head.headers, name)
        for name in (
            "x-ratelimit-limit-requests", "x-ratelimit-remaining-tokens",
            "x-ratelimit-reset-requests", "x-ratelimit-reset-tokens",
            "retry-after", "retry-after-ms",
        )
    }  # fmt: skip
    assert list(headers.values()) == ["500", "29000", "120ms", "6m6.5s", "2", "1500"]
    assert (header_value(response.head.headers, "x-request-id") or "").startswith("req_")


def test_every_dialect_has_a_name_of_its_own() -> None:
    names = [dialect.name for dialect in DIALECTS]
    assert len(set(names)) == len(names)
