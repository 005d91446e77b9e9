"""Asks through LangChain's chat models, one class for each dialect; `talking` says how."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

os.environ["LANGSMITH_TRACING"] = "false"  # read at import

from framework_judge import Talk, main
from judge_protocol import FUNCTION, KEY, TIMEOUT, Ask, Heard
from langchain_anthropic import ChatAnthropic
from langchain_aws import ChatBedrockConverse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

SECRET: Final = SecretStr(KEY)

Chat = Callable[[str, Ask], BaseChatModel]


def openai_chat(url: str, ask: Ask, **more: Any) -> BaseChatModel:
    """Chat completions."""
    return ChatOpenAI(
        model=ask.model,
        base_url=f"{url}/v1",
        api_key=SECRET,
        max_retries=0,
        timeout=TIMEOUT,
        stream_usage=True,
        **more,
    )


def anthropic(url: str, ask: Ask) -> BaseChatModel:
    """Messages."""
    return ChatAnthropic(
        model_name=ask.model,
        base_url=url,
        api_key=SECRET,
        max_retries=0,
        timeout=TIMEOUT,
        max_tokens_to_sample=1024,
        stop=None,
    )


def gemini(url: str, ask: Ask) -> BaseChatModel:
    """generateContent and streamGenerateContent."""
    return ChatGoogleGenerativeAI(
        model=ask.model,
        base_url=url,
        api_key=SECRET,
        max_retries=0,
        timeout=TIMEOUT,
        include_thoughts=True,
    )


def ollama(url: str, ask: Ask) -> BaseChatModel:
    """Ollama's own chat; without `reasoning` this class drops it."""
    return ChatOllama(
        model=ask.model, base_url=url, reasoning=True, client_kwargs={"timeout": TIMEOUT}
    )


def bedrock(url: str, ask: Ask) -> BaseChatModel:
    """Converse and ConverseStream."""
    return ChatBedrockConverse(
        model=ask.model,
        base_url=url,
        region_name="us-east-1",
        aws_access_key_id=SECRET,
        aws_secret_access_key=SECRET,
        max_retries=0,
        timeout=int(TIMEOUT),
    )


def talk(chat: Chat, url: str, ask: Ask) -> Talk:
    """One question to a class, its stream added up as LangChain adds."""
    model = chat(url, ask)
    asked = model.bind_tools([FUNCTION]) if ask.tools else model
    got: list[Any] = []

    async def pieces() -> AsyncIterator[Any]:
        if ask.stream:
            for piece in asked.stream(ask.say):
                yield piece
        else:
            yield asked.invoke(ask.say)

    def hear(_heard: Heard, piece: Any) -> None:
        got[:] = [got[0] + piece] if got else [piece]

    return Talk(pieces, hear, lambda heard: understand(heard, got[0]) if got else None)


def understand(heard: Heard, message: AIMessage) -> None:
    """What LangChain's own message says, in its standard blocks."""
    blocks = message.content_blocks
    heard.text = str(message.text)
    heard.reasoning = "".join(
        block.get("reasoning", "") for block in blocks if block["type"] == "reasoning"
    )
    heard.refusal = refusal(message)
    for call in [*message.tool_calls, *message.invalid_tool_calls]:
        heard.call(call["id"], call["name"] or "", call["args"])
    heard.finish = finish(message.response_metadata)
    if usage := message.usage_metadata:
        heard.count(usage["input_tokens"], usage["output_tokens"])


def refusal(message: AIMessage) -> str:
    """The words of a refusal, where the class keeps them."""
    others = [block["value"] for block in message.content_blocks if block["type"] == "non_standard"]
    said = [block["refusal"] for block in others if block.get("type") == "refusal"]
    return "".join(said) or message.additional_kwargs.get("refusal") or ""


FINISHES: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason")


def finish(metadata: dict[str, Any]) -> str | None:
    """The word for why it ended: every class has its own name for it."""
    if reason := (metadata.get("incomplete_details") or {}).get("reason"):
        return str(reason)
    return next((metadata[name] for name in (*FINISHES, "status") if name in metadata), None)


CHATS: Final[dict[str, Chat]] = {
    "openai-chat": openai_chat,
    "openai-responses": partial(openai_chat, use_responses_api=True),
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
    "bedrock": bedrock,
}

main(__file__, {dialect: partial(talk, chat) for dialect, chat in CHATS.items()})
