"""Asks through Pydantic AI's models, one for each dialect; `talking` says how."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

import boto3  # type: ignore[import-untyped] # it has no types
from anthropic import AsyncAnthropic
from botocore.config import Config  # type: ignore[import-untyped] # nor has this
from cohere import AsyncClientV2
from framework_judge import Talk, main
from judge_protocol import KEY, PARAMETERS, TIMEOUT, TOOL, TOOL_SAYS, Ask, Heard
from openai import AsyncOpenAI
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.bedrock import BedrockConverseModel
from pydantic_ai.models.cohere import CohereModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.bedrock import BedrockProvider
from pydantic_ai.providers.cohere import CohereProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

SETTINGS: Final = ModelSettings(request_timeout=TIMEOUT, max_tokens=1024)


def openai_provider(url: str) -> OpenAIProvider:
    """OpenAI's client behind both of its models."""
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=TIMEOUT)
    return OpenAIProvider(openai_client=client)


def openai_chat(url: str, ask: Ask) -> Model:
    """Chat completions."""
    return OpenAIChatModel(ask.model, provider=openai_provider(url))


def openai_responses(url: str, ask: Ask) -> Model:
    """Responses."""
    return OpenAIResponsesModel(ask.model, provider=openai_provider(url))


def anthropic(url: str, ask: Ask) -> Model:
    """Messages."""
    client = AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0, timeout=TIMEOUT)
    return AnthropicModel(ask.model, provider=AnthropicProvider(anthropic_client=client))


def gemini(url: str, ask: Ask) -> Model:
    """generateContent and streamGenerateContent."""
    return GoogleModel(ask.model, provider=GoogleProvider(api_key=KEY, base_url=url))


def cohere(url: str, ask: Ask) -> Model:
    """Cohere's chat, version 2."""
    client = AsyncClientV2(api_key=KEY, base_url=url, timeout=TIMEOUT)
    return CohereModel(ask.model, provider=CohereProvider(cohere_client=client))


def bedrock(url: str, ask: Ask) -> Model:
    """Converse and ConverseStream."""
    client = boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=KEY,
        config=Config(
            retries={"total_max_attempts": 1}, connect_timeout=TIMEOUT, read_timeout=TIMEOUT
        ),
    )
    return BedrockConverseModel(ask.model, provider=BedrockProvider(bedrock_client=client))


def talk(chat: Callable[[str, Ask], Model], url: str, ask: Ask) -> Talk:
    """One question to a model; what it says is a whole response, or one that grows."""
    model = chat(url, ask)
    question = [ModelRequest.user_text_prompt(ask.say)]
    weather = ToolDefinition(name=TOOL, description=TOOL_SAYS, parameters_json_schema=PARAMETERS)
    parameters = ModelRequestParameters(function_tools=[weather] if ask.tools else [])
    got: list[ModelResponse] = []

    async def pieces() -> AsyncIterator[ModelResponse]:
        if not ask.stream:
            yield await model_request(
                model, question, model_settings=SETTINGS, model_request_parameters=parameters
            )
            return
        async with model_request_stream(
            model, question, model_settings=SETTINGS, model_request_parameters=parameters
        ) as stream:
            async for _ in stream:
                yield stream.get()
            yield stream.get()

    def hear(_heard: Heard, piece: ModelResponse) -> None:
        got[:] = [piece]

    return Talk(pieces, hear, lambda heard: understand(heard, got[0]) if got else None)


def understand(heard: Heard, response: ModelResponse) -> None:
    """What Pydantic AI's own response says."""
    details: dict[str, Any] = response.provider_details or {}
    for part in response.parts:
        match part:
            case TextPart(content=text):
                heard.say(text)
            case ThinkingPart(content=text):
                heard.think(text)
            case ToolCallPart(tool_name=name, args=arguments, tool_call_id=id_):
                heard.call(id_, name, arguments)
            case _:
                pass
    heard.refusal = details.get("refusal") or ""
    heard.finish = details.get("finish_reason") or response.finish_reason
    if response.usage.has_values():
        heard.count(response.usage.input_tokens, response.usage.output_tokens)


MODELS: Final[dict[str, Callable[[str, Ask], Model]]] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "cohere": cohere,
    "bedrock": bedrock,
}

main(__file__, {dialect: partial(talk, model) for dialect, model in MODELS.items()})
