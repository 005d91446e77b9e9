"""A judge for the models of OpenAI's Agents SDK; `framework_judge` has the main program.

These models return items and events of the Responses API, whatever the dialect of the request is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

from agents import (
    FunctionTool,
    Model,
    ModelResponse,
    ModelSettings,
    ModelTracing,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunContextWrapper,
    set_tracing_disabled,
)
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

UNUSED_PARAMS: Final[dict[str, Any]] = {
    "output_schema": None,
    "handoffs": [],
    "tracing": ModelTracing.DISABLED,
    "previous_response_id": None,
    "conversation_id": None,
    "prompt": None,
}
"""Parameters that the SDK requires and that a judge has no use for."""


async def _fail_on_invoke(_context: RunContextWrapper[Any], _arguments: str) -> str:
    raise AssertionError("a model is asked, and nobody runs its tools")


WEATHER_TOOL: Final = FunctionTool(
    name=TOOL_NAME,
    description=TOOL_DESCRIPTION,
    params_json_schema=TOOL_PARAMETERS,
    on_invoke_tool=_fail_on_invoke,
    strict_json_schema=False,
)

ModelClass = Callable[[str, AsyncOpenAI], Model]


def prepare_call(model_class: ModelClass, url: str, request: JudgeRequest) -> ClientCall:
    """Prepare a request to a model, which returns one response or events."""
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=API_KEY, max_retries=0, timeout=TIMEOUT_S)
    model = model_class(request.model, client)
    params: dict[str, Any] = {
        "system_instructions": None,
        "input": request.prompt,
        "model_settings": ModelSettings(include_usage=True),
        "tools": [WEATHER_TOOL] if request.has_tools else [],
    }

    async def stream_chunks() -> AsyncIterator[Any]:
        if request.is_streaming:
            async for event in model.stream_response(**params, **UNUSED_PARAMS):
                yield event
        else:
            yield await model.get_response(**params, **UNUSED_PARAMS)

    return ClientCall(stream_chunks, read_event if request.is_streaming else read_model_response)


def read_event(response: JudgeResponse, event: Any) -> None:
    """Read one event of a stream."""
    match event.type:
        case "response.output_text.delta":
            response.add_text(event.delta)
        case "response.refusal.delta":
            response.add_refusal(event.delta)
        case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
            response.add_reasoning(event.delta)
        case "response.output_item.done" if event.item.type == "function_call":
            response.add_tool_call(event.item.call_id, event.item.name, event.item.arguments)
        case "response.completed" | "response.incomplete":
            read_finish(response, event.response)
        case _:
            pass


def read_finish(response: JudgeResponse, openai_response: Any) -> None:
    """Read the response of the event that ends a stream."""
    details = openai_response.incomplete_details
    response.finish_reason = details.reason if details else openai_response.status
    if usage := openai_response.usage:
        response.set_usage(usage.input_tokens, usage.output_tokens)


def read_model_response(response: JudgeResponse, model_response: ModelResponse) -> None:
    """Read a complete response, which has no finish reason."""
    for item in model_response.output:
        match item.type:
            case "message":
                for part in item.content:
                    if part.type == "refusal":
                        response.add_refusal(part.refusal)
                    else:
                        response.add_text(part.text)
            case "reasoning":
                response.add_reasoning("".join(part.text for part in item.summary))
                response.add_reasoning("".join(part.text for part in item.content or []))
            case "function_call":
                response.add_tool_call(item.call_id, item.name, item.arguments)
            case _:
                pass
    usage = model_response.usage
    if usage.total_tokens:  # all counts are 0 if the response had no usage
        response.set_usage(usage.input_tokens, usage.output_tokens)


set_tracing_disabled(disabled=True)
main(
    __file__,
    {
        "openai-chat": partial(prepare_call, OpenAIChatCompletionsModel),
        "openai-responses": partial(prepare_call, OpenAIResponsesModel),
    },
)
