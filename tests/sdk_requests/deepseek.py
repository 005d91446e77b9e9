"""Chats of DeepSeek, by OpenAI's SDK, as its documentation shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.conversation import Conversation
from sdk_requests import openai_chat
from sdk_requests.conversations import Arguments, Differences, carried_over

DIALECT: Final = "openai-chat"
PROVIDER: Final = "deepseek"

sender: Final = openai_chat.sender_to("")

REASONING: Final = {"reasoning_content": "Look first."}

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "the options of the provider": openai_chat.options_of_provider(
        max_tokens=9, stop_sequences=("END",)
    ),
    "reasoning, sent back": carried_over("openai-chat", openai_chat.response(**REASONING)),
}

CALLS: Final[Mapping[str, Arguments]] = openai_chat.calls_of_provider(
    {"max_tokens": 9, "stop": ["END"]},
    {"reasoning, sent back": openai_chat.sent_back(REASONING)},
    lacking=("a file", "audio", "a response schema"),
)
DIFFERENCES: Final[Differences] = {
    name: {"messages[1].reasoning_content": "empty: when it thinks, it refuses calls without it"}
    for name in ("parallel tool calls", "a text before a call, and a failed result")
}
