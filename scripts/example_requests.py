"""The requests of `scripts/record-examples`, which records one cassette for each."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

MODEL_NAME = "smollm2-135m"
RHINE_PROMPT = "Tell me about the Rhine in one sentence."
RAIN_PROMPT = "Write one sentence about rain."
CHAT_PATH = "/v1/chat/completions"
WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
PERSON_SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "person",
        "schema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "born": {"type": "integer"}},
            "required": ["name", "born"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True)
class ExampleRequest:
    """One request, and a description of what its cassette shows."""

    description: str
    path: str
    body: dict[str, Any] | None = None
    """None sends a GET."""
    expected_status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def chat_request(
    description: str, *messages: str | dict[str, Any], expected_status: int = 200, **params: Any
) -> ExampleRequest:
    """A chat request; a message that is a string is a user message."""
    message_objects = [
        {"role": "user", "content": message} if isinstance(message, str) else message
        for message in messages
    ]
    body = {"model": MODEL_NAME, "messages": message_objects} | params
    return ExampleRequest(description, CHAT_PATH, body, expected_status)


def example_requests() -> Generator[ExampleRequest, bytes, None]:
    """All requests, in order; send the generator the body of each response."""
    yield chat_request("Chat, streamed", RHINE_PROMPT, stream=True)
    yield chat_request("Chat, not streamed", RHINE_PROMPT)
    yield chat_request(
        "Chat, streamed, with a usage chunk before `[DONE]`",
        RAIN_PROMPT, stream=True, stream_options={"include_usage": True},
    )  # fmt: skip
    yield chat_request(
        "A long response, cut off by `max_tokens` (finish reason `length`)",
        "Tell me a story about a lighthouse keeper and the sea.", stream=True, max_tokens=300,
    )  # fmt: skip
    yield chat_request(
        "Non-ASCII text (German ß and ö) in the request and the response",
        "Answer in German: Wie heißt die Hauptstadt von Österreich?", stream=True,
    )  # fmt: skip
    yield chat_request(
        "Emoji (four UTF-8 bytes each)", "Write 🍎🍐🍊 three times.", stream=True, max_tokens=24
    )
    yield from conversation_requests()
    yield from tool_requests()
    yield chat_request(
        "JSON output with a schema (`response_format`)",
        "Ada Lovelace was born in 1815 in London.", response_format=PERSON_SCHEMA,
    )  # fmt: skip
    yield ExampleRequest(
        "OpenAI Responses, streamed, with named events",
        "/v1/responses",
        {"model": MODEL_NAME, "input": RAIN_PROMPT, "stream": True},
    )
    rain_messages = [{"role": "user", "content": RAIN_PROMPT}]
    yield ExampleRequest(
        "Anthropic Messages, streamed",
        "/v1/messages",
        {"model": MODEL_NAME, "messages": rain_messages, "max_tokens": 64, "stream": True},
        headers={"anthropic-version": "2023-06-01"},
    )
    yield ExampleRequest("The list of models (GET)", "/v1/models")
    yield chat_request(
        "HTTP 400: the temperature is not a number",
        "Hi.",
        expected_status=400,
        temperature="hot",
    )
    yield chat_request(
        "HTTP 400 for a streaming request: the prompt exceeds the context window",
        "sea " * 1200, expected_status=400, stream=True,
    )  # fmt: skip
    yield ExampleRequest(
        "HTTP 501: the server does not support embeddings",
        "/v1/embeddings",
        {"model": MODEL_NAME, "input": "hello"},
        expected_status=501,
    )


def conversation_requests() -> Generator[ExampleRequest, bytes, None]:
    """Two turns: the second request contains the first response."""
    prompt = "What is a lighthouse? Answer in one sentence."
    body = yield chat_request("A conversation, first turn", prompt, stream=True)
    text = "".join(delta.get("content") or "" for delta in chat_deltas(body))
    yield chat_request(
        "A conversation, second turn", prompt, {"role": "assistant", "content": text},
        "And who keeps it?", stream=True,
    )  # fmt: skip


def tool_requests() -> Generator[ExampleRequest, bytes, None]:
    """A tool call, and a request with its result."""
    prompt = "What is the weather in London?"
    body = yield chat_request(
        "A tool call whose arguments are streamed in fragments", prompt,
        stream=True, tools=[WEATHER_TOOL], tool_choice="required",
    )  # fmt: skip
    calls = [call for delta in chat_deltas(body) for call in delta.get("tool_calls", ())]
    arguments = "".join(call["function"].get("arguments", "") for call in calls)
    function = {"name": calls[0]["function"]["name"], "arguments": arguments}
    call = {"id": calls[0]["id"], "type": "function", "function": function}
    yield chat_request(
        "A request with a tool result, and its response", prompt,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "18 °C, light rain"},
        stream=True, tools=[WEATHER_TOOL],
    )  # fmt: skip


def chat_deltas(body: bytes) -> Iterator[dict[str, Any]]:
    """The deltas of a streamed chat response."""
    for line in body.splitlines():
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                yield choice["delta"]
