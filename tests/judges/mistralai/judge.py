"""Mistral's own client for Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import judge_protocol
from judge_protocol import Ask, Heard
from mistralai.client import Mistral


def chat(client: Any, ask: Ask) -> Heard:
    """A chat: the first choice of it."""
    heard = Heard(reasoning="")
    question: dict[str, Any] = {"model": ask.model, "messages": ask.messages}
    if ask.tools:
        question["tools"] = [judge_protocol.FUNCTION]

    def start() -> Iterable[Any]:
        if not ask.stream:
            return [client.chat.complete(**question)]
        return (event.data for event in client.chat.stream(**question))

    for chunk in heard.listen(start):
        if chunk.usage:
            heard.count(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
        for choice in chunk.choices:
            if not choice.index:
                heard.finish = judge_protocol.plain(choice.finish_reason) or heard.finish
                _said(heard, choice.delta if ask.stream else choice.message)
    return heard


def _said(heard: Heard, said: Any) -> None:
    if isinstance(said.content, str):
        heard.say(said.content)
    elif isinstance(said.content, list):
        for block in said.content:
            _block(heard, block)
    for call in said.tool_calls or ():
        heard.call(call.id, call.function.name, call.function.arguments)


def _block(heard: Heard, block: Any) -> None:
    if block.type == "text":
        heard.say(block.text)
    elif block.type == "thinking":
        for it in block.thinking:
            heard.think(getattr(it, "text", None))


def judge(url: str) -> Callable[[Ask], Heard]:
    """A client of the proxy at this URL."""
    client = Mistral(
        server_url=url, api_key=judge_protocol.KEY, timeout_ms=int(judge_protocol.TIMEOUT * 1000)
    )
    return lambda ask: chat(client, ask)


if __name__ == "__main__":
    judge_protocol.run(judge)
