"""Conversations of `llm_chat` send the same requests in every run, so recordings of them match."""

from __future__ import annotations

import json

from llm_chat import ChatClient, ChatOptions, Finish, HttpSettings, LocalProvider, ProviderRegistry
from stub_upstream import fixed_length, upstream


def get_weather(city: str) -> str:
    """Return the weather."""
    return f"Rain in {city}"


def _response(**message: object) -> bytes:
    """A response of a server whose calls have no ids."""
    return json.dumps({"message": {"role": "assistant"} | message, "done": True}).encode() + b"\n"


CALL = {"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}
TWO_CALLS = _response(content="", tool_calls=[CALL, CALL])
SCRIPTS = [
    fixed_length(body, "application/x-ndjson")
    for body in (TWO_CALLS, TWO_CALLS, _response(content="It is raining."))
]


async def _bodies_of_a_chat() -> list[bytes]:
    """The bodies of the requests of a conversation with two turns of two calls."""
    async with upstream(*SCRIPTS) as server:
        registry = ProviderRegistry()
        registry.register(LocalProvider(HttpSettings(server.url)))
        async with ChatClient(registry, tools=[get_weather]) as client:
            options = ChatOptions(provider="local", model="a-model")
            events = [event async for event in client.chat("Is it raining?", options)]
        assert events[-1] == Finish("complete")
        return [body for _, body in server.requests]


async def test_calls_without_ids_get_the_same_ids_in_every_run_and_no_id_twice() -> None:
    first, second = await _bodies_of_a_chat(), await _bodies_of_a_chat()

    assert first == second
    messages = json.loads(first[-1])["messages"]
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert len(set(ids)) == len(ids) == 4
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ids
