"""A judge for Groq's SDK for Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import groq
import judge_protocol
from judge_protocol import JudgeRequest, JudgeResponse


def send_chat(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send a chat request and read the first choice."""
    response = JudgeResponse(reasoning="")
    params: dict[str, Any] = {"model": request.model, "messages": request.messages}
    if request.has_tools:
        params["tools"] = [judge_protocol.OPENAI_CHAT_TOOL]

    def open_stream() -> Iterable[Any]:
        result = client.chat.completions.create(**params, stream=request.is_streaming)
        return result if request.is_streaming else [result]

    for chunk in response.capture_errors(open_stream):
        # Only Groq's own chunks have the usage in `x_groq`, which existed before `usage`.
        x_groq = getattr(chunk, "x_groq", None)
        if usage := chunk.usage or (x_groq and x_groq.usage):
            response.set_usage(usage.prompt_tokens, usage.completion_tokens)
        for choice in chunk.choices or ():
            if not choice.index:
                response.finish_reason = choice.finish_reason or response.finish_reason
                _read_message(response, choice.delta if request.is_streaming else choice.message)
    return response


def _read_message(response: JudgeResponse, message: Any) -> None:
    response.add_text(message.content)
    response.add_reasoning(message.reasoning)
    for call in message.tool_calls or ():
        index = getattr(call, "index", None)
        response.add_tool_call(call.id, call.function.name, call.function.arguments, index)


def make_judge(url: str) -> Callable[[JudgeRequest], JudgeResponse]:
    """Create a client of the proxy at this URL."""
    client = groq.Groq(
        base_url=url,
        api_key=judge_protocol.API_KEY,
        max_retries=0,
        timeout=judge_protocol.TIMEOUT_S,
    )
    return lambda request: send_chat(client, request)


if __name__ == "__main__":
    judge_protocol.run(make_judge)
