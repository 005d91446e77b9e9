"""Asks through LiteLLM; `talking` says how.

Its answers have OpenAI's shape, whatever the wire is.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else the import asks the network for it

import litellm
from framework_judge import Talk, main
from judge_protocol import FUNCTION, KEY, PARAMETERS, TIMEOUT, TOOL, TOOL_SAYS, Ask, Heard

FLAT_WEATHER: Final = {
    "type": "function",
    "name": TOOL,
    "description": TOOL_SAYS,
    "parameters": PARAMETERS,
}

ROUTES: Final = {
    "openai-chat": ("openai", "/v1"),
    "anthropic": ("anthropic", ""),
    "gemini": ("gemini", "/v1beta"),
    "ollama": ("ollama_chat", ""),
    "cohere": ("cohere_chat", "/v2/chat"),
    "bedrock": ("bedrock/converse", ""),
}
"""The prefix of a model, and what its users put behind the address."""

AWS: Final = {
    "aws_access_key_id": KEY,
    "aws_secret_access_key": KEY,
    "aws_region_name": "us-east-1",
}


def question(url: str, ask: Ask, prefix: str, path: str) -> dict[str, Any]:
    """What every function of LiteLLM is given."""
    key = AWS if ask.dialect == "bedrock" else {"api_key": KEY}
    base = "aws_bedrock_runtime_endpoint" if ask.dialect == "bedrock" else "api_base"
    return {
        "model": f"{prefix}/{ask.model}",
        base: f"{url}{path}",
        **key,
        "stream": ask.stream,
        "timeout": TIMEOUT,
        "num_retries": 0,
        "max_retries": 0,
    }


def chat(prefix: str, path: str, url: str, ask: Ask) -> Talk:
    """One question to `completion`."""
    calls: list[list[Any]] = []

    async def pieces() -> AsyncIterator[Any]:
        answer: Any = litellm.completion(
            **question(url, ask, prefix, path),
            messages=[{"role": "user", "content": ask.say}],
            **({"tools": [FUNCTION]} if ask.tools else {}),
            **({"stream_options": {"include_usage": True}} if ask.stream else {}),
        )
        for piece in answer if ask.stream else [answer]:
            yield piece

    def hear(heard: Heard, piece: Any) -> None:
        for choice in piece.choices:
            said = choice.delta if ask.stream else choice.message
            hear_message(heard, calls, said)
            heard.finish = choice.finish_reason or heard.finish
        if usage := getattr(piece, "usage", None):
            heard.count(usage.prompt_tokens, usage.completion_tokens)

    def end(heard: Heard) -> None:
        for id_, name, arguments in calls:
            heard.call(id_, name, arguments)

    return Talk(pieces, hear, end)


def hear_message(heard: Heard, calls: list[list[Any]], said: Any) -> None:
    """What a message, or a piece of one, says; a call's id comes with its first piece."""
    kept_apart = getattr(said, "provider_specific_fields", None) or {}
    heard.say(said.content)
    heard.think(getattr(said, "reasoning_content", None))
    heard.refuse(kept_apart.get("refusal"))
    for call in said.tool_calls or []:
        if call.id:  # its index is 0 for every call of some routes
            calls.append([call.id, "", ""])
        calls[-1][1] += call.function.name or ""
        calls[-1][2] += call.function.arguments or ""


def responses(url: str, ask: Ask) -> Talk:
    """One question to `responses`."""

    async def pieces() -> AsyncIterator[Any]:
        answer: Any = litellm.responses(
            **question(url, ask, "openai", "/v1"),
            input=ask.say,
            **({"tools": [FLAT_WEATHER]} if ask.tools else {}),
        )
        for piece in answer if ask.stream else [answer]:
            yield piece

    return Talk(pieces, hear_event if ask.stream else hear_response)


def hear_event(heard: Heard, event: Any) -> None:
    """What one event of a streamed response adds."""
    match str(getattr(event.type, "value", event.type)):
        case "response.output_text.delta":
            heard.say(event.delta)
        case "response.refusal.delta":
            heard.refuse(event.delta)
        case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
            heard.think(event.delta)
        case "response.output_item.done":
            hear_call(heard, event.item)
        case "response.completed" | "response.incomplete" | "response.failed":
            hear_end(heard, event.response)
        case _:
            pass


def hear_response(heard: Heard, response: Any) -> None:
    """What a whole response says."""
    for item in response.output:
        match item.type:
            case "message":
                for part in item.content:
                    heard.say(getattr(part, "text", None))
                    heard.refuse(getattr(part, "refusal", None))
            case "reasoning":
                heard.think("".join(part.text for part in item.summary))
            case _:
                hear_call(heard, item)
    hear_end(heard, response)


def hear_call(heard: Heard, item: Any) -> None:
    """A tool call, if this item is one."""
    if item.type == "function_call":
        heard.call(item.call_id, item.name, item.arguments)


def hear_end(heard: Heard, response: Any) -> None:
    """How a response ended, and what it used."""
    details = response.incomplete_details
    heard.finish = details.reason if details else response.status
    if usage := response.usage:
        heard.count(usage.input_tokens, usage.output_tokens)


litellm.suppress_debug_info = True
main(
    __file__,
    {
        "openai-responses": responses,
        **{dialect: partial(chat, *route) for dialect, route in ROUTES.items()},
    },
)
