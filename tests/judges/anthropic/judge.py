"""Anthropic's own client for Python, and its accumulation of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import judge_protocol
from judge_protocol import Ask, Heard

MAX_TOKENS = 1024


def message(client: Any, ask: Ask) -> Heard:
    """A message."""
    heard = Heard(reasoning="")
    question: dict[str, Any] = {
        "model": ask.model,
        "max_tokens": MAX_TOKENS,
        "messages": ask.messages,
    }
    if ask.tools:
        function = judge_protocol.FUNCTION["function"]
        schema = {"input_schema": function["parameters"]}
        question["tools"] = [{"name": function["name"], **schema}]
    if not ask.stream:
        for answer in heard.listen(lambda: [client.messages.create(**question)]):
            _message(heard, answer)
        return heard
    last = None
    for last in heard.listen(lambda: _snapshots(client, question)):  # noqa: B007 # the last counts
        pass
    if last is not None:
        _message(heard, last)
    return heard


def _snapshots(client: Any, question: dict[str, Any]) -> Iterator[Any]:
    """The message as the SDK has it after each event."""
    with client.messages.stream(**question) as stream:
        for _ in stream:
            yield stream.current_message_snapshot


def _message(heard: Heard, answer: Any) -> None:
    heard.finish = answer.stop_reason
    heard.count(answer.usage.input_tokens, answer.usage.output_tokens)
    for block in answer.content:
        match block.type:
            case "text":
                heard.say(block.text)
            case "thinking":
                heard.think(block.thinking)
            case "compaction":
                heard.think(block.content)
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                heard.call(block.id, block.name, block.input)


def judge(url: str) -> Callable[[Ask], Heard]:
    """A client of the proxy at this URL."""
    client = anthropic.Anthropic(
        base_url=url, api_key=judge_protocol.KEY, max_retries=0, timeout=judge_protocol.TIMEOUT
    )
    return lambda ask: message(client, ask)


if __name__ == "__main__":
    judge_protocol.run(judge)
