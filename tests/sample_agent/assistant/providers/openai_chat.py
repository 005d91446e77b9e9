"""OpenAI; its client is created when the application starts."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from openai import OpenAI

from assistant.messages import Message
from assistant.providers.chat_completions import stream_chat
from assistant.tools import Tool

client = OpenAI()


def stream_reply(
    messages: Sequence[Message], tools: Sequence[Tool], *, must_call_tool: bool
) -> Generator[str, None, Message]:
    """Send a conversation to the model."""
    return stream_chat(client, messages, tools, must_call_tool=must_call_tool)
