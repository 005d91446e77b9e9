"""A judge for Pydantic AI's models, one for each dialect.

`framework_judge` has the main program.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

import boto3  # type: ignore[import-untyped] # it has no types
from anthropic import AsyncAnthropic
from botocore.config import Config  # type: ignore[import-untyped] # nor has this
from cohere import AsyncClientV2
from framework_judge import ClientCall, main
from judge_protocol import (
    API_KEY,
    TIMEOUT_S,
    TOOL_DESCRIPTION,
    TOOL_NAME,
    TOOL_PARAMETERS,
    JudgeRequest,
    JudgeResponse,
)
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

MODEL_SETTINGS: Final = ModelSettings(request_timeout=TIMEOUT_S, max_tokens=1024)


def create_openai_provider(url: str) -> OpenAIProvider:
    """The provider of both OpenAI models."""
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=API_KEY, max_retries=0, timeout=TIMEOUT_S)
    return OpenAIProvider(openai_client=client)


def create_openai_chat(url: str, request: JudgeRequest) -> Model:
    """Chat completions."""
    return OpenAIChatModel(request.model, provider=create_openai_provider(url))


def create_openai_responses(url: str, request: JudgeRequest) -> Model:
    """Responses."""
    return OpenAIResponsesModel(request.model, provider=create_openai_provider(url))


def create_anthropic(url: str, request: JudgeRequest) -> Model:
    """Messages."""
    client = AsyncAnthropic(base_url=url, api_key=API_KEY, max_retries=0, timeout=TIMEOUT_S)
    return AnthropicModel(request.model, provider=AnthropicProvider(anthropic_client=client))


def create_gemini(url: str, request: JudgeRequest) -> Model:
    """generateContent and streamGenerateContent."""
    return GoogleModel(request.model, provider=GoogleProvider(api_key=API_KEY, base_url=url))


def create_cohere(url: str, request: JudgeRequest) -> Model:
    """Version 2 of Cohere's chat API."""
    client = AsyncClientV2(api_key=API_KEY, base_url=url, timeout=TIMEOUT_S)
    return CohereModel(request.model, provider=CohereProvider(cohere_client=client))


def create_bedrock(url: str, request: JudgeRequest) -> Model:
    """Converse and ConverseStream."""
    client = boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=API_KEY,
        aws_secret_access_key=API_KEY,
        config=Config(
            retries={"total_max_attempts": 1}, connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S
        ),
    )
    return BedrockConverseModel(request.model, provider=BedrockProvider(bedrock_client=client))


CreateModel = Callable[[str, JudgeRequest], Model]
"""Takes the proxy's URL and a request."""


def prepare_call(create_model: CreateModel, url: str, request: JudgeRequest) -> ClientCall:
    """Prepare a request to a model; each chunk of a stream is the response so far."""
    model = create_model(url, request)
    messages = [ModelRequest.user_text_prompt(request.prompt)]
    weather = ToolDefinition(
        name=TOOL_NAME, description=TOOL_DESCRIPTION, parameters_json_schema=TOOL_PARAMETERS
    )
    parameters = ModelRequestParameters(function_tools=[weather] if request.has_tools else [])
    last_response: list[ModelResponse] = []

    async def stream_chunks() -> AsyncIterator[ModelResponse]:
        if not request.is_streaming:
            yield await model_request(
                model, messages, model_settings=MODEL_SETTINGS, model_request_parameters=parameters
            )
            return
        async with model_request_stream(
            model, messages, model_settings=MODEL_SETTINGS, model_request_parameters=parameters
        ) as stream:
            async for _ in stream:
                yield stream.get()
            yield stream.get()

    def read_chunk(_response: JudgeResponse, chunk: ModelResponse) -> None:
        last_response[:] = [chunk]

    def finish(response: JudgeResponse) -> None:
        if last_response:
            read_model_response(response, last_response[0])

    return ClientCall(stream_chunks, read_chunk, finish)


def read_model_response(response: JudgeResponse, model_response: ModelResponse) -> None:
    """Read Pydantic AI's own response."""
    details: dict[str, Any] = model_response.provider_details or {}
    for part in model_response.parts:
        match part:
            case TextPart(content=text):
                response.add_text(text)
            case ThinkingPart(content=text):
                response.add_reasoning(text)
            case ToolCallPart(tool_name=name, args=arguments, tool_call_id=call_id):
                response.add_tool_call(call_id, name, arguments)
            case _:
                pass
    response.refusal = details.get("refusal") or ""
    response.finish_reason = details.get("finish_reason") or model_response.finish_reason
    if model_response.usage.has_values():
        response.set_usage(model_response.usage.input_tokens, model_response.usage.output_tokens)


CREATE_MODEL: Final[dict[str, CreateModel]] = {
    "openai-chat": create_openai_chat,
    "openai-responses": create_openai_responses,
    "anthropic": create_anthropic,
    "gemini": create_gemini,
    "cohere": create_cohere,
    "bedrock": create_bedrock,
}

main(
    __file__,
    {
        dialect: partial(prepare_call, create_model)
        for dialect, create_model in CREATE_MODEL.items()
    },
)
