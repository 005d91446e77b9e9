"""Groq's own client for Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import groq
import judge_protocol
from judge_protocol import Ask, Heard


def chat(client: Any, ask: Ask) -> Heard:
    """A chat: the first choice of it."""
    heard = Heard(reasoning="")
    question: dict[str, Any] = {"model": ask.model, "messages": ask.messages}
    if ask.tools:
        question["tools"] = [judge_protocol.FUNCTION]

    def start() -> Iterable[Any]:
        answer = client.chat.completions.create(**question, stream=ask.stream)
        return answer if ask.stream else [answer]

    for chunk in heard.listen(start):
        # Only Groq's own chunks keep their count in `x_groq`, which came before `usage`.
        timed = getattr(chunk, "x_groq", None)
        if counts := chunk.usage or (timed and timed.usage):
            heard.count(counts.prompt_tokens, counts.completion_tokens)
        for choice in chunk.choices or ():
            if not choice.index:
                heard.finish = choice.finish_reason or heard.finish
                _said(heard, choice.delta if ask.stream else choice.message)
    return heard


def _said(heard: Heard, said: Any) -> None:
    heard.say(said.content)
    heard.think(said.reasoning)
    for call in said.tool_calls or ():
        known_as = getattr(call, "index", None)
        heard.call(call.id, call.function.name, call.function.arguments, known_as)


def judge(url: str) -> Callable[[Ask], Heard]:
    """A client of the proxy at this URL."""
    client = groq.Groq(
        base_url=url, api_key=judge_protocol.KEY, max_retries=0, timeout=judge_protocol.TIMEOUT
    )
    return lambda ask: chat(client, ask)


if __name__ == "__main__":
    judge_protocol.run(judge)
