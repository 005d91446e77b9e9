"""A judge for Ollama's SDK for Python: chats and completions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import judge_protocol
import ollama
from judge_protocol import JudgeRequest, JudgeResponse


def send_chat(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send a chat request."""
    response = JudgeResponse(reasoning="")
    tools = [judge_protocol.OPENAI_CHAT_TOOL] if request.has_tools else None

    def open_stream() -> Iterable[Any]:
        result = client.chat(
            request.model, request.messages, stream=request.is_streaming, tools=tools
        )
        return result if request.is_streaming else [result]

    for chunk in response.capture_errors(open_stream):
        response.add_text(chunk.message.content)
        response.add_reasoning(chunk.message.thinking)
        for call in chunk.message.tool_calls or ():
            response.add_tool_call(None, call.function.name, dict(call.function.arguments))
        _read_finish(response, chunk)
    return response


def send_generate(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send a completion request."""
    response = JudgeResponse(reasoning="", tool_calls=None)

    def open_stream() -> Iterable[Any]:
        result = client.generate(request.model, request.prompt, stream=request.is_streaming)
        return result if request.is_streaming else [result]

    for chunk in response.capture_errors(open_stream):
        response.add_text(chunk.response)
        response.add_reasoning(chunk.thinking)
        _read_finish(response, chunk)
    return response


def _read_finish(response: JudgeResponse, chunk: Any) -> None:
    response.finish_reason = chunk.done_reason or response.finish_reason
    if chunk.done:
        response.set_usage(chunk.prompt_eval_count, chunk.eval_count)


SEND_BY_DIALECT = {"ollama": send_chat, "ollama-generate": send_generate}


def send_request(url: str, request: JudgeRequest) -> JudgeResponse:
    """Send a request to the proxy at this URL."""
    # The client does not close its connections by itself, and is slow to make with certificates.
    with ollama.Client(host=url, timeout=judge_protocol.TIMEOUT_S, verify=False) as client:
        return SEND_BY_DIALECT[request.dialect](client, request)


def make_judge(url: str) -> Callable[[JudgeRequest], JudgeResponse]:
    """Send requests to the proxy at this URL."""
    return lambda request: send_request(url, request)


if __name__ == "__main__":
    judge_protocol.run(make_judge)
