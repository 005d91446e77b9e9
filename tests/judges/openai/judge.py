"""OpenAI's own client for Python: chats, legacy completions, responses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import judge_protocol
import openai
from judge_protocol import Ask, Heard


def chat(client: Any, ask: Ask) -> Heard:
    """A chat: the first choice of it."""
    heard = Heard(reasoning="", refusal="")
    question: dict[str, Any] = {"model": ask.model, "messages": ask.messages}
    if ask.tools:
        question["tools"] = [judge_protocol.FUNCTION]
    create = client.chat.completions.create
    if ask.stream:
        options = {"include_usage": True}
        for chunk in heard.listen(lambda: create(**question, stream=True, stream_options=options)):
            _chunk(heard, chunk, "delta")
    else:
        for answer in heard.listen(lambda: [create(**question)]):
            _chunk(heard, answer, "message")
    return heard


def _chunk(heard: Heard, chunk: Any, field: str) -> None:
    """A chunk, or a whole completion; what was said stands in a field of each choice."""
    if chunk.usage:
        heard.count(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
    for choice in chunk.choices or ():
        if choice.index:
            continue
        heard.finish = choice.finish_reason or heard.finish
        if (said := getattr(choice, field, None)) is not None:
            _said(heard, said)


def _said(heard: Heard, said: Any) -> None:
    heard.say(_text(said.content))
    heard.refuse(said.refusal)
    # Two names that compatible providers gave it; the SDK passes both on, typed as nothing.
    heard.think(getattr(said, "reasoning_content", None) or getattr(said, "reasoning", None))
    called = said.function_call
    if called and (called.name or called.arguments):
        heard.call(None, called.name, called.arguments, known_as="function")
    for call in said.tool_calls or ():
        known_as = getattr(call, "index", None)
        heard.call(call.id, call.function.name, call.function.arguments, known_as)


def _text(content: Any) -> str | None:
    """The SDK checks none of its types: some providers send lists or objects."""
    return (
        content if isinstance(content, str | None) else json.dumps(content, separators=(",", ":"))
    )


def completion(client: Any, ask: Ask) -> Heard:
    """A legacy completion."""
    heard = Heard(calls=None)
    question: dict[str, Any] = {"model": ask.model, "prompt": ask.say}
    create = client.completions.create
    if ask.stream:
        options = {"include_usage": True}
        chunks = heard.listen(lambda: create(**question, stream=True, stream_options=options))
    else:
        chunks = heard.listen(lambda: [create(**question)])
    for chunk in chunks:
        if chunk.usage:
            heard.count(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
        for choice in chunk.choices or ():
            if not choice.index:
                heard.say(choice.text)
                heard.finish = choice.finish_reason or heard.finish
    return heard


def response(client: Any, ask: Ask) -> Heard:
    """A response."""
    heard = Heard(reasoning="", refusal="")
    question: dict[str, Any] = {"model": ask.model, "input": ask.say}
    if ask.tools:
        function = judge_protocol.FUNCTION["function"]
        question["tools"] = [{"type": "function", "strict": False, **function}]
    create = client.responses.create
    if ask.stream:
        for event in heard.listen(lambda: create(**question, stream=True)):
            _event(heard, event)
    else:
        for answer in heard.listen(lambda: [create(**question)]):
            _ended(heard, answer)
    return heard


def _event(heard: Heard, event: Any) -> None:
    match event.type:
        case "response.output_text.delta":
            heard.say(event.delta)
        case "response.refusal.delta":
            heard.refuse(event.delta)
        case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
            heard.think(event.delta)
        case "response.output_item.done":
            _call(heard, event.item)
        case "response.completed" | "response.incomplete" | "response.failed":
            _ended(heard, event.response)
        case "error":
            heard.failed(event.code or "error", None, event.message)


def _ended(heard: Heard, answer: Any) -> None:
    """The response as a whole, which a stream ends with: it counts before its pieces."""
    unfinished = answer.incomplete_details
    heard.finish = (unfinished and unfinished.reason) or answer.status
    if answer.usage:
        heard.count(answer.usage.input_tokens, answer.usage.output_tokens)
    if answer.error:
        heard.failed(str(answer.error.code), None, answer.error.message)
    if answer.output:
        heard.text, heard.reasoning, heard.refusal, heard.calls = "", "", "", {}
        for item in answer.output:
            _item(heard, item)


def _item(heard: Heard, item: Any) -> None:
    _call(heard, item)
    if item.type == "message":
        for block in item.content:
            if block.type == "output_text":
                heard.say(block.text)
            elif block.type == "refusal":
                heard.refuse(block.refusal)
    elif item.type == "reasoning":
        for block in (*item.summary, *(item.content or ())):
            heard.think(block.text)


def _call(heard: Heard, item: Any) -> None:
    match item.type:
        case "function_call":
            heard.call(item.call_id, item.name, item.arguments)
        case "custom_tool_call":
            heard.call(item.call_id, item.name, item.input)
        case "mcp_call":
            heard.call(item.id, item.name, item.arguments)


DIALECTS = {
    "openai-chat": chat,
    "openai-completions": completion,
    "openai-responses": response,
}


def judge(url: str) -> Callable[[Ask], Heard]:
    """A client of the proxy at this URL."""
    client = openai.OpenAI(
        base_url=f"{url}/v1",
        api_key=judge_protocol.KEY,
        max_retries=0,
        timeout=judge_protocol.TIMEOUT,
    )
    return lambda ask: DIALECTS[ask.dialect](client, ask)


if __name__ == "__main__":
    judge_protocol.run(judge)
