"""What `scripts/record-examples` asks: one cassette a request."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

MODEL = "smollm2-135m"
RHINE = "Tell me about the Rhine in one sentence."
RAIN = "Write one sentence about rain."
CHAT = "/v1/chat/completions"
WEATHER = {
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
PERSON = {
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
class Example:
    """One request, and what its cassette is for."""

    shows: str
    path: str
    body: dict[str, Any] | None = None
    """None is a GET."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def chat(shows: str, *said: str | dict[str, Any], status: int = 200, **more: Any) -> Example:
    """A chat request; `said` are the messages, plain text the user's."""
    messages = [{"role": "user", "content": it} if isinstance(it, str) else it for it in said]
    return Example(shows, CHAT, {"model": MODEL, "messages": messages} | more, status)


def examples() -> Generator[Example, bytes, None]:
    """Every request, in order; each is answered with the body that came back."""
    yield chat("Chat, streamed", RHINE, stream=True)
    yield chat("Chat, not streamed", RHINE)
    yield chat(
        "Chat, streamed, with a chunk of usage before `[DONE]`",
        RAIN, stream=True, stream_options={"include_usage": True},
    )  # fmt: skip
    yield chat(
        "A long answer, cut off by `max_tokens` (finish reason `length`)",
        "Tell me a story about a lighthouse keeper and the sea.", stream=True, max_tokens=300,
    )  # fmt: skip
    yield chat(
        "German: ß, ö, in the question and in the answer",
        "Answer in German: Wie heißt die Hauptstadt von Österreich?", stream=True,
    )  # fmt: skip
    yield chat("Emoji, four bytes each", "Write 🍎🍐🍊 three times.", stream=True, max_tokens=24)
    yield from conversation()
    yield from tool()
    yield chat(
        "JSON that follows a schema (`response_format`)",
        "Ada Lovelace was born in 1815 in London.", response_format=PERSON,
    )  # fmt: skip
    yield Example(
        "OpenAI Responses, streamed: events with names",
        "/v1/responses",
        {"model": MODEL, "input": RAIN, "stream": True},
    )
    rain = [{"role": "user", "content": RAIN}]
    yield Example(
        "Anthropic Messages, streamed",
        "/v1/messages",
        {"model": MODEL, "messages": rain, "max_tokens": 64, "stream": True},
        headers={"anthropic-version": "2023-06-01"},
    )
    yield Example("The list of models, a GET", "/v1/models")
    yield chat("HTTP 400: a temperature that is no number", "Hi.", status=400, temperature="hot")
    yield chat(
        "HTTP 400 to a stream: a prompt longer than the context",
        "sea " * 1200, status=400, stream=True,
    )  # fmt: skip
    yield Example(
        "HTTP 501: a server that has no embeddings",
        "/v1/embeddings",
        {"model": MODEL, "input": "hello"},
        status=501,
    )


def conversation() -> Generator[Example, bytes, None]:
    """Two turns: the second request carries the first answer."""
    question = "What is a lighthouse? Answer in one sentence."
    body = yield chat("A conversation, first turn", question, stream=True)
    told = "".join(delta.get("content") or "" for delta in deltas(body))
    yield chat(
        "A conversation, second turn", question, {"role": "assistant", "content": told},
        "And who keeps it?", stream=True,
    )  # fmt: skip


def tool() -> Generator[Example, bytes, None]:
    """A tool call, and the answer to its result."""
    question = "What is the weather in London?"
    body = yield chat(
        "A tool call, its arguments in fragments", question,
        stream=True, tools=[WEATHER], tool_choice="required",
    )  # fmt: skip
    calls = [call for delta in deltas(body) for call in delta.get("tool_calls", ())]
    arguments = "".join(call["function"].get("arguments", "") for call in calls)
    function = {"name": calls[0]["function"]["name"], "arguments": arguments}
    call = {"id": calls[0]["id"], "type": "function", "function": function}
    yield chat(
        "A tool's result, and the answer that rests on it", question,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "18 °C, light rain"},
        stream=True, tools=[WEATHER],
    )  # fmt: skip


def deltas(body: bytes) -> Iterator[dict[str, Any]]:
    """The deltas of a streamed chat answer."""
    for line in body.splitlines():
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                yield choice["delta"]
