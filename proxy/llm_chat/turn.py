"""One turn of a conversation: a response of the model, and the results of the tools it calls.

Source: owner's document 002, "Turn".
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import groupby

from llm_chat.events import (
    ErrorEvent,
    ReasoningEvent,
    ResponseEnd,
    TextEvent,
    ToolCallResult,
    ToolCallStart,
    TurnEvent,
    call_args,
)
from llm_chat.provider import Provider, provider_events
from llm_chat.tools import ToolRunner
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.turns import Json, Part, Reasoning, Text, ToolCall, ToolResult


class Turn:
    """A turn of a conversation."""

    def __init__(
        self,
        provider: Provider,
        tool_runner: ToolRunner,
        messages: list[RequestMessage],
        options: Conversation,
    ) -> None:
        """The request is `options` with these messages; the turn's own are appended to them."""
        self.messages = messages
        self.request = replace(options, messages=tuple(messages))
        self.calls: list[ToolCall] = []
        """The calls so far."""
        self.error: ErrorEvent | None = None
        """The error that ended the turn."""
        self.response: ResponseEnd | None = None
        """The end of the response."""
        self.needs_next_turn = False
        """Whether the model waits for what the turn appended."""
        self._provider = provider
        self._tool_runner = tool_runner
        self._parts: list[Part] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(part.text for part in self._parts if isinstance(part, Text))

    async def execute(self) -> AsyncGenerator[TurnEvent, None]:
        """Request the response, run the tools that it calls, and append both to the messages.

        An error ends the turn: nothing is appended, and no tool runs.  Of a response that the
        provider stopped, no calls are appended, and none runs.
        """
        async with aclosing(provider_events(self._provider, self.request)) as events:
            async for event in events:
                match event:
                    case ResponseEnd():
                        self.response = event
                        break
                    case ErrorEvent():
                        self.error = event
                        yield event
                        return
                    case TextEvent(text=text) if text:
                        self._parts.append(Text(text))
                    case ReasoningEvent(text=text) if text:
                        self._parts.append(Reasoning(text))
                    case ToolCallStart(call=call):
                        self.calls.append(call)
                        self._parts.append(call)
                    case _:
                        pass
                yield event
        results: list[ToolCallResult] = []
        is_cut_off = self.response is not None and self.response.reason == "length"
        calls = [] if self._is_blocked else self.calls
        runs = self._tool_runner.run(calls, is_cut_off=is_cut_off)
        async with aclosing(runs) as results_of_tools:
            async for result in results_of_tools:
                results.append(result)
                yield result
        self._append(results)

    @property
    def _is_blocked(self) -> bool:
        return self.response is not None and self.response.is_blocked

    def _append(self, results: list[ToolCallResult]) -> None:
        """Append the response and the results, together: providers refuse one without the other."""
        given: Iterable[Part] = self.response.parts if self.response else ()
        given = given or _join_pieces(self._parts)
        if self._is_blocked:
            given = (part for part in given if not isinstance(part, ToolCall))
        if parts := tuple(map(_sendable, given)):
            self.messages.append(RequestMessage("assistant", parts))
        if results:
            self.messages.append(RequestMessage("tool", tuple(map(_tool_result, results))))
            self.needs_next_turn = True
        elif self.response and self.response.correction:
            self.messages.append(RequestMessage("user", (Text(self.response.correction),)))
            self.needs_next_turn = True


def _join_pieces(parts: Sequence[Part]) -> Iterator[Part]:
    """The parts, with consecutive pieces of a text as one."""
    for kind, group in groupby(parts, type):
        run = [*group]
        text = "".join(part.text for part in run if isinstance(part, Text | Reasoning))
        if kind is Text:
            yield Text(text)
        elif kind is Reasoning:
            yield Reasoning(text)
        else:
            yield from run


def _sendable(part: Part) -> Part:
    """A part of a response as it can be sent back: with arguments that providers accept."""
    if isinstance(part, ToolCall) and call_args(part) is None:
        return replace(part, arguments="{}")
    return part


def _tool_result(event: ToolCallResult) -> ToolResult:
    call = event.call
    return ToolResult(call.id, result_json(event.result), call.name, event.failed)


def result_json(result: Json) -> str:
    """A result as the model reads it: compact JSON, with all characters as they are."""
    return json.dumps(result, ensure_ascii=False, separators=(",", ":"))
