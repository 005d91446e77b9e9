"""Anthropic; its client is created when the application starts."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import httpx2
from anthropic import Anthropic, AnthropicError

from assistant.messages import MAX_TOKENS, MODEL, SYSTEM_PROMPT, Message, ModelError, ToolCall
from assistant.tools import Tool

client = Anthropic()


def stream_reply(
    messages: Sequence[Message], tools: Sequence[Tool], *, must_call_tool: bool
) -> Generator[str, None, Message]:
    """Send a conversation to the model."""
    try:
        with client.messages.stream(
            model=MODEL,
            system=SYSTEM_PROMPT,
            messages=[_to_wire(message) for message in messages],
            tools=[
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in tools
            ],
            tool_choice={"type": "any"} if must_call_tool else {"type": "auto"},
            max_tokens=MAX_TOKENS,
        ) as stream:
            yield from stream.text_stream
            blocks = stream.get_final_message().content
    # The SDK does not wrap the errors of a connection that breaks within a stream.
    except (AnthropicError, httpx2.TransportError) as error:
        raise ModelError(str(error)) from error
    text = "".join(block.text for block in blocks if block.type == "text")
    calls = [
        ToolCall(block.id, block.name, block.input) for block in blocks if block.type == "tool_use"
    ]
    return Message("assistant", text, tuple(calls))


def _to_wire(message: Message) -> Any:
    blocks: list[dict[str, Any]] = []
    if message.call_id:
        blocks.append(
            {"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}
        )
    elif message.text:
        blocks.append({"type": "text", "text": message.text})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in message.tool_calls
    ]
    return {"role": "assistant" if message.role == "assistant" else "user", "content": blocks}
