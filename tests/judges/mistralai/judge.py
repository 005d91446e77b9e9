"""A judge for Mistral's SDK for Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import judge_protocol
from judge_protocol import JudgeRequest, JudgeResponse
from mistralai.client import Mistral


def send_chat(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send a chat request and read the first choice."""
    response = JudgeResponse(reasoning="")
    params: dict[str, Any] = {"model": request.model, "messages": request.messages}
    if request.has_tools:
        params["tools"] = [judge_protocol.OPENAI_CHAT_TOOL]

    def open_stream() -> Iterable[Any]:
        if not request.is_streaming:
            return [client.chat.complete(**params)]
        return (event.data for event in client.chat.stream(**params))

    for chunk in response.capture_errors(open_stream):
        if chunk.usage:
            response.set_usage(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
        for choice in chunk.choices:
            if not choice.index:
                reason = judge_protocol.enum_value(choice.finish_reason)
                response.finish_reason = reason or response.finish_reason
                _read_message(response, choice.delta if request.is_streaming else choice.message)
    return response


def _read_message(response: JudgeResponse, message: Any) -> None:
    if isinstance(message.content, str):
        response.add_text(message.content)
    elif isinstance(message.content, list):
        for block in message.content:
            _read_block(response, block)
    for call in message.tool_calls or ():
        response.add_tool_call(call.id, call.function.name, call.function.arguments)


def _read_block(response: JudgeResponse, block: Any) -> None:
    if block.type == "text":
        response.add_text(block.text)
    elif block.type == "thinking":
        for thinking_block in block.thinking:
            response.add_reasoning(getattr(thinking_block, "text", None))


def make_judge(url: str) -> Callable[[JudgeRequest], JudgeResponse]:
    """Create a client of the proxy at this URL."""
    client = Mistral(
        server_url=url,
        api_key=judge_protocol.API_KEY,
        timeout_ms=int(judge_protocol.TIMEOUT_S * 1000),
    )
    return lambda request: send_chat(client, request)


if __name__ == "__main__":
    judge_protocol.run(make_judge)
