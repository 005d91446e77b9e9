"""Chats of vLLM, by OpenAI's SDK, whose `extra_body` has the options that OpenAI lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.conversation import Conversation
from sdk_requests import openai_chat
from sdk_requests.conversations import Arguments, Differences, carried_over

DIALECT: Final = "openai-chat"
PROVIDER: Final = "vllm"

sender: Final = openai_chat.sender_to("/v1")

REASONING: Final = {"reasoning": "Look first."}

OWN_CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "the options of the provider": openai_chat.options_of_provider(
        max_tokens=9, seed=7, stop_sequences=("END",), top_k=3, repeat_penalty=1.1
    ),
    "reasoning, sent back": carried_over("openai-chat", openai_chat.response(**REASONING)),
}

CALLS: Final[Mapping[str, Arguments]] = openai_chat.calls_of_provider(
    {
        "max_completion_tokens": 9,
        "seed": 7,
        "stop": ["END"],
        "extra_body": {"top_k": 3, "repetition_penalty": 1.1},
    },
    {"reasoning, sent back": openai_chat.sent_back(REASONING)},
    lacking=("a file",),
)
DIFFERENCES: Final[Differences] = {}
