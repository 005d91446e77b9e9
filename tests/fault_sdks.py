"""Requests of each official SDK under a fault, and their results."""

from __future__ import annotations

import json
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import httpx
import ollama

import judge_runner
from fast_retry_sdks import FastRetryAnthropic, FastRetryOpenAI
from fault_sdk_requests import (
    TIMEOUT_S,
    SdkRequest,
    collect_pieces,
    count_requests,
    list_at,
    sdk_results,
    value_at,
)
from fault_sdk_results import REQUIRED_ARGUMENT, TOOL_NAME, SdkResult
from llm_proxy.routing import SESSION_HEADER
from sdk_clients import KEY

GOOGLE: Final = "google-genai"
SCENARIO: Final = "fox"
"""The scenario's id, which every request sends as its user message."""

_MODEL: Final = "m"
_MESSAGES: Final[list[Any]] = [{"role": "user", "content": SCENARIO}]
_SCHEMA: Final = {
    "type": "object",
    "properties": {REQUIRED_ARGUMENT: {"type": "string"}},
    "required": [REQUIRED_ARGUMENT],
}
_FUNCTION: Final = {"name": TOOL_NAME, "description": "", "parameters": _SCHEMA}


async def _run_chat(
    url: str, requests: Sequence[SdkRequest], request_counts: Counter[str]
) -> dict[str, SdkResult]:
    async with FastRetryOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        count_requests(client._client, request_counts)
        chats: Any = client.chat.completions

        async def send(request: SdkRequest) -> list[Any]:
            tools = request.tool_arguments({"type": "function", "function": _FUNCTION})
            arguments = {"model": _MODEL, "messages": _MESSAGES, **tools, **request.request_options}
            if request.uses_helper:
                async with chats.stream(**arguments) as stream:
                    return [await stream.get_final_completion()]
            return await collect_pieces(
                request, await chats.create(**arguments, stream=request.is_stream)
            )

        return await sdk_results(requests, send, _read_chat)


def _read_chat(request: SdkRequest, pieces: list[Any]) -> SdkResult:
    result = SdkResult()
    calls: dict[int, list[str]] = {}
    for choice in (choice for piece in pieces for choice in list_at(piece, "choices")):
        message = value_at(
            choice, "delta" if request.is_stream and not request.uses_helper else "message"
        )
        result.text += value_at(message, "content") or ""
        result.refusal += value_at(message, "refusal") or ""
        result.finish = value_at(choice, "finish_reason") or result.finish
        for number, call in enumerate(list_at(message, "tool_calls")):
            index = value_at(call, "index")
            call_fields = calls.setdefault(number if index is None else index, ["", ""])
            call_fields[0] += value_at(call, "function", "name") or ""
            call_fields[1] += value_at(call, "function", "arguments") or ""
    result.calls = [(name, arguments) for name, arguments in calls.values()]
    return result


async def _run_responses(
    url: str, requests: Sequence[SdkRequest], request_counts: Counter[str]
) -> dict[str, SdkResult]:
    async with FastRetryOpenAI(base_url=f"{url}/v1", api_key=KEY) as client:
        count_requests(client._client, request_counts)
        responses: Any = client.responses

        async def send(request: SdkRequest) -> list[Any]:
            tools = request.tool_arguments({"type": "function", **_FUNCTION})
            arguments = {"model": _MODEL, "input": SCENARIO, **tools, **request.request_options}
            if request.uses_helper:
                async with responses.stream(**arguments) as stream:
                    return [await stream.get_final_response()]
            return await collect_pieces(
                request, await responses.create(**arguments, stream=request.is_stream)
            )

        return await sdk_results(requests, send, _read_responses)


def _read_responses(request: SdkRequest, pieces: list[Any]) -> SdkResult:
    if not request.is_stream or request.uses_helper:
        return _read_response(pieces[0])
    result = SdkResult()
    for event in pieces:
        match value_at(event, "type"):
            case "response.output_text.delta":
                result.text += value_at(event, "delta") or ""
            case "response.refusal.delta":
                result.refusal += value_at(event, "delta") or ""
            case "response.output_item.done" if value_at(event, "item", "type") == "function_call":
                result.calls.append(_function_call(value_at(event, "item")))
            case "error":
                result.finish = "error"
            case "response.completed" | "response.incomplete" | "response.failed":
                result.finish = _status(value_at(event, "response"))
            case _:
                pass
    return result


def _read_response(response: Any) -> SdkResult:
    result = SdkResult(finish=_status(response))
    for item in list_at(response, "output"):
        if value_at(item, "type") == "function_call":
            result.calls.append(_function_call(item))
        for part in list_at(item, "content"):
            result.text += value_at(part, "text") or ""
            result.refusal += value_at(part, "refusal") or ""
    return result


def _status(response: Any) -> str:
    return value_at(response, "incomplete_details", "reason") or value_at(response, "status") or ""


def _function_call(item: Any) -> tuple[str, str]:
    return value_at(item, "name") or "", value_at(item, "arguments") or ""


async def _run_anthropic(
    url: str, requests: Sequence[SdkRequest], request_counts: Counter[str]
) -> dict[str, SdkResult]:
    async with FastRetryAnthropic(base_url=url, api_key=KEY) as client:
        count_requests(client._client, request_counts)
        messages: Any = client.messages

        async def send(request: SdkRequest) -> list[Any]:
            tools = request.tool_arguments({"name": TOOL_NAME, "input_schema": _SCHEMA})
            arguments = {
                "model": _MODEL,
                "max_tokens": 99,
                "messages": _MESSAGES,
                **tools,
                **request.request_options,
            }
            if request.uses_helper:
                async with messages.stream(**arguments) as stream:
                    return [await stream.get_final_message()]
            return await collect_pieces(
                request, await messages.create(**arguments, stream=request.is_stream)
            )

        return await sdk_results(requests, send, _read_messages)


def _read_messages(request: SdkRequest, pieces: list[Any]) -> SdkResult:
    if not request.is_stream or request.uses_helper:
        return _read_message(pieces[0])
    result = SdkResult()
    for event in pieces:
        match value_at(event, "type"):
            case "content_block_start" if value_at(event, "content_block", "type") == "tool_use":
                result.calls.append((value_at(event, "content_block", "name") or "", ""))
            case "content_block_delta":
                result.text += value_at(event, "delta", "text") or ""
                if (more := value_at(event, "delta", "partial_json")) and result.calls:
                    name, arguments = result.calls[-1]
                    result.calls[-1] = name, arguments + more
            case "message_delta":
                result.finish = value_at(event, "delta", "stop_reason") or ""
            case _:
                pass
    result.calls = [(name, arguments or "{}") for name, arguments in result.calls]
    return result


def _read_message(message: Any) -> SdkResult:
    result = SdkResult(finish=value_at(message, "stop_reason") or "")
    for block in list_at(message, "content"):
        if value_at(block, "type") == "tool_use":
            result.calls.append(
                (value_at(block, "name") or "", json.dumps(value_at(block, "input")))
            )
        result.text += value_at(block, "text") or ""
    return result


async def _run_ollama(
    url: str, requests: Sequence[SdkRequest], request_counts: Counter[str]
) -> dict[str, SdkResult]:
    ssl_context = ssl.create_default_context()  # one for all of them: it is slow to make

    async def send(request: SdkRequest) -> list[Any]:
        timeout = httpx.Timeout(TIMEOUT_S, read=request.read_timeout_s)
        client_options = {
            "headers": {SESSION_HEADER: request.session_id},
            "timeout": timeout,
            "verify": ssl_context,
        }
        tools = request.tool_arguments({"type": "function", "function": _FUNCTION})
        async with ollama.AsyncClient(url, **client_options) as client:
            count_requests(client._client, request_counts)
            chat: Any = client.chat
            return await collect_pieces(
                request, await chat(_MODEL, _MESSAGES, **tools, stream=request.is_stream)
            )

    return await sdk_results(requests, send, _read_ollama)


def _read_ollama(_request: SdkRequest, pieces: list[Any]) -> SdkResult:
    result = SdkResult()
    for piece in pieces:
        result.text += value_at(piece, "message", "content") or ""
        result.finish = value_at(piece, "done_reason") or result.finish
        for call in list_at(piece, "message", "tool_calls"):
            arguments = json.dumps(value_at(call, "function", "arguments"))
            result.calls.append((value_at(call, "function", "name") or "", arguments))
    return result


async def _run_google(
    url: str, requests: Sequence[SdkRequest], request_counts: Counter[str]
) -> dict[str, SdkResult]:
    """Run the SDK in its own environment."""
    request_documents = [
        {
            "id": request.session_id,
            "model": _MODEL,
            "say": SCENARIO,
            "stream": request.is_stream,
            "limit": request.read_timeout_s,
            "before": request.case.requests_before,
            "tools": request.tool_arguments(
                {"name": TOOL_NAME, "parameters_json_schema": _SCHEMA}
            ).get("tools"),
        }
        for request in requests
    ]
    program = judge_runner.FOLDER / GOOGLE / "injected_faults.py"
    results = json.loads(
        await judge_runner.run_program(program, {"url": url, "asks": request_documents})
    )
    request_counts.update({name: result["sent"] for name, result in results.items()})
    return {name: _read_google(result) for name, result in results.items()}


def _read_google(result: dict[str, Any]) -> SdkResult:
    calls = [(name, json.dumps(arguments)) for name, arguments in result["calls"]]
    module, name = result["raised"]
    return SdkResult((module, name), text=result["text"], calls=calls, finish=result["finish"])


SdkRunner = Callable[[str, Sequence[SdkRequest], Counter[str]], Awaitable[dict[str, SdkResult]]]
"""Sends requests to a URL, counts those sent by session; returns the results by session."""

COLUMNS: Final[dict[str, SdkRunner]] = {
    "openai-chat": _run_chat,
    "openai-responses": _run_responses,
    "anthropic": _run_anthropic,
    GOOGLE: _run_google,
    "ollama": _run_ollama,
}
"""For each SDK, the function that sends its requests."""
SDKS_WITH_HELPER: Final = frozenset(("openai-chat", "openai-responses", "anthropic"))
"""The SDKs with a helper `.stream()`."""
