"""The official SDKs, each asked for one answer, and what they make of it."""

from __future__ import annotations

import json
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import httpx
import ollama

import judge_runner
from fast_retry_sdks import HastyAnthropic, HastyOpenAI
from fault_sdk_requests import LONG, Ask, at, given, heard_by, many, note_requests
from fault_sdk_results import NEEDED, TOOL, Heard
from llm_proxy.routing import SESSION_HEADER
from sdk_clients import KEY

GOOGLE: Final = "google-genai"
SCENARIO: Final = "fox"
"""What every request says: the scenario that answers."""

_MODEL: Final = "m"
_MESSAGES: Final[list[Any]] = [{"role": "user", "content": SCENARIO}]
_SCHEMA: Final = {
    "type": "object",
    "properties": {NEEDED: {"type": "string"}},
    "required": [NEEDED],
}
_FUNCTION: Final = {"name": TOOL, "description": "", "parameters": _SCHEMA}


async def _ask_chat(url: str, asks: Sequence[Ask], sent: Counter[str]) -> dict[str, Heard]:
    async with HastyOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        note_requests(client._client, sent)
        chats: Any = client.chat.completions

        async def pieces(it: Ask) -> list[Any]:
            tools = it.tools({"type": "function", "function": _FUNCTION})
            asked = {"model": _MODEL, "messages": _MESSAGES, **tools, **it.told}
            if it.helped:
                async with chats.stream(**asked) as stream:
                    return [await stream.get_final_completion()]
            return await given(it, await chats.create(**asked, stream=it.streams))

        return await heard_by(asks, pieces, _read_chat)


def _read_chat(it: Ask, pieces: list[Any]) -> Heard:
    heard = Heard()
    calls: dict[int, list[str]] = {}
    for choice in (choice for piece in pieces for choice in many(piece, "choices")):
        said = at(choice, "delta" if it.streams and not it.helped else "message")
        heard.text += at(said, "content") or ""
        heard.refusal += at(said, "refusal") or ""
        heard.finish = at(choice, "finish_reason") or heard.finish
        for number, call in enumerate(many(said, "tool_calls")):
            index = at(call, "index")
            known = calls.setdefault(number if index is None else index, ["", ""])
            known[0] += at(call, "function", "name") or ""
            known[1] += at(call, "function", "arguments") or ""
    heard.calls = [(name, arguments) for name, arguments in calls.values()]
    return heard


async def _ask_responses(url: str, asks: Sequence[Ask], sent: Counter[str]) -> dict[str, Heard]:
    async with HastyOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        note_requests(client._client, sent)
        responses: Any = client.responses

        async def pieces(it: Ask) -> list[Any]:
            tools = it.tools({"type": "function", **_FUNCTION})
            asked = {"model": _MODEL, "input": SCENARIO, **tools, **it.told}
            if it.helped:
                async with responses.stream(**asked) as stream:
                    return [await stream.get_final_response()]
            return await given(it, await responses.create(**asked, stream=it.streams))

        return await heard_by(asks, pieces, _read_responses)


def _read_responses(it: Ask, pieces: list[Any]) -> Heard:
    if not it.streams or it.helped:
        return _read_response(pieces[0])
    heard = Heard()
    for event in pieces:
        match at(event, "type"):
            case "response.output_text.delta":
                heard.text += at(event, "delta") or ""
            case "response.refusal.delta":
                heard.refusal += at(event, "delta") or ""
            case "response.output_item.done" if at(event, "item", "type") == "function_call":
                heard.calls.append(_function(at(event, "item")))
            case "error":
                heard.finish = "error"
            case "response.completed" | "response.incomplete" | "response.failed":
                heard.finish = _status(at(event, "response"))
            case _:
                pass
    return heard


def _read_response(response: Any) -> Heard:
    heard = Heard(finish=_status(response))
    for item in many(response, "output"):
        if at(item, "type") == "function_call":
            heard.calls.append(_function(item))
        for part in many(item, "content"):
            heard.text += at(part, "text") or ""
            heard.refusal += at(part, "refusal") or ""
    return heard


def _status(response: Any) -> str:
    return at(response, "incomplete_details", "reason") or at(response, "status") or ""


def _function(item: Any) -> tuple[str, str]:
    return at(item, "name") or "", at(item, "arguments") or ""


async def _ask_anthropic(url: str, asks: Sequence[Ask], sent: Counter[str]) -> dict[str, Heard]:
    async with HastyAnthropic(base_url=url, api_key=KEY) as client:
        note_requests(client._client, sent)
        messages: Any = client.messages

        async def pieces(it: Ask) -> list[Any]:
            tools = it.tools({"name": TOOL, "input_schema": _SCHEMA})
            asked = {"model": _MODEL, "max_tokens": 99, "messages": _MESSAGES, **tools, **it.told}
            if it.helped:
                async with messages.stream(**asked) as stream:
                    return [await stream.get_final_message()]
            return await given(it, await messages.create(**asked, stream=it.streams))

        return await heard_by(asks, pieces, _read_messages)


def _read_messages(it: Ask, pieces: list[Any]) -> Heard:
    if not it.streams or it.helped:
        return _read_message(pieces[0])
    heard = Heard()
    for event in pieces:
        match at(event, "type"):
            case "content_block_start" if at(event, "content_block", "type") == "tool_use":
                heard.calls.append((at(event, "content_block", "name") or "", ""))
            case "content_block_delta":
                heard.text += at(event, "delta", "text") or ""
                if (more := at(event, "delta", "partial_json")) and heard.calls:
                    name, arguments = heard.calls[-1]
                    heard.calls[-1] = name, arguments + more
            case "message_delta":
                heard.finish = at(event, "delta", "stop_reason") or ""
            case _:
                pass
    heard.calls = [(name, arguments or "{}") for name, arguments in heard.calls]
    return heard


def _read_message(message: Any) -> Heard:
    heard = Heard(finish=at(message, "stop_reason") or "")
    for block in many(message, "content"):
        if at(block, "type") == "tool_use":
            heard.calls.append((at(block, "name") or "", json.dumps(at(block, "input"))))
        heard.text += at(block, "text") or ""
    return heard


async def _ask_ollama(url: str, asks: Sequence[Ask], sent: Counter[str]) -> dict[str, Heard]:
    trusts = ssl.create_default_context()  # one for all of them: it takes long to make

    async def pieces(it: Ask) -> list[Any]:
        timeout = httpx.Timeout(LONG, read=it.limit)
        own = {"headers": {SESSION_HEADER: it.id}, "timeout": timeout, "verify": trusts}
        tools = it.tools({"type": "function", "function": _FUNCTION})
        async with ollama.AsyncClient(url, **own) as client:
            note_requests(client._client, sent)
            chat: Any = client.chat
            return await given(it, await chat(_MODEL, _MESSAGES, **tools, stream=it.streams))

    return await heard_by(asks, pieces, _read_ollama)


def _read_ollama(_it: Ask, pieces: list[Any]) -> Heard:
    heard = Heard()
    for piece in pieces:
        heard.text += at(piece, "message", "content") or ""
        heard.finish = at(piece, "done_reason") or heard.finish
        for call in many(piece, "message", "tool_calls"):
            arguments = json.dumps(at(call, "function", "arguments"))
            heard.calls.append((at(call, "function", "name") or "", arguments))
    return heard


async def _ask_google(url: str, asks: Sequence[Ask], sent: Counter[str]) -> dict[str, Heard]:
    """In its own environment."""
    asked = [
        {
            "id": ask.id, "model": _MODEL, "say": SCENARIO, "stream": ask.streams,
            "limit": ask.limit,
            "before": ask.case.before,
            "tools": ask.tools({"name": TOOL, "parameters_json_schema": _SCHEMA}).get("tools"),
        }
        for ask in asks
    ]  # fmt: skip
    program = judge_runner.FOLDER / GOOGLE / "faults.py"
    told = json.loads(await judge_runner.run(program, {"url": url, "asks": asked}))
    sent.update({name: it["sent"] for name, it in told.items()})
    return {name: _read_google(it) for name, it in told.items()}


def _read_google(told: dict[str, Any]) -> Heard:
    calls = [(name, json.dumps(arguments)) for name, arguments in told["calls"]]
    module, name = told["raised"]
    return Heard((module, name), text=told["text"], calls=calls, finish=told["finish"])


Asking = Callable[[str, Sequence[Ask], Counter[str]], Awaitable[dict[str, Heard]]]
"""Asks at a URL, counts by session what is sent, and gives what was heard."""

COLUMNS: Final[dict[str, Asking]] = {
    "openai-chat": _ask_chat,
    "openai-responses": _ask_responses,
    "anthropic": _ask_anthropic,
    GOOGLE: _ask_google,
    "ollama": _ask_ollama,
}
"""Each SDK, and what asks it."""
HELPING: Final = frozenset(("openai-chat", "openai-responses", "anthropic"))
"""Those with a helper `.stream()`."""
