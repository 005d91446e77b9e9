"""OpenAI chat completions and compatible providers: streams encoded event by event."""

from __future__ import annotations

import json
from typing import Any

from case_tables import each_row
from dialect_manners import json_request
from llm_proxy.dialects import DIALECTS
from llm_proxy.dialects.encoding import AccountLimits, EncodeContext, RateLimitWindow
from llm_proxy.dialects.openai.chat import OpenAIChat
from llm_proxy.exchange import header_value
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)

CHAT = OpenAIChat()
USAGE = Usage(9, 2)
CALLS = (ToolCall("call_a", "f", '{"a":1}'), ToolCall("call_b", "g", "{}"))


def encode_events(turn: Turn, provider: str = "", **body: Any) -> list[Any]:
    """The parsed data of a stream's events: JSON, `[DONE]`, or a pair of event line and JSON."""
    request = json_request("/v1/chat/completions", model="gpt-5", stream=True, **body)
    context = EncodeContext("seed", 1_700_000_000, provider=provider)
    response = CHAT.encode_response(request, [turn], context)
    return [_parse_event(message.decode()) for message in response.framed_messages]


def _parse_event(message: str) -> Any:
    *event_lines, data = message.strip().split("\n")
    text = data.removeprefix("data: ")
    document = text if text == "[DONE]" else json.loads(text)
    return (event_lines[0], document) if event_lines else document


def deltas(events: list[Any]) -> list[tuple[Any, Any]]:
    """The delta and the finish reason of each chunk that has a choice."""
    chunks = [event for event in events if isinstance(event, dict) and event.get("choices")]
    return [
        (chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]) for chunk in chunks
    ]


FIRST_DELTA = {"role": "assistant", "content": "", "refusal": None}


def test_a_text_stream_goes_from_its_role_to_done() -> None:
    request_fields: Any = {"stream_options": {"include_usage": True}}
    events = encode_events(
        Turn((Text("Hello you"),), FinishReason.STOP, usage=USAGE, id="chatcmpl-1"),
        **request_fields,
    )

    envelope = {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000,
        "model": "gpt-5",
    }  # fmt: skip
    assert all(event.items() >= envelope.items() for event in events[:-1])
    assert [event["usage"] for event in events[:-2]] == [None] * 4
    assert deltas(events) == [
        (FIRST_DELTA, None),
        ({"content": "Hello"}, None),
        ({"content": " you"}, None),
        ({}, "stop"),
    ]
    assert (events[-2]["choices"], events[-2]["usage"]["total_tokens"]) == ([], 11)
    assert events[-1] == "[DONE]"


@each_row(
    ("citation", "fields"),
    [
        (Citation("https://a", "A"), {}),
        (Citation("https://a", "A", "rain"), {"content": "rain"}),
        (Citation("https://a", "A", span=(0, 2)), {"start_index": 0, "end_index": 2}),
        (Citation("https://a", "A", span=(2, 2)), {}),
    ],
    ids=["a page", "a quotation", "a span", "an empty span"],
)
def test_an_annotation_has_the_fields_that_its_citation_has(
    citation: Citation, fields: dict[str, Any]
) -> None:
    events = encode_events(Turn((Text("It rains.", (citation,)),)))
    page = {"url": "https://a", "title": "A", **fields}
    assert [delta["annotations"] for delta, _ in deltas(events) if "annotations" in delta] == [
        [{"type": "url_citation", "url_citation": page}]
    ]


def test_usage_is_sent_only_if_requested() -> None:
    events = encode_events(Turn((Text("Hello"),), usage=USAGE))

    assert not any("usage" in event for event in events[:-1])


def test_calls_are_streamed_in_order_each_with_its_index() -> None:
    def call(index: int, **more: Any) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, **more}]}

    assert deltas(encode_events(Turn(CALLS))) == [
        (FIRST_DELTA | {"content": None}, None),
        (call(0, id="call_a", type="function", function={"name": "f", "arguments": ""}), None),
        (call(0, function={"arguments": '{"a":1}'}), None),
        (call(1, id="call_b", type="function", function={"name": "g", "arguments": ""}), None),
        (call(1, function={"arguments": "{}"}), None),
        ({}, "tool_calls"),
    ]


@each_row("provider", ["groq", "mistral", "ollama"])
def test_some_providers_send_a_call_in_one_chunk(provider: str) -> None:
    function = {"name": "f", "arguments": '{"a":1}'}
    whole = {"index": 0, "id": "call_a", "type": "function", "function": function}

    assert ({"tool_calls": [whole]}, None) in deltas(encode_events(Turn(CALLS), provider))


@each_row(
    ("provider", "delta"),
    [
        ("openai", {"reasoning_content": "Hm."}),
        ("deepseek", {"reasoning_content": "Hm."}),
        ("groq", {"reasoning": "Hm."}),
        ("vllm", {"reasoning": "Hm."}),
        (
            "mistral",
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
        ),
        (
            "openrouter",
            {
                "reasoning": "Hm.",
                "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm."}],
            },
        ),
    ],
)
def test_each_provider_has_its_own_reasoning_field(provider: str, delta: Any) -> None:
    assert deltas(encode_events(Turn((Reasoning("Hm."), Text("Yes."))), provider))[1] == (
        delta,
        None,
    )


@each_row(
    ("turn", "finish_reason"),
    [
        (Turn((Text("a"),)), "stop"),
        (Turn((Text("a"),), FinishReason.STOP_SEQUENCE), "stop"),
        (Turn((Text("a"),), FinishReason.LENGTH), "length"),
        (Turn((Text("a"),), FinishReason.CONTEXT_FULL), "length"),
        (Turn((Text("a"),), FinishReason.CONTENT_FILTER), "content_filter"),
        (Turn((Refusal("No."),), FinishReason.REFUSAL), "stop"),
        (Turn((), FinishReason.REFUSAL), "content_filter"),
        (Turn(CALLS, FinishReason.TOOL_CALLS), "tool_calls"),
        (Turn((Text("a"),), FinishReason.PAUSED), "stop"),
        (Turn((Text("a"),), FinishReason.OTHER, "weird"), "weird"),
    ],
)
def test_each_finish_has_its_finish_reason(turn: Turn, finish_reason: str) -> None:
    assert deltas(encode_events(turn))[-1] == ({}, finish_reason)


@each_row("provider", ["deepseek", "groq", "mistral", "xai"])
def test_some_providers_send_usage_with_the_finish_unasked(provider: str) -> None:
    *_, last, done = encode_events(Turn((Text("a"),), usage=USAGE), provider)

    assert (last["choices"][0]["finish_reason"], last["usage"]["prompt_tokens"]) == ("stop", 9)
    assert done == "[DONE]"


def test_perplexity_sends_no_done_and_azure_begins_with_prompt_filter_results() -> None:
    assert encode_events(Turn((Text("a"),)), "perplexity")[-1] != "[DONE]"
    assert "prompt_filter_results" in encode_events(Turn((Text("a"),)), "azure")[0]


def test_an_error_amid_a_stream_is_the_last_event() -> None:
    turn = Turn((Text("Hel"),), failure=Failure("Sorry", "server_error"))
    error = {"error": {"message": "Sorry", "type": "server_error", "param": None, "code": None}}

    assert encode_events(turn)[-1] == error
    assert encode_events(turn, "groq")[-1] == ("event: error", error)
    assert all(finish is None for _, finish in deltas(encode_events(turn)))


def test_choices_take_turns_and_the_first_one_begins() -> None:
    request = json_request("/v1/chat/completions", model="m", stream=True, n=2)
    turns = [Turn((Text("a b c"),)), Turn((Text("d"),))]

    events = CHAT.encode_response(request, turns, EncodeContext("s", 0)).framed_messages
    indexes = [
        json.loads(event[6:])["choices"][0]["index"] for event in events if b"[DONE]" not in event
    ]

    assert indexes == [0, 1, 0, 1, 0, 0, 0, 1]


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
    *chunks, usage, done = [_parse_event(message.decode()) for message in response.framed_messages]

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
    assert losses == ("finish length of a later choice", "metadata stop_reason")


@each_row(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "invalid_request_error", "invalid_api_key"),
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
