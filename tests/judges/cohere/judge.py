"""A judge for Cohere's SDK for Python: versions 2 and 1 of its chat API."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import cohere
import judge_protocol
from judge_protocol import JudgeRequest, JudgeResponse


def make_chat_v2_judge(url: str) -> Callable[[JudgeRequest], JudgeResponse]:
    """Create a client of version 2 of the chat API."""
    client: Any = cohere.ClientV2(
        judge_protocol.API_KEY, base_url=url, timeout=judge_protocol.TIMEOUT_S
    )

    def send_chat(request: JudgeRequest) -> JudgeResponse:
        response = JudgeResponse(reasoning="")
        params: dict[str, Any] = {"model": request.model, "messages": request.messages}
        if request.has_tools:
            params["tools"] = [judge_protocol.OPENAI_CHAT_TOOL]
        params["request_options"] = {"max_retries": 0}
        if request.is_streaming:
            for event in response.capture_errors(lambda: client.chat_stream(**params)):
                _read_event(response, event)
        else:
            for chat_response in response.capture_errors(lambda: [client.chat(**params)]):
                _read_chat_response(response, chat_response)
        return response

    return send_chat


def _read_event(response: JudgeResponse, event: Any) -> None:
    match event.type:
        case "content-start" | "content-delta":
            content = event.delta.message.content
            response.add_text(getattr(content, "text", None))
            response.add_reasoning(getattr(content, "thinking", None))
        case "tool-plan-delta":
            response.add_reasoning(event.delta.message.tool_plan)
        case "tool-call-start":
            call = event.delta.message.tool_calls
            response.add_tool_call(
                call.id, call.function.name, call.function.arguments, event.index
            )
        case "tool-call-delta":
            call = event.delta.message.tool_calls
            response.add_tool_call(None, None, call.function.arguments, event.index)
        case "message-end":
            response.finish_reason = judge_protocol.enum_value(event.delta.finish_reason)
            _read_usage(response, event.delta.usage)
            if error := getattr(event.delta, "error", None):
                response.set_error(response.finish_reason or "error", None, str(error))


def _read_chat_response(response: JudgeResponse, chat_response: Any) -> None:
    for block in chat_response.message.content or ():
        response.add_text(getattr(block, "text", None))
        response.add_reasoning(getattr(block, "thinking", None))
    response.add_reasoning(chat_response.message.tool_plan)
    for call in chat_response.message.tool_calls or ():
        response.add_tool_call(call.id, call.function.name, call.function.arguments)
    response.finish_reason = judge_protocol.enum_value(chat_response.finish_reason)
    _read_usage(response, chat_response.usage)


def _read_usage(response: JudgeResponse, usage: Any) -> None:
    """Read the token counts, else the billed units.

    Both are whole numbers, which the SDK converts to floats.
    """
    counts = usage and (usage.tokens or usage.billed_units)
    if counts:
        response.set_usage(_to_int(counts.input_tokens), _to_int(counts.output_tokens))


def _to_int(count: float | None) -> int | None:
    return None if count is None else int(count)


def make_chat_v1_judge(url: str) -> Callable[[JudgeRequest], JudgeResponse]:
    """Create a client of version 1 of the chat API."""
    client: Any = cohere.Client(
        judge_protocol.API_KEY, base_url=url, timeout=judge_protocol.TIMEOUT_S
    )

    def send_chat(request: JudgeRequest) -> JudgeResponse:
        response = JudgeResponse()
        params: dict[str, Any] = {"model": request.model, "message": request.prompt}
        if request.has_tools:
            params["tools"] = [
                {
                    "name": judge_protocol.TOOL_NAME,
                    "description": judge_protocol.TOOL_DESCRIPTION,
                    "parameter_definitions": {"city": {"type": "str", "required": True}},
                }
            ]
        params["request_options"] = {"max_retries": 0}

        def open_stream() -> Iterable[Any]:
            return client.chat_stream(**params) if request.is_streaming else [client.chat(**params)]

        for chunk in response.capture_errors(open_stream):
            if request.is_streaming:
                _read_event_v1(response, chunk)
            else:
                response.add_text(chunk.text)
                _read_finish_v1(response, chunk)
        return response

    return send_chat


def _read_event_v1(response: JudgeResponse, event: Any) -> None:
    match event.event_type:
        case "text-generation":
            response.add_text(event.text)
        case "stream-end":
            response.finish_reason = judge_protocol.enum_value(event.finish_reason)
            if error := getattr(event, "error", None):
                response.set_error(response.finish_reason or "error", None, str(error))
            _read_finish_v1(response, event.response)


def _read_finish_v1(response: JudgeResponse, chat_response: Any) -> None:
    reason = judge_protocol.enum_value(chat_response.finish_reason)
    response.finish_reason = reason or response.finish_reason
    for call in chat_response.tool_calls or ():
        response.add_tool_call(None, call.name, call.parameters)
    _read_usage(response, chat_response.meta)


def make_judge(url: str) -> Callable[[JudgeRequest], JudgeResponse]:
    """Create the clients of the proxy at this URL."""
    send_by_dialect = {"cohere": make_chat_v2_judge(url), "cohere-v1": make_chat_v1_judge(url)}
    return lambda request: send_by_dialect[request.dialect](request)


if __name__ == "__main__":
    judge_protocol.run(make_judge)
