"""Mistral, through the SDK of OpenAI; its client is created at the first request, and kept."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from functools import cache

from openai import OpenAI

from assistant.messages import Message
from assistant.providers.chat_completions import stream_chat
from assistant.tools import Tool


@cache
def client() -> OpenAI:
    """The client."""
    return OpenAI(
        base_url=os.environ.get("MISTRAL_BASE_URL", "https://api.mistral.ai/v1"),
        api_key=os.environ["MISTRAL_API_KEY"],
    )


def stream_reply(
    messages: Sequence[Message], tools: Sequence[Tool], *, must_call_tool: bool
) -> Generator[str, None, Message]:
    """Send a conversation to the model."""
    return stream_chat(client(), messages, tools, must_call_tool=must_call_tool)
