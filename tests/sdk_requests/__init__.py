"""The requests that official SDKs send for one table of conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from llm_proxy.conversation import Conversation
from sdk_requests import (
    anthropic_messages,
    bedrock_converse,
    cohere_chat,
    deepseek,
    gemini_contents,
    gemini_interactions,
    groq,
    llamacpp,
    mistral,
    ollama_chat,
    openai_chat,
    openai_completions,
    openai_responses,
    openrouter,
    vllm,
    xai,
)
from sdk_requests.conversations import CONVERSATIONS, Arguments, Differences
from sdk_requests.judge_process import Sender


class SdkRequests(Protocol):
    """The requests of one SDK: a module of this package."""

    DIALECT: str
    PROVIDER: str
    """The provider whose variant of the dialect it is; empty for the one that defined it."""
    OWN_CONVERSATIONS: Mapping[str, Conversation]
    """Rows that only this API has."""
    CALLS: Mapping[str, Arguments]
    """The arguments of the SDK's call, without the model, by row."""
    DIFFERENCES: Differences

    sender: Sender


SDK_REQUESTS: Final[tuple[SdkRequests, ...]] = (
    openai_chat,
    openai_responses,
    anthropic_messages,
    ollama_chat,
    gemini_contents,
    gemini_interactions,
    cohere_chat,
    bedrock_converse,
    openai_completions,
    deepseek,
    groq,
    llamacpp,
    mistral,
    openrouter,
    vllm,
    xai,
)


def rows(requests: SdkRequests) -> Iterator[tuple[str, Conversation]]:
    """The conversations that the SDK sends, with their names."""
    conversations = {**CONVERSATIONS, **requests.OWN_CONVERSATIONS}
    yield from ((name, conversations[name]) for name in requests.CALLS)
