"""A judge for Anthropic's SDK for Python, and for how it accumulates a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import judge_protocol
from judge_protocol import JudgeRequest, JudgeResponse

MAX_TOKENS = 1024


def send_message(client: Any, request: JudgeRequest) -> JudgeResponse:
    """Send a request to the Messages API."""
    response = JudgeResponse(reasoning="")
    params: dict[str, Any] = {
        "model": request.model,
        "max_tokens": MAX_TOKENS,
        "messages": request.messages,
    }
    if request.has_tools:
        schema = {"input_schema": judge_protocol.TOOL_PARAMETERS}
        params["tools"] = [{"name": judge_protocol.TOOL_NAME, **schema}]
    if not request.is_streaming:
        for message in response.capture_errors(lambda: [client.messages.create(**params)]):
            _read_message(response, message)
        return response
    snapshot = None
    snapshots = response.capture_errors(lambda: _snapshots(client, params))
    for snapshot in snapshots:  # noqa: B007 # only the last is read
        pass
    if snapshot is not None:
        _read_message(response, snapshot)
    return response


def _snapshots(client: Any, params: dict[str, Any]) -> Iterator[Any]:
    """The message as the SDK has accumulated it after each event."""
    with client.messages.stream(**params) as stream:
        for _ in stream:
            yield stream.current_message_snapshot


def _read_message(response: JudgeResponse, message: Any) -> None:
    response.finish_reason = message.stop_reason
    response.set_usage(message.usage.input_tokens, message.usage.output_tokens)
    for block in message.content:
        match block.type:
            case "text":
                response.add_text(block.text)
            case "thinking":
                response.add_reasoning(block.thinking)
            case "compaction":
                response.add_reasoning(block.content)
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                response.add_tool_call(block.id, block.name, block.input)


def make_judge(url: str) -> Callable[[JudgeRequest], JudgeResponse]:
    """Create a client of the proxy at this URL."""
    client = anthropic.Anthropic(
        base_url=url,
        api_key=judge_protocol.API_KEY,
        max_retries=0,
        timeout=judge_protocol.TIMEOUT_S,
    )
    return lambda request: send_message(client, request)


if __name__ == "__main__":
    judge_protocol.run(make_judge)
