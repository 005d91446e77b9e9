"""Ollama's own client for Python: chats and completions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import judge_protocol
import ollama
from judge_protocol import Ask, Heard


def chat(client: Any, ask: Ask) -> Heard:
    """A chat."""
    heard = Heard(reasoning="")
    tools = [judge_protocol.FUNCTION] if ask.tools else None

    def start() -> Iterable[Any]:
        said = client.chat(ask.model, ask.messages, stream=ask.stream, tools=tools)
        return said if ask.stream else [said]

    for line in heard.listen(start):
        heard.say(line.message.content)
        heard.think(line.message.thinking)
        for call in line.message.tool_calls or ():
            heard.call(None, call.function.name, dict(call.function.arguments))
        _ended(heard, line)
    return heard


def generate(client: Any, ask: Ask) -> Heard:
    """A completion."""
    heard = Heard(reasoning="", calls=None)

    def start() -> Iterable[Any]:
        said = client.generate(ask.model, ask.say, stream=ask.stream)
        return said if ask.stream else [said]

    for line in heard.listen(start):
        heard.say(line.response)
        heard.think(line.thinking)
        _ended(heard, line)
    return heard


def _ended(heard: Heard, line: Any) -> None:
    heard.finish = line.done_reason or heard.finish
    if line.done:
        heard.count(line.prompt_eval_count, line.eval_count)


DIALECTS = {"ollama": chat, "ollama-generate": generate}


def judge(url: str) -> Callable[[Ask], Heard]:
    """A client of the proxy at this URL."""
    client = ollama.Client(host=url, timeout=judge_protocol.TIMEOUT)
    return lambda ask: DIALECTS[ask.dialect](client, ask)


if __name__ == "__main__":
    judge_protocol.run(judge)
