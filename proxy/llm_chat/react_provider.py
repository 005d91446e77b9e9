"""Gives a provider without tools some: they are described and called in plain text (ReAct).

Requests and responses are translated, so a chat is the same with and without ReAct: calls and
results are parts of the messages, and become text only in the request.

Source: owner's document 002, "ReAct Tool Handler".
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from llm_chat import react
from llm_chat.events import (
    ProviderEvent,
    ReasoningEvent,
    ResponseEnd,
    TextEvent,
    ToolCallStart,
    made_call_id,
)
from llm_chat.provider import Provider, provider_events
from llm_chat.token_limits import TokenCounter, TokenLimits
from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage, ToolDefinition
from llm_proxy.dialects.lenient_json import compact_json
from llm_proxy.turns import Json, Reasoning, Text, ToolCall, ToolResult

_THOUGHT_MARKERS: Final = ("Thought:", "**Thought:**", "**Thought**:")
_STOP_SEQUENCE: Final = "\nObservation:"
"""Stops models that would go on and invent the result of a tool."""


class ReactProvider:
    """A provider whose tools are text."""

    def __init__(self, provider: Provider) -> None:
        """`provider` gets requests without tools."""
        self.name = provider.name
        self._provider = provider

    async def chat_stream(self, request: Conversation) -> AsyncGenerator[ProviderEvent, None]:
        """Request a response and yield its events, with at most one call."""
        text_request = self.text_request(request)
        if not _offered_tools(request):
            async with aclosing(provider_events(self._provider, text_request)) as events:
                async for event in events:
                    yield event
            return
        stream = react.ReactStream()
        texts: list[str] = []
        async with aclosing(provider_events(self._provider, text_request)) as events:
            async for event in events:
                match event:
                    case TextEvent(text):
                        texts.append(text)
                        for piece in stream.feed(text):
                            yield _event(piece)
                    case ResponseEnd():
                        for piece in stream.close():
                            yield _event(piece)
                        text = "".join(texts)
                        seed = f"{len(request.messages)} {text}"
                        call_id = made_call_id(seed.encode("utf-8", "surrogatepass"))
                        for last_event in _last_events(event, text, stream.output, call_id):
                            yield last_event
                    case _:
                        yield event

    async def count_tokens(self, request: Conversation) -> int:
        """The tokens of the request as the provider gets it."""
        counter = TokenCounter(self._provider, TokenLimits({}))
        return await counter.count(self.text_request(request))

    def text_request(self, request: Conversation) -> Conversation:
        """The request as the provider gets it: with instructions instead of tools."""
        text_request = replace(
            request, messages=tuple(_text_messages(request)), tools=(), tool_choice=None
        )
        if not (tools := _offered_tools(request)):
            return text_request
        match request.tool_choice:
            case "required":
                demand = "Use a tool in your next response."
            case ForcedTool(name):
                demand = f"Use the tool {name} in your next response."
            case _:
                demand = ""
        can_stop = getattr(self._provider, "supports_stop_sequences", False)
        return replace(
            text_request,
            system="\n\n".join(filter(None, (request.system, react.format_tools(tools), demand))),
            stop_sequences=(*request.stop_sequences, *((_STOP_SEQUENCE,) * can_stop)),
        )


def _offered_tools(request: Conversation) -> tuple[ToolDefinition, ...]:
    return () if request.tool_choice == "none" else request.tools


def _text_messages(request: Conversation) -> Iterator[RequestMessage]:
    for message in request.messages:
        match message.role:
            case "assistant":
                yield replace(message, parts=(Text("\n".join(_text_lines(message))),))
            case "tool":
                yield RequestMessage("user", (Text("\n".join(_text_lines(message))),))
            case _:
                yield message


def _text_lines(message: RequestMessage) -> Iterator[str]:
    """The parts of a message in the format of the instructions."""
    has_call = any(isinstance(part, ToolCall) for part in message.parts)
    for part in message.parts:
        match part:
            case Reasoning(text=text) if text:
                yield f"Thought: {text}"
            case Text(text=text):
                # An output in the format is kept as the model wrote it.
                is_formatted = react.parse(text) != react.ReactOutput()
                label = "Thought" if has_call else "Final Answer"
                yield text if is_formatted else f"{label}: {text}"
            case ToolCall(name=name, arguments=arguments):
                yield f"Action: {name}\nAction Input: {arguments or '{}'}"
            case ToolResult(content=content):
                yield react.format_observation(_result_value(content))
            case _:
                pass


def _result_value(content: str) -> Json:
    """The result in the text of a message, which is JSON unless it was written by hand."""
    try:
        value: Json = json.loads(content)
    except (ValueError, RecursionError):
        return content
    return value


def _event(piece: react.ReactPiece) -> TextEvent | ReasoningEvent:
    return TextEvent(piece.text) if isinstance(piece, Text) else ReasoningEvent(piece.text)


def _last_events(
    end: ResponseEnd, text: str, output: react.ReactOutput, call_id: str
) -> Iterator[ProviderEvent]:
    """The call in the output, and the end of the response."""
    thought = (Reasoning(output.thought),) if output.thought else ()
    # The name may be cut off as well: a call without input is one only in a complete output.
    is_cut_off = end.reason == "length" and output.action_input is None
    if output.final_answer is not None:
        yield replace(end, parts=(*thought, Text(output.final_answer)))
    elif output.is_tool_call and (output.has_invalid_input or is_cut_off):
        yield replace(end, parts=(Text(text),), correction=react.INVALID_INPUT_MESSAGE)
    elif output.is_tool_call:
        arguments = compact_json(output.action_input or {})
        action = output.action or ""
        name = action.strip("`\"'*").removesuffix("()") or action
        call = ToolCall(call_id, name, arguments)
        yield ToolCallStart(call)
        yield replace(end, reason="tool", parts=(*thought, call))
    else:
        if output.thought is not None and text.lstrip().startswith(_THOUGHT_MARKERS):
            yield TextEvent(output.thought)  # an answer without its marker was shown as a thought
        yield replace(end, parts=(Text(output.thought or text.strip()),))
