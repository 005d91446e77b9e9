"""Chats of Groq, by its SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.conversation import Conversation
from sdk_requests import openai_chat
from sdk_requests.conversations import Arguments, Differences, carried_over
from sdk_requests.judge_process import in_judge

DIALECT: Final = "openai-chat"
PROVIDER: Final = "groq"

sender: Final = in_judge("groq")

REASONING: Final = {"reasoning": "Look first."}

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "the options of the provider": openai_chat.options_of_provider(
        max_tokens=9, seed=7, stop_sequences=("END",)
    ),
    "reasoning, sent back": carried_over("openai-chat", openai_chat.response(**REASONING)),
}

CALLS: Final[Mapping[str, Arguments]] = openai_chat.calls_of_provider(
    {"max_completion_tokens": 9, "seed": 7, "stop": ["END"]},
    {"reasoning, sent back": openai_chat.sent_back(REASONING)},
    lacking=("a file", "audio"),
)
DIFFERENCES: Final[Differences] = {}
