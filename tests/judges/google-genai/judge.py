"""A judge for Google's SDK for Python: generateContent, and interactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import judge_protocol
from google import genai
from google.genai import types
from judge_protocol import JudgeRequest, JudgeResponse


def generate_content(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send a generateContent request and read the first candidate."""
    response = JudgeResponse(reasoning="")
    config: dict[str, Any] = {}
    if request.has_tools:
        function = types.FunctionDeclaration(
            name=judge_protocol.TOOL_NAME,
            parameters_json_schema=judge_protocol.TOOL_PARAMETERS,
        )
        config["tools"] = [types.Tool(function_declarations=[function])]
    params = {"model": request.model, "contents": request.prompt, "config": config}

    def open_stream() -> Iterable[Any]:
        if request.is_streaming:
            return client.models.generate_content_stream(**params)
        return [client.models.generate_content(**params)]

    for chunk in response.capture_errors(open_stream):
        _read_chunk(response, chunk)
    return response


def _read_chunk(response: JudgeResponse, chunk: Any) -> None:
    if usage := chunk.usage_metadata:
        response.set_usage(usage.prompt_token_count, usage.candidates_token_count)
    if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
        response.finish_reason = judge_protocol.enum_value(chunk.prompt_feedback.block_reason)
    for candidate in chunk.candidates or ():
        if not candidate.index:
            reason = judge_protocol.enum_value(candidate.finish_reason)
            response.finish_reason = reason or response.finish_reason
            for part in (candidate.content and candidate.content.parts) or ():
                _read_part(response, part)


def _read_part(response: JudgeResponse, part: Any) -> None:
    if part.thought:
        response.add_reasoning(part.text)
    else:
        response.add_text(part.text)
    if call := part.function_call:
        response.add_tool_call(call.id, call.name, call.args or {})
    elif code := part.executable_code:
        fields = {"language": judge_protocol.enum_value(code.language), "code": code.code}
        arguments = {name: value for name, value in fields.items() if value is not None}
        response.add_tool_call(code.id, "code_execution", arguments)
    elif server_call := part.tool_call:
        tool_name = judge_protocol.enum_value(server_call.tool_type)
        response.add_tool_call(server_call.id, tool_name, server_call.args or {})


def create_interaction(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send an interactions request."""
    response = JudgeResponse(reasoning="")
    params: dict[str, Any] = {
        "model": request.model,
        "input": request.prompt,
        "stream": request.is_streaming,
    }
    if request.has_tools:
        parameters = {"parameters": judge_protocol.TOOL_PARAMETERS}
        tool = {"type": "function", "name": judge_protocol.TOOL_NAME, **parameters}
        params["tools"] = [tool]

    def open_stream() -> Iterable[Any]:
        result = client.interactions.create(**params)
        return result if request.is_streaming else [result]

    for chunk in response.capture_errors(open_stream):
        if request.is_streaming:
            _read_event(response, chunk)
        else:
            for index, step in enumerate(chunk.steps or ()):
                _read_step(response, index, step)
            _read_finish(response, chunk)
    return response


def _read_event(response: JudgeResponse, event: Any) -> None:
    match event.event_type:
        case "step.start":
            _read_step(response, event.index, event.step)
        case "step.delta":
            _read_delta(response, event.index, event.delta)
        case "interaction.completed":
            _read_finish(response, event.interaction)
        case "error":
            error = event.error
            response.set_error(str(error and error.code), None, str(error and error.message))


def _read_step(response: JudgeResponse, index: int, step: Any) -> None:
    match step.type:
        case step_type if step_type.endswith("_call"):  # a client's function, or a server tool
            name = getattr(step, "name", None) or step_type.removesuffix("_call")
            response.add_tool_call(step.id, name, _call_arguments(step), index)
        case "model_output":
            for block in step.content or ():
                response.add_text(getattr(block, "text", None))
        case "thought":
            for block in step.summary or ():
                response.add_reasoning(getattr(block, "text", None))


def _call_arguments(step: Any) -> Any:
    """The arguments of a call: empty if they follow as text; a server tool has a Pydantic model."""
    arguments = getattr(step, "arguments", None)
    if hasattr(arguments, "model_dump"):
        arguments = arguments.model_dump(exclude_unset=True)
    return arguments or ""


def _read_delta(response: JudgeResponse, index: int, delta: Any) -> None:
    match delta.type:
        case "text":
            response.add_text(delta.text)
        case "thought_summary":
            response.add_reasoning(getattr(delta.content, "text", None))
        case "arguments_delta":
            response.add_tool_call(None, None, delta.arguments, index)
        case delta_type if delta_type.endswith("_call"):  # a server tool: all arguments at once
            (response.tool_calls or {})[index].arguments = _call_arguments(delta)


def _read_finish(response: JudgeResponse, interaction: Any) -> None:
    response.finish_reason = judge_protocol.enum_value(interaction.status)
    if usage := interaction.usage:
        response.set_usage(usage.total_input_tokens, usage.total_output_tokens)


SEND_BY_DIALECT = {"gemini": generate_content, "gemini-interactions": create_interaction}


def make_judge(url: str) -> Callable[[JudgeRequest], JudgeResponse]:
    """Create a client of the proxy at this URL."""
    client = genai.Client(
        api_key=judge_protocol.API_KEY,
        http_options=types.HttpOptions(
            base_url=url,
            timeout=int(judge_protocol.TIMEOUT_S * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),
        ),
    )
    return lambda request: SEND_BY_DIALECT[request.dialect](client, request)


if __name__ == "__main__":
    judge_protocol.run(make_judge)
