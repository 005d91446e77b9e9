"""A judge for LiteLLM; `framework_judge` has the main program.

LiteLLM's responses have OpenAI's format, whatever the dialect of the request is.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else the import downloads it

import litellm
from framework_judge import ClientCall, main
from judge_protocol import (
    API_KEY,
    OPENAI_CHAT_TOOL,
    TIMEOUT_S,
    TOOL_DESCRIPTION,
    TOOL_NAME,
    TOOL_PARAMETERS,
    JudgeRequest,
    JudgeResponse,
)

RESPONSES_TOOL: Final = {
    "type": "function",
    "name": TOOL_NAME,
    "description": TOOL_DESCRIPTION,
    "parameters": TOOL_PARAMETERS,
}

ROUTES: Final = {
    "openai-chat": ("openai", "/v1"),
    "anthropic": ("anthropic", ""),
    "gemini": ("gemini", "/v1beta"),
    "ollama": ("ollama_chat", ""),
    "cohere": ("cohere_chat", "/v2/chat"),
    "bedrock": ("bedrock/converse", ""),
}
"""The prefix of the model, and the path that users append to the base URL, by dialect."""

AWS_CREDENTIALS: Final = {
    "aws_access_key_id": API_KEY,
    "aws_secret_access_key": API_KEY,
    "aws_region_name": "us-east-1",
}


def common_params(url: str, request: JudgeRequest, prefix: str, path: str) -> dict[str, Any]:
    """The parameters that every function of LiteLLM takes."""
    is_bedrock = request.dialect == "bedrock"
    credentials = AWS_CREDENTIALS if is_bedrock else {"api_key": API_KEY}
    url_param = "aws_bedrock_runtime_endpoint" if is_bedrock else "api_base"
    return {
        "model": f"{prefix}/{request.model}",
        url_param: f"{url}{path}",
        **credentials,
        "stream": request.is_streaming,
        "timeout": TIMEOUT_S,
        "num_retries": 0,
        "max_retries": 0,
    }


def prepare_completion(prefix: str, path: str, url: str, request: JudgeRequest) -> ClientCall:
    """Prepare a call of `completion`."""
    tool_calls: list[list[Any]] = []

    async def stream_chunks() -> AsyncIterator[Any]:
        result: Any = litellm.completion(
            **common_params(url, request, prefix, path),
            messages=[{"role": "user", "content": request.prompt}],
            **({"tools": [OPENAI_CHAT_TOOL]} if request.has_tools else {}),
            **({"stream_options": {"include_usage": True}} if request.is_streaming else {}),
        )
        for chunk in result if request.is_streaming else [result]:
            yield chunk

    def read_chunk(response: JudgeResponse, chunk: Any) -> None:
        for choice in chunk.choices:
            message = choice.delta if request.is_streaming else choice.message
            read_message(response, tool_calls, message)
            response.finish_reason = choice.finish_reason or response.finish_reason
        if usage := getattr(chunk, "usage", None):
            response.set_usage(usage.prompt_tokens, usage.completion_tokens)

    def finish(response: JudgeResponse) -> None:
        for call_id, name, arguments in tool_calls:
            response.add_tool_call(call_id, name, arguments)

    return ClientCall(stream_chunks, read_chunk, finish)


def read_message(response: JudgeResponse, tool_calls: list[list[Any]], message: Any) -> None:
    """Read a message or a delta; the id of a tool call is in its first delta."""
    provider_fields = getattr(message, "provider_specific_fields", None) or {}
    response.add_text(message.content)
    response.add_reasoning(getattr(message, "reasoning_content", None))
    response.add_refusal(provider_fields.get("refusal"))
    for call in message.tool_calls or []:
        if call.id:  # its index is 0 for every call of some routes
            tool_calls.append([call.id, "", ""])
        tool_calls[-1][1] += call.function.name or ""
        tool_calls[-1][2] += call.function.arguments or ""


def prepare_responses(url: str, request: JudgeRequest) -> ClientCall:
    """Prepare a call of `responses`."""

    async def stream_chunks() -> AsyncIterator[Any]:
        result: Any = litellm.responses(
            **common_params(url, request, "openai", "/v1"),
            input=request.prompt,
            **({"tools": [RESPONSES_TOOL]} if request.has_tools else {}),
        )
        for chunk in result if request.is_streaming else [result]:
            yield chunk

    return ClientCall(stream_chunks, read_event if request.is_streaming else read_openai_response)


def read_event(response: JudgeResponse, event: Any) -> None:
    """Read one event of a streamed response."""
    match str(getattr(event.type, "value", event.type)):
        case "response.output_text.delta":
            response.add_text(event.delta)
        case "response.refusal.delta":
            response.add_refusal(event.delta)
        case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
            response.add_reasoning(event.delta)
        case "response.output_item.done":
            read_function_call(response, event.item)
        case "response.completed" | "response.incomplete" | "response.failed":
            read_finish(response, event.response)
        case _:
            pass


def read_openai_response(response: JudgeResponse, openai_response: Any) -> None:
    """Read a complete response."""
    for item in openai_response.output:
        match item.type:
            case "message":
                for part in item.content:
                    response.add_text(getattr(part, "text", None))
                    response.add_refusal(getattr(part, "refusal", None))
            case "reasoning":
                response.add_reasoning("".join(part.text for part in item.summary))
            case _:
                read_function_call(response, item)
    read_finish(response, openai_response)


def read_function_call(response: JudgeResponse, item: Any) -> None:
    """Read a tool call, if this item is one."""
    if item.type == "function_call":
        response.add_tool_call(item.call_id, item.name, item.arguments)


def read_finish(response: JudgeResponse, openai_response: Any) -> None:
    """Read the finish reason and the usage."""
    details = openai_response.incomplete_details
    response.finish_reason = details.reason if details else openai_response.status
    if usage := openai_response.usage:
        response.set_usage(usage.input_tokens, usage.output_tokens)


litellm.suppress_debug_info = True
main(
    __file__,
    {
        "openai-responses": prepare_responses,
        **{dialect: partial(prepare_completion, *route) for dialect, route in ROUTES.items()},
    },
)
