"""How the bytes of a response become events: calls whose order and ids differ, and failures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, Final

import pytest

from case_tables import each_row
from llm_chat import (
    Conversation,
    Message,
    ProviderEvent,
    ResponseEnd,
    Text,
    ToolCall,
    ToolCallStart,
)
from llm_chat.streamed_response import InvalidResponse, StreamedResponse
from llm_proxy.dialects import dialect_named, request_dialects
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.exchange import Headers, ResponseHead
from llm_proxy.turns import FinishReason, Turn

Event = dict[str, Any]


def function_call(call_id: str, name: str) -> Event:
    """An item of the Responses API that calls a tool without arguments."""
    fields = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id}
    return {**fields, "name": name, "arguments": "{}"}


ALPHA: Final = function_call("a", "alpha")
BETA: Final = function_call("b", "beta")


def response_of(dialect: str, status: int = 200, headers: Headers = ()) -> StreamedResponse:
    """A response that has begun."""
    request = dialect_named(dialect).sample_request("m", stream=True)
    response = StreamedResponse(dialect_named(dialect), request)
    content_type = "text/event-stream" if status == 200 else "application/json"
    head = ResponseHead(status, "", (("content-type", content_type), *headers), "chunked")
    response.begin(head)
    return response


def events_of(dialect: str, events: Sequence[Event], last: bytes = b"") -> list[ProviderEvent]:
    """The events of a stream."""
    response = response_of(dialect)
    body = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events) + last
    return [*response.feed(body), *response.end(is_aborted=False, ends_without_terminator=False)]


def calls_of(events: Sequence[ProviderEvent]) -> tuple[list[ToolCall], list[ToolCall]]:
    """The calls in the events, and those in the response as it is sent back."""
    end = events[-1]
    assert isinstance(end, ResponseEnd)
    return (
        [event.call for event in events if isinstance(event, ToolCallStart)],
        [part for part in end.parts if isinstance(part, ToolCall)],
    )


def items_done(*items: Event) -> list[Event]:
    return [{"type": "response.output_item.done", "item": item} for item in items]


def completed(*items: Event) -> Event:
    response = {"id": "r", "object": "response", "status": "completed", "output": [*items]}
    return {"type": "response.completed", "response": response}


def blocks(*steps: str) -> list[Event]:
    """Events of tool blocks: `+a` starts the block of the tool a, `-a` stops it."""
    indexes = {"a": 0, "b": 1}
    events: list[Event] = [{"type": "message_start", "message": {"id": "m", "content": []}}]
    for step in steps:
        event: Event = {"type": f"content_block_{'start' if step[0] == '+' else 'stop'}"}
        event["index"] = indexes[step[1]]
        if step[0] == "+":
            name = {"a": "alpha", "b": "beta"}[step[1]]
            block = {"type": "tool_use", "id": step[1], "name": name, "input": {}}
            event["content_block"] = block
        events.append(event)
    stop = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    return [*events, stop, {"type": "message_stop"}]


CALLS: Final[dict[str, tuple[str, list[Event]]]] = {
    "items done in another order": (
        "openai-responses",
        [*items_done(BETA, ALPHA), completed(ALPHA, BETA)],
    ),
    "an item done twice": (
        "openai-responses",
        [*items_done(ALPHA, ALPHA, BETA), completed(ALPHA, BETA)],
    ),
    "the whole response has fewer items": (
        "openai-responses",
        [*items_done(ALPHA, BETA), completed(BETA)],
    ),
    "the whole response has more items": (
        "openai-responses",
        [*items_done(ALPHA), completed(ALPHA, BETA)],
    ),
    "blocks stopped in another order": ("anthropic", blocks("+a", "+b", "-b", "-a")),
    "a block that never stops": ("anthropic", blocks("+a", "+b", "-b")),
}


@each_row("dialect, stream", CALLS.values(), ids=CALLS)
def test_each_call_is_started_once_and_sent_back_with_its_own_id(
    dialect: str, stream: list[Event]
) -> None:
    started, sent_back = calls_of(events_of(dialect, stream))

    assert sorted((call.id, call.name) for call in started) == [("a", "alpha"), ("b", "beta")]
    assert sorted((call.id, call.name) for call in sent_back) == [("a", "alpha"), ("b", "beta")]


def test_different_calls_with_one_id_get_ids_of_their_own() -> None:
    beta = {**BETA, "call_id": "a"}
    started, sent_back = calls_of(
        events_of("openai-responses", [*items_done(ALPHA, beta), completed(ALPHA, beta)])
    )

    assert [call.name for call in started] == ["alpha", "beta"]
    assert [(call.id, call.name) for call in sent_back] == [
        (call.id, call.name) for call in started
    ]
    assert len({call.id for call in started}) == 2


def test_a_call_at_the_token_limit_does_not_hide_the_reason() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "alpha", "arguments": ""}}
    chunks: list[Event] = [
        {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]},
    ]
    *_, end = events_of("openai-chat", chunks, b"data: [DONE]\n\n")

    assert isinstance(end, ResponseEnd)
    assert end.reason == "length"


@each_row(
    "value, wait_s",
    [
        ("2", 2.0),
        (format_datetime(datetime.now(UTC) + timedelta(hours=-1), usegmt=True), 0.0),
        (f"{datetime.now(UTC) + timedelta(hours=-1):%a %b %d %H:%M:%S %Y}", 0.0),
        ("never", None),
        ("", None),
    ],
)
def test_the_server_names_the_wait_by_a_number_or_a_date(value: str, wait_s: float | None) -> None:
    attempt = response_of("openai-chat", 429, (("retry-after", value),)).failed_attempt()

    assert attempt.is_temporary
    assert attempt.retry_after_s == wait_s


@pytest.mark.parametrize("value", ["61", "9" * 20, "9" * 1000])
def test_a_request_is_not_sent_again_after_a_long_wait(value: str) -> None:
    attempt = response_of("openai-chat", 429, (("retry-after", value),)).failed_attempt()

    assert not attempt.is_temporary


@pytest.mark.parametrize("status", [400, 500])
def test_a_refusal_of_tools_is_not_retried(status: int) -> None:
    response = response_of("openai-chat", status)
    assert not [*response.feed(b'{"error": {"message": "tools param requires --jinja flag"}}')]

    attempt = response.failed_attempt()

    assert attempt.error.refuses_tools
    assert not attempt.is_temporary


def test_a_response_has_at_most_a_thousand_calls() -> None:
    calls = [function_call(str(number), "alpha") for number in range(1001)]

    with pytest.raises(InvalidResponse, match="more than 1000 tool calls"):
        events_of("openai-responses", [*items_done(*calls), completed()])


@each_row("dialect", [name for name in request_dialects() if name != "gemini-interactions"])
@pytest.mark.parametrize(("finish", "is_blocked"), [("content_filter", True), ("stop", False)])
def test_a_response_that_a_filter_stops_is_blocked(
    dialect: str, finish: str, is_blocked: bool
) -> None:
    """Ollama has no such reason, and interactions none at all."""
    format_ = dialect_named(dialect)
    request = format_.encode_request(Conversation((Message("user", (Text("Hi"),)),), model="m"))
    turn = Turn((Text("First, take"),), FinishReason(finish))
    encoded = format_.encode_response(request, [turn], EncodeContext("seed", 0))
    response = StreamedResponse(format_, request)
    response.begin(encoded.head)
    events = [*response.feed(encoded.body)]
    events += response.end(is_aborted=False, ends_without_terminator=False)

    end = events[-1]
    assert isinstance(end, ResponseEnd)
    assert end.is_blocked is (is_blocked and dialect != "ollama")
