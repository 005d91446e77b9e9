"""Runs conversations with the SDKs of OpenAI, Anthropic and Ollama; with Google's in a process."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any, Final, Protocol

import anthropic
import ollama
import openai

import judge_runner
from conversation_plans import (
    FOLLOW_UP,
    TOOL_RESULT,
    ConversationPlan,
    SdkResponse,
    exception_name,
    merge_parts,
)
from sdk_clients import KEY

GOOGLE: Final = "google-genai"
_MAX_CONCURRENT: Final = 4
"""Number of concurrent conversations: more would delay each other's responses."""


class SdkConversation(Protocol):
    """One conversation with one SDK, and its history in that SDK's format."""

    plan: ConversationPlan

    @abstractmethod
    async def request_turn(self, *, with_reasoning: bool) -> SdkResponse:
        """Request a turn, and add it to the history."""

    @abstractmethod
    def add_user_message(self, text: str) -> None:
        """Add a user message."""

    @abstractmethod
    def add_tool_results(self, result: str) -> None:
        """Add this result for every call of the latest turn."""


async def _run_conversation(conversation: SdkConversation) -> list[SdkResponse]:
    """Run a conversation and return its responses, turn by turn."""
    plan = conversation.plan
    conversation.add_user_message(plan.say)
    responses: list[SdkResponse] = []
    for turn in range(1, plan.turns + 1):
        if responses and any(part[0] == "call" for part in responses[-1].parts):
            conversation.add_tool_results(TOOL_RESULT)
        elif responses:
            conversation.add_user_message(FOLLOW_UP)
        responses.append(
            await _request_with_retries(conversation, with_reasoning=turn in plan.reasoned)
        )
    return responses


async def _request_with_retries(
    conversation: SdkConversation, *, with_reasoning: bool
) -> SdkResponse:
    raised: list[str] = []
    for _ in range(conversation.plan.tries):
        try:
            response = await conversation.request_turn(with_reasoning=with_reasoning)
        except Exception as error:  # the tests record whatever an SDK raises
            raised.append(exception_name(type(error).__module__, type(error).__name__))
        else:
            response.parts, response.raised = merge_parts(response.parts), raised
            return response
    return SdkResponse(raised=raised)


class ChatConversation:
    """A conversation with OpenAI's chat completions."""

    def __init__(self, client: openai.AsyncOpenAI, plan: ConversationPlan) -> None:
        self.plan = plan
        self._create: Any = client.chat.completions.create
        self._messages: list[Any] = []
        if plan.system:
            self._messages.append({"role": "system", "content": plan.system})

    def add_user_message(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def add_tool_results(self, result: str) -> None:
        for call in self._messages[-1]["tool_calls"]:
            tool_message = {"role": "tool", "tool_call_id": call["id"], "content": result}
            self._messages.append(tool_message)

    async def request_turn(self, *, with_reasoning: bool) -> SdkResponse:
        plan, response = self.plan, SdkResponse()
        arguments = _without_none(
            model=plan.model, messages=self._messages, metadata=plan.metadata or None,
            temperature=plan.temperature, top_p=plan.top_p,
            tools=[_function_tool(*item) for item in plan.tools.items()] or None,
            reasoning_effort="low" if with_reasoning else None,
            response_format=plan.schema and {
                "type": "json_schema", "json_schema": {"name": "answer", "schema": plan.schema},
            },
            stream_options={"include_usage": True} if plan.stream else None,
        )  # fmt: skip
        sdk_response = await self._create(**arguments, stream=plan.stream, **_request_options(plan))
        pieces = [item async for item in sdk_response] if plan.stream else [sdk_response]
        calls: dict[int, dict[str, Any]] = {}
        for piece in pieces:
            if piece.usage:
                response.usage = (piece.usage.prompt_tokens, piece.usage.completion_tokens)
            for choice in piece.choices:
                response.finish = choice.finish_reason or response.finish
                _collect_message(response, choice.delta if plan.stream else choice.message, calls)
        _parse_arguments(response.parts)
        self._messages.append(_history_message(response, calls))
        return response


def _collect_message(response: SdkResponse, message: Any, calls: dict[int, dict[str, Any]]) -> None:
    """Collect a message or a delta; `calls` are its calls in request form, by index."""
    # A field of compatible providers, which the SDK passes on untyped.
    response.parts.append(("reasoning", getattr(message, "reasoning_content", None) or ""))
    response.parts += [("text", message.content or ""), ("refusal", message.refusal or "")]
    for position, call in enumerate(message.tool_calls or ()):
        index = getattr(call, "index", position)
        if index not in calls:
            calls[index] = {"id": call.id, "type": "function", "function": {"name": ""}}
            response.parts.append(("call", call.function.name, calls[index]["function"]))
            calls[index]["function"] |= {"name": call.function.name, "arguments": ""}
        calls[index]["function"]["arguments"] += call.function.arguments or ""


def _parse_arguments(parts: list[Any]) -> None:
    """Replace the argument text that each call has accumulated by its parsed arguments."""
    for position, part in enumerate(parts):
        if part[0] == "call":
            parts[position] = ("call", part[1], json.loads(part[2]["arguments"]))


def _history_message(response: SdkResponse, calls: dict[int, Any]) -> dict[str, Any]:
    """The response as a request message; reasoning in the field of compatible providers."""
    text, reasoning = (_joined_parts(response, kind) for kind in ("text", "reasoning"))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if reasoning:
        message["reasoning_content"] = reasoning
    return message | ({"tool_calls": list(calls.values())} if calls else {})


class ResponsesConversation:
    """A conversation with OpenAI's responses, which sends the whole history each time."""

    def __init__(self, client: openai.AsyncOpenAI, plan: ConversationPlan) -> None:
        self.plan = plan
        self._create: Any = client.responses.create
        self._items: list[Any] = []
        self._calls: list[str] = []

    def add_user_message(self, text: str) -> None:
        self._items.append({"role": "user", "content": text})

    def add_tool_results(self, result: str) -> None:
        for call in self._calls:
            output = {"type": "function_call_output", "call_id": call, "output": result}
            self._items.append(output)

    async def request_turn(self, *, with_reasoning: bool) -> SdkResponse:
        plan, response = self.plan, SdkResponse()
        arguments = _without_none(
            model=plan.model,
            input=self._items,
            instructions=plan.system or None,
            metadata=plan.metadata or None,
            temperature=plan.temperature,
            top_p=plan.top_p,
            tools=[
                _function_tool(*entry)["function"] | {"type": "function"}
                for entry in plan.tools.items()
            ]
            or None,
            reasoning={"effort": "low"} if with_reasoning else None,
            include=["reasoning.encrypted_content"] if with_reasoning else None,
            text=plan.schema
            and {"format": {"type": "json_schema", "name": "answer", "schema": plan.schema}},
        )
        sdk_response = await self._create(**arguments, stream=plan.stream, **_request_options(plan))
        if plan.stream:
            sdk_response = [event async for event in sdk_response][-1].response
        self._calls = []
        for item in sdk_response.output:
            self._collect_item(response, item)
        response.finish = sdk_response.status
        response.usage = (sdk_response.usage.input_tokens, sdk_response.usage.output_tokens)
        self._items += [item.to_dict() for item in sdk_response.output]
        return response

    def _collect_item(self, response: SdkResponse, item: Any) -> None:
        match item.type:
            case "message":
                for block in item.content:
                    is_text = block.type == "output_text"
                    content = block.text if is_text else block.refusal
                    response.parts.append(("text" if is_text else "refusal", content))
            case "reasoning":
                response.parts += [("reasoning", entry.text) for entry in item.summary]
                response.signatures += [item.encrypted_content] if item.encrypted_content else []
            case "function_call":
                response.parts.append(("call", item.name, json.loads(item.arguments)))
                self._calls.append(item.call_id)
            case other:
                response.parts.append((other, item.to_dict()))


class MessagesConversation:
    """A conversation with Anthropic's messages."""

    def __init__(self, client: anthropic.AsyncAnthropic, plan: ConversationPlan) -> None:
        self.plan = plan
        self._client = client
        self._messages: list[Any] = []

    def add_user_message(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def add_tool_results(self, result: str) -> None:
        blocks = [
            {"type": "tool_result", "tool_use_id": block.id, "content": result}
            for block in self._messages[-1]["content"]
            if block.type == "tool_use"
        ]
        self._messages.append({"role": "user", "content": blocks})

    async def request_turn(self, *, with_reasoning: bool) -> SdkResponse:
        plan, response = self.plan, SdkResponse()
        arguments = _without_none(
            model=plan.model, messages=self._messages, system=plan.system or None,
            max_tokens=2048, metadata=plan.metadata or None,
            tools=[{"name": name, "input_schema": schema} for name, schema in plan.tools.items()]
            or None,
            thinking={"type": "enabled", "budget_tokens": 1024} if with_reasoning else None,
            output_config=plan.schema and {
                "format": {"type": "json_schema", "schema": plan.schema}
            },
            # This SDK has no argument for either; it sends `extra_body` as it is.
            extra_body=_without_none(temperature=plan.temperature, top_p=plan.top_p) or None,
        )  # fmt: skip
        messages: Any = self._client.messages
        if plan.stream:
            async with messages.stream(**arguments, **_request_options(plan)) as stream:
                sdk_response = await stream.get_final_message()
        else:
            sdk_response = await messages.create(**arguments, **_request_options(plan))
        for block in sdk_response.content:
            _collect_block(response, block)
        response.finish = sdk_response.stop_reason
        if sdk_response.stop_details:
            response.parts.append(("refusal", sdk_response.stop_details.explanation or ""))
        response.usage = (sdk_response.usage.input_tokens, sdk_response.usage.output_tokens)
        self._messages.append({"role": "assistant", "content": sdk_response.content})
        return response


def _collect_block(response: SdkResponse, block: Any) -> None:
    match block.type:
        case "text":
            response.parts.append(("text", block.text))
        case "thinking":
            response.parts.append(("reasoning", block.thinking))
            response.signatures += [block.signature] if block.signature else []
        case "redacted_thinking":
            response.signatures.append(block.data)
        case "tool_use":
            response.parts.append(("call", block.name, block.input))
        case other:
            response.parts.append((other, block.to_dict()))


class OllamaConversation:
    """A conversation with Ollama's chat."""

    def __init__(self, client: ollama.AsyncClient, plan: ConversationPlan) -> None:
        self.plan = plan
        self._client = client
        self._messages: list[Any] = []
        if plan.system:
            self._messages.append({"role": "system", "content": plan.system})

    def add_user_message(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def add_tool_results(self, result: str) -> None:
        for call in self._messages[-1]["tool_calls"]:
            name = call["function"]["name"]
            self._messages.append({"role": "tool", "tool_name": name, "content": result})

    async def request_turn(self, *, with_reasoning: bool) -> SdkResponse:
        plan, response = self.plan, SdkResponse()
        arguments = _without_none(
            model=plan.model,
            messages=self._messages,
            think=with_reasoning or None,
            format=plan.schema,
            tools=[_function_tool(*item) for item in plan.tools.items()] or None,
            options=_without_none(temperature=plan.temperature, top_p=plan.top_p) or None,
        )
        chat: Any = self._client.chat
        sdk_response = await chat(**arguments, stream=plan.stream)
        for line in [item async for item in sdk_response] if plan.stream else [sdk_response]:
            response.parts.append(("reasoning", line.message.thinking or ""))
            response.parts.append(("text", line.message.content or ""))
            for call in line.message.tool_calls or ():
                response.parts.append(("call", call.function.name, dict(call.function.arguments)))
            response.finish = line.done_reason or response.finish
            if line.done:
                response.usage = (line.prompt_eval_count, line.eval_count)
        calls = [part for part in response.parts if part[0] == "call"]
        tool_calls = [{"function": {"name": item[1], "arguments": item[2]}} for item in calls]
        content_fields = {
            "content": _joined_parts(response, "text"),
            "thinking": _joined_parts(response, "reasoning"),
        }
        self._messages.append({"role": "assistant", **content_fields, "tool_calls": tool_calls})
        return response


def _without_none(**named_values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in named_values.items() if value is not None}


def _request_options(plan: ConversationPlan) -> dict[str, Any]:
    """Per-request options of the SDKs of OpenAI and Anthropic."""
    return {"extra_headers": plan.headers, "timeout": plan.patience}


def _function_tool(name: str, schema: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def _joined_parts(response: SdkResponse, kind: str) -> str:
    return "".join(part[1] for part in response.parts if part[0] == kind)


async def _run_with_openai(
    url: str, plans: Sequence[ConversationPlan], conversation_class: Any
) -> list[list[SdkResponse]]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        clients = (client.with_options(max_retries=plan.retries) for plan in plans)
        return await _run_all(
            conversation_class(*item) for item in zip(clients, plans, strict=True)
        )


async def _run_chats(url: str, plans: Sequence[ConversationPlan]) -> list[list[SdkResponse]]:
    return await _run_with_openai(url, plans, ChatConversation)


async def _run_responses(url: str, plans: Sequence[ConversationPlan]) -> list[list[SdkResponse]]:
    return await _run_with_openai(url, plans, ResponsesConversation)


async def _run_messages(url: str, plans: Sequence[ConversationPlan]) -> list[list[SdkResponse]]:
    async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client:
        clients = (client.with_options(max_retries=plan.retries) for plan in plans)
        return await _run_all(
            MessagesConversation(*item) for item in zip(clients, plans, strict=True)
        )


async def _run_ollama(url: str, plans: Sequence[ConversationPlan]) -> list[list[SdkResponse]]:
    async with AsyncExitStack() as stack:
        conversations: list[SdkConversation] = []
        for plan in plans:  # this SDK takes neither headers nor time limits per request
            client = ollama.AsyncClient(
                url, headers=plan.headers, timeout=plan.patience, verify=False
            )
            conversations.append(OllamaConversation(await stack.enter_async_context(client), plan))
        return await _run_all(conversations)


async def _run_google(url: str, plans: Sequence[ConversationPlan]) -> list[list[SdkResponse]]:
    """Run them in the environment of Google's SDK."""
    program = judge_runner.FOLDER / GOOGLE / "conversations.py"
    plan_documents = [asdict(plan) | {"headers": plan.headers} for plan in plans]
    responses = json.loads(
        await judge_runner.run_program(program, {"url": url, "talks": plan_documents})
    )
    return [[_parse_google_turn(turn) for turn in turns] for turns in responses]


def _parse_google_turn(turn: dict[str, Any]) -> SdkResponse:
    usage = None if turn["usage"] is None else tuple(turn["usage"])
    raised = [exception_name(*item) for item in turn["raised"]]
    return SdkResponse(merge_parts(turn["parts"]), turn["finish"], usage, turn["seals"], raised)


async def _run_all(conversations: Iterable[SdkConversation]) -> list[list[SdkResponse]]:
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

    async def run_one(conversation: SdkConversation) -> list[SdkResponse]:
        async with semaphore:
            return await _run_conversation(conversation)

    return list(await asyncio.gather(*map(run_one, conversations)))


CONVERSATION_RUNNERS: Final[
    dict[str, Callable[[str, Sequence[ConversationPlan]], Awaitable[list[list[SdkResponse]]]]]
] = {
    "openai-chat": _run_chats,
    "openai-responses": _run_responses,
    "anthropic": _run_messages,
    "gemini": _run_google,
    "ollama": _run_ollama,
}
"""By dialect: runs conversations with the proxy at a URL, and returns each one's responses."""


def missing_reason(dialect: str) -> str:
    """Why this dialect's SDK cannot run here; empty if it can run."""
    return judge_runner.missing_reason(GOOGLE) if dialect == "gemini" else ""
