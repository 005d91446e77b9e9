"""A judge for OpenAI's SDK for Python: chat completions, legacy completions, responses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import judge_protocol
import openai
from judge_protocol import JudgeRequest, JudgeResponse


def send_chat(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send a chat request and read the first choice."""
    response = JudgeResponse(reasoning="", refusal="")
    params: dict[str, Any] = {"model": request.model, "messages": request.messages}
    if request.has_tools:
        params["tools"] = [judge_protocol.OPENAI_CHAT_TOOL]
    create = client.chat.completions.create
    if request.is_streaming:
        options = {"include_usage": True}
        for chunk in response.capture_errors(
            lambda: create(**params, stream=True, stream_options=options)
        ):
            _read_chat_chunk(response, chunk, "delta")
    else:
        for completion in response.capture_errors(lambda: [create(**params)]):
            _read_chat_chunk(response, completion, "message")
    return response


def _read_chat_chunk(response: JudgeResponse, chunk: Any, message_field: str) -> None:
    """Read a chunk, or a complete completion; each choice has its message in `message_field`."""
    if chunk.usage:
        response.set_usage(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
    for choice in chunk.choices or ():
        if choice.index:
            continue
        response.finish_reason = choice.finish_reason or response.finish_reason
        if (message := getattr(choice, message_field, None)) is not None:
            _read_chat_message(response, message)


def _read_chat_message(response: JudgeResponse, message: Any) -> None:
    response.add_text(_content_text(message.content))
    response.add_refusal(message.refusal)
    # The two names that compatible providers use; the SDK passes both on, without types.
    response.add_reasoning(
        getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
    )
    function_call = message.function_call
    if function_call and (function_call.name or function_call.arguments):
        response.add_tool_call(
            None, function_call.name, function_call.arguments, stream_key="function"
        )
    for call in message.tool_calls or ():
        index = getattr(call, "index", None)
        response.add_tool_call(call.id, call.function.name, call.function.arguments, index)


def _content_text(content: Any) -> str | None:
    """The SDK does not check its types: some providers send lists or objects."""
    return (
        content if isinstance(content, str | None) else json.dumps(content, separators=(",", ":"))
    )


def send_completion(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send a legacy completion request."""
    response = JudgeResponse(tool_calls=None)
    params: dict[str, Any] = {"model": request.model, "prompt": request.prompt}
    create = client.completions.create
    if request.is_streaming:
        options = {"include_usage": True}
        chunks = response.capture_errors(
            lambda: create(**params, stream=True, stream_options=options)
        )
    else:
        chunks = response.capture_errors(lambda: [create(**params)])
    for chunk in chunks:
        if chunk.usage:
            response.set_usage(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
        for choice in chunk.choices or ():
            if not choice.index:
                response.add_text(choice.text)
                response.finish_reason = choice.finish_reason or response.finish_reason
    return response


def send_response(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send a request to the Responses API."""
    response = JudgeResponse(reasoning="", refusal="")
    params: dict[str, Any] = {"model": request.model, "input": request.prompt}
    if request.has_tools:
        function = judge_protocol.OPENAI_CHAT_TOOL["function"]
        params["tools"] = [{"type": "function", "strict": False, **function}]
    create = client.responses.create
    if request.is_streaming:
        for event in response.capture_errors(lambda: create(**params, stream=True)):
            _read_event(response, event)
    else:
        for openai_response in response.capture_errors(lambda: [create(**params)]):
            _read_openai_response(response, openai_response)
    return response


def _read_event(response: JudgeResponse, event: Any) -> None:
    match event.type:
        case "response.output_text.delta":
            response.add_text(event.delta)
        case "response.refusal.delta":
            response.add_refusal(event.delta)
        case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
            response.add_reasoning(event.delta)
        case "response.output_item.done":
            _read_tool_call(response, event.item)
        case "response.completed" | "response.incomplete" | "response.failed":
            _read_openai_response(response, event.response)
        case "error":
            response.set_error(event.code or "error", None, event.message)


def _read_openai_response(response: JudgeResponse, openai_response: Any) -> None:
    """Read a complete response.  At the end of a stream, it replaces what the deltas gave."""
    details = openai_response.incomplete_details
    response.finish_reason = (details and details.reason) or openai_response.status
    if usage := openai_response.usage:
        response.set_usage(usage.input_tokens, usage.output_tokens)
    if error := openai_response.error:
        response.set_error(str(error.code), None, error.message)
    if openai_response.output:
        response.text, response.reasoning, response.refusal = "", "", ""
        response.tool_calls = {}
        for item in openai_response.output:
            _read_item(response, item)


def _read_item(response: JudgeResponse, item: Any) -> None:
    _read_tool_call(response, item)
    if item.type == "message":
        for block in item.content:
            if block.type == "output_text":
                response.add_text(block.text)
            elif block.type == "refusal":
                response.add_refusal(block.refusal)
    elif item.type == "reasoning":
        for block in (*item.summary, *(item.content or ())):
            response.add_reasoning(block.text)


def _read_tool_call(response: JudgeResponse, item: Any) -> None:
    match item.type:
        case "function_call":
            response.add_tool_call(item.call_id, item.name, item.arguments)
        case "custom_tool_call":
            response.add_tool_call(item.call_id, item.name, item.input)
        case "mcp_call":
            response.add_tool_call(item.id, item.name, item.arguments)


SEND_BY_DIALECT = {
    "openai-chat": send_chat,
    "openai-completions": send_completion,
    "openai-responses": send_response,
}


def make_judge(url: str) -> Callable[[JudgeRequest], JudgeResponse]:
    """Create a client of the proxy at this URL."""
    client = openai.OpenAI(
        base_url=f"{url}/v1",
        api_key=judge_protocol.API_KEY,
        max_retries=0,
        timeout=judge_protocol.TIMEOUT_S,
    )
    return lambda request: SEND_BY_DIALECT[request.dialect](client, request)


if __name__ == "__main__":
    judge_protocol.run(make_judge)
