"""The Chat Completions API, which several providers have."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import Any

from openai import OpenAI, OpenAIError

from assistant.messages import MAX_TOKENS, MODEL, SYSTEM_PROMPT, Message, ModelError, ToolCall
from assistant.tools import Tool


def stream_chat(
    client: OpenAI, messages: Sequence[Message], tools: Sequence[Tool], *, must_call_tool: bool
) -> Generator[str, None, Message]:
    """Send a conversation; yields the text of the reply, and returns the reply."""
    try:
        with client.chat.completions.stream(
            model=MODEL,
            messages=[{"role": "system", "content": SYSTEM_PROMPT}, *map(_to_wire, messages)],
            tools=[_tool_to_wire(tool) for tool in tools],
            tool_choice="required" if must_call_tool else "auto",
            temperature=0,
            max_tokens=MAX_TOKENS,
        ) as stream:
            for event in stream:
                if event.type == "content.delta":
                    yield event.delta
            reply = stream.get_final_completion().choices[0].message
    except OpenAIError as error:
        raise ModelError(str(error)) from error
    calls = [
        ToolCall(call.id, call.function.name, json.loads(call.function.arguments))
        for call in reply.tool_calls or []
    ]
    return Message("assistant", reply.content or "", tuple(calls))


def _to_wire(message: Message) -> Any:
    wire: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.call_id:
        wire["tool_call_id"] = message.call_id
    return wire


def _tool_to_wire(tool: Tool) -> Any:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema,
        "strict": True,
    }
    return {"type": "function", "function": function}
