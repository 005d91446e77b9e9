"""Cohere's own client for Python: version 2 of its chat, and version 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import cohere
import judge_protocol
from judge_protocol import Ask, Heard


def chat(url: str) -> Callable[[Ask], Heard]:
    """Chats of version 2."""
    client: Any = cohere.ClientV2(judge_protocol.KEY, base_url=url, timeout=judge_protocol.TIMEOUT)

    def answer(ask: Ask) -> Heard:
        heard = Heard(reasoning="")
        question: dict[str, Any] = {"model": ask.model, "messages": ask.messages}
        if ask.tools:
            question["tools"] = [judge_protocol.FUNCTION]
        question["request_options"] = {"max_retries": 0}
        if ask.stream:
            for event in heard.listen(lambda: client.chat_stream(**question)):
                _event(heard, event)
        else:
            for said in heard.listen(lambda: [client.chat(**question)]):
                _message(heard, said)
        return heard

    return answer


def _event(heard: Heard, event: Any) -> None:
    match event.type:
        case "content-start" | "content-delta":
            content = event.delta.message.content
            heard.say(getattr(content, "text", None))
            heard.think(getattr(content, "thinking", None))
        case "tool-plan-delta":
            heard.think(event.delta.message.tool_plan)
        case "tool-call-start":
            call = event.delta.message.tool_calls
            heard.call(call.id, call.function.name, call.function.arguments, event.index)
        case "tool-call-delta":
            call = event.delta.message.tool_calls
            heard.call(None, None, call.function.arguments, event.index)
        case "message-end":
            heard.finish = judge_protocol.plain(event.delta.finish_reason)
            _count(heard, event.delta.usage)
            if error := getattr(event.delta, "error", None):
                heard.failed(heard.finish or "error", None, str(error))


def _message(heard: Heard, said: Any) -> None:
    for block in said.message.content or ():
        heard.say(getattr(block, "text", None))
        heard.think(getattr(block, "thinking", None))
    heard.think(said.message.tool_plan)
    for call in said.message.tool_calls or ():
        heard.call(call.id, call.function.name, call.function.arguments)
    heard.finish = judge_protocol.plain(said.finish_reason)
    _count(heard, said.usage)


def _count(heard: Heard, given: Any) -> None:
    """Tokens as counted, else as billed, which are whole numbers that the SDK makes floats."""
    counts = given and (given.tokens or given.billed_units)
    if counts:
        heard.count(_whole(counts.input_tokens), _whole(counts.output_tokens))


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)


def chat_v1(url: str) -> Callable[[Ask], Heard]:
    """Chats of version 1."""
    client: Any = cohere.Client(judge_protocol.KEY, base_url=url, timeout=judge_protocol.TIMEOUT)

    def answer(ask: Ask) -> Heard:
        heard = Heard()
        question: dict[str, Any] = {"model": ask.model, "message": ask.say}
        if ask.tools:
            city = {"city": {"type": "str", "required": True}}
            question["tools"] = [
                {
                    "name": judge_protocol.TOOL,
                    "description": judge_protocol.TOOL_SAYS,
                    "parameter_definitions": city,
                }
            ]
        question["request_options"] = {"max_retries": 0}

        def start() -> Iterable[Any]:
            return client.chat_stream(**question) if ask.stream else [client.chat(**question)]

        for said in heard.listen(start):
            if ask.stream:
                _event_v1(heard, said)
            else:
                heard.say(said.text)
                _ended_v1(heard, said)
        return heard

    return answer


def _event_v1(heard: Heard, event: Any) -> None:
    match event.event_type:
        case "text-generation":
            heard.say(event.text)
        case "stream-end":
            heard.finish = judge_protocol.plain(event.finish_reason)
            if error := getattr(event, "error", None):
                heard.failed(heard.finish or "error", None, str(error))
            _ended_v1(heard, event.response)


def _ended_v1(heard: Heard, said: Any) -> None:
    heard.finish = judge_protocol.plain(said.finish_reason) or heard.finish
    for call in said.tool_calls or ():
        heard.call(None, call.name, call.parameters)
    _count(heard, said.meta)


def judge(url: str) -> Callable[[Ask], Heard]:
    """Clients of the proxy at this URL."""
    dialects = {"cohere": chat(url), "cohere-v1": chat_v1(url)}
    return lambda ask: dialects[ask.dialect](ask)


if __name__ == "__main__":
    judge_protocol.run(judge)
