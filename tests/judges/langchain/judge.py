"""A judge for LangChain's chat models, one class for each dialect.

`framework_judge` has the main program.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

os.environ["LANGSMITH_TRACING"] = "false"  # read at import

from framework_judge import ClientCall, main
from judge_protocol import API_KEY, OPENAI_CHAT_TOOL, TIMEOUT_S, JudgeRequest, JudgeResponse
from langchain_anthropic import ChatAnthropic
from langchain_aws import ChatBedrockConverse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

SECRET_KEY: Final = SecretStr(API_KEY)

CreateModel = Callable[[str, JudgeRequest], BaseChatModel]
"""Takes the proxy's URL and a request."""


def create_openai_chat(url: str, request: JudgeRequest, **options: Any) -> BaseChatModel:
    """Chat completions."""
    return ChatOpenAI(
        model=request.model,
        base_url=f"{url}/v1",
        api_key=SECRET_KEY,
        max_retries=0,
        timeout=TIMEOUT_S,
        stream_usage=True,
        **options,
    )


def create_anthropic(url: str, request: JudgeRequest) -> BaseChatModel:
    """Messages."""
    return ChatAnthropic(
        model_name=request.model,
        base_url=url,
        api_key=SECRET_KEY,
        max_retries=0,
        timeout=TIMEOUT_S,
        max_tokens_to_sample=1024,
        stop=None,
    )


def create_gemini(url: str, request: JudgeRequest) -> BaseChatModel:
    """generateContent and streamGenerateContent."""
    return ChatGoogleGenerativeAI(
        model=request.model,
        base_url=url,
        api_key=SECRET_KEY,
        max_retries=0,
        timeout=TIMEOUT_S,
        include_thoughts=True,
    )


def create_ollama(url: str, request: JudgeRequest) -> BaseChatModel:
    """Ollama's own chat API; without `reasoning` this class drops the reasoning."""
    return ChatOllama(
        model=request.model, base_url=url, reasoning=True, client_kwargs={"timeout": TIMEOUT_S}
    )


def create_bedrock(url: str, request: JudgeRequest) -> BaseChatModel:
    """Converse and ConverseStream."""
    return ChatBedrockConverse(
        model=request.model,
        base_url=url,
        region_name="us-east-1",
        aws_access_key_id=SECRET_KEY,
        aws_secret_access_key=SECRET_KEY,
        max_retries=0,
        timeout=int(TIMEOUT_S),
    )


def prepare_call(create_model: CreateModel, url: str, request: JudgeRequest) -> ClientCall:
    """Prepare a request; LangChain's own addition accumulates the chunks of a stream."""
    model = create_model(url, request)
    runnable = model.bind_tools([OPENAI_CHAT_TOOL]) if request.has_tools else model
    accumulated: list[Any] = []

    async def stream_chunks() -> AsyncIterator[Any]:
        if request.is_streaming:
            for chunk in runnable.stream(request.prompt):
                yield chunk
        else:
            yield runnable.invoke(request.prompt)

    def read_chunk(_response: JudgeResponse, chunk: Any) -> None:
        accumulated[:] = [accumulated[0] + chunk] if accumulated else [chunk]

    def finish(response: JudgeResponse) -> None:
        if accumulated:
            read_message(response, accumulated[0])

    return ClientCall(stream_chunks, read_chunk, finish)


def read_message(response: JudgeResponse, message: AIMessage) -> None:
    """Read LangChain's own message, in its standard blocks."""
    blocks = message.content_blocks
    response.text = str(message.text)
    response.reasoning = "".join(
        block.get("reasoning", "") for block in blocks if block["type"] == "reasoning"
    )
    response.refusal = refusal_of(message)
    for call in [*message.tool_calls, *message.invalid_tool_calls]:
        response.add_tool_call(call["id"], call["name"] or "", call["args"])
    response.finish_reason = finish_reason_of(message.response_metadata)
    if usage := message.usage_metadata:
        response.set_usage(usage["input_tokens"], usage["output_tokens"])


def refusal_of(message: AIMessage) -> str:
    """The text of a refusal, if the class keeps it."""
    blocks = [block["value"] for block in message.content_blocks if block["type"] == "non_standard"]
    refusals = [block["refusal"] for block in blocks if block.get("type") == "refusal"]
    return "".join(refusals) or message.additional_kwargs.get("refusal") or ""


FINISH_REASON_KEYS: Final = (
    "finish_reason",
    "stop_reason",
    "stopReason",
    "done_reason",
    "status",
)


def finish_reason_of(metadata: dict[str, Any]) -> str | None:
    """The finish reason: every class has its own key for it."""
    if reason := (metadata.get("incomplete_details") or {}).get("reason"):
        return str(reason)
    return next((metadata[key] for key in FINISH_REASON_KEYS if key in metadata), None)


CREATE_MODEL: Final[dict[str, CreateModel]] = {
    "openai-chat": create_openai_chat,
    "openai-responses": partial(create_openai_chat, use_responses_api=True),
    "anthropic": create_anthropic,
    "gemini": create_gemini,
    "ollama": create_ollama,
    "bedrock": create_bedrock,
}

main(
    __file__,
    {
        dialect: partial(prepare_call, create_model)
        for dialect, create_model in CREATE_MODEL.items()
    },
)
