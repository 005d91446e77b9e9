"""The providers, by name: how each sends a conversation to its model."""

from __future__ import annotations

from assistant.messages import StreamReply
from assistant.providers import anthropic_messages, mistral, openai_chat

PROVIDERS: dict[str, StreamReply] = {
    "openai": openai_chat.stream_reply,
    "anthropic": anthropic_messages.stream_reply,
    "mistral": mistral.stream_reply,
}
