"""Providers with an API: the conversation runtime calls the model, and the tools run here.

The tools have a thread with an event loop of their own: a plugin that blocks it delays neither the
time limit of the test nor Ctrl-C.

Source: owner's document 003, "Implement the Provider".
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from llm_chat import (
    ChatClient,
    ChatError,
    ChatOptions,
    ErrorEvent,
    Finish,
    Retry,
    TextEvent,
    Tool,
    ToolCallResult,
    ToolCallStart,
    TurnComplete,
    providers_from_environment,
)
from llm_chat.events import call_args
from llm_proxy import dialects
from llm_proxy.conversation import ToolDefinition
from llm_proxy.errors import LlmProxyError
from llm_proxy.turns import Json, Text, Usage
from llm_pytest.errors import ProviderFailed
from llm_pytest.models import TestSpec, Verdict
from llm_pytest.providers.base import LLMProvider
from llm_pytest.toolset import DEFAULT_TOOL_LIMIT_S
from llm_pytest.verdicts import parse_verdict, shortened, too_many_turns

T = TypeVar("T")

_ABANDONED_AFTER_S: Final = DEFAULT_TOOL_LIMIT_S + 5
"""The toolset ends a call before that, unless a tool blocks its event loop."""
_CLOSING_LIMIT_S: Final = 5.0
_STOPPING_LIMIT_S: Final = 1.0


class ChatProvider(LLMProvider):
    """Lets a model carry out tests through its API."""

    dialect: ClassVar[str]
    """The name of its wire format."""

    async def execute_test(
        self,
        spec: TestSpec,
        tools: Sequence[Mapping[str, Any]],
        timeout: float,  # noqa: ASYNC109 # the owner's document gives the signature
        verbose: bool = False,  # as above
    ) -> Verdict:
        """Carry out a test: the first response without tool calls is the verdict."""
        if not self.model:
            raise ProviderFailed(
                f"{self.name} has no default model: set model in the definition, or --llm-model"
            )
        with _tool_thread() as loop:
            self._loop = loop
            try:
                async with asyncio.timeout(timeout):
                    text = await self._converse(spec, tools, verbose=verbose)
            except ChatError as error:
                raise ProviderFailed(f"{self.name}: {error}") from None
            finally:
                await self._close_tools()
        return parse_verdict(text)

    async def call_tool(self, name: str, arguments: dict[str, Json]) -> Json:
        """Call a tool in the thread of the tools."""
        record = await self._run_in_thread(self._context.toolset.call(name, arguments))
        return record.result

    async def _converse(
        self, spec: TestSpec, tools: Sequence[Mapping[str, Any]], *, verbose: bool
    ) -> str:
        """The text of the first response without tool calls."""
        try:
            registry = providers_from_environment(self._context.environ)
        except LlmProxyError as invalid:
            raise ProviderFailed(str(invalid)) from None
        options = ChatOptions(
            provider=self.name,
            model=self.model,
            tool_choice="auto",
            tool_concurrency=1,
            tool_time_limit_s=_ABANDONED_AFTER_S,
            max_turns=spec.max_turns,
        )
        show = self._context.show if verbose else lambda _: None
        text = last_text = ""
        error: ErrorEvent | None = None
        client = ChatClient(registry, tools=[*map(self._tool, tools)], options=options)
        async with client, aclosing(client.chat(self._context.prompt)) as events:
            async for event in events:
                match event:
                    case TextEvent(text=piece):
                        text += piece
                    case ToolCallStart(call=call):
                        self._count_turns(client.turn_number)
                        show(f"{call.name} {shortened(call.arguments)}")
                    case ToolCallResult(call=call, result=result):
                        if call.name not in client.tools or call_args(call) is None:
                            self._context.toolset.record_refusal(call.name, result)
                        show(f"  → {shortened(json.dumps(result, ensure_ascii=False))}")
                    case Retry(wait_s=wait_s, error=retried):
                        show(f"retry in {wait_s:g} s: {shortened(str(retried))}")
                    case ErrorEvent():
                        error = event
                    case TurnComplete(response=response):
                        if text:
                            show(text)
                        if response is not None:
                            self._count_turns(client.turn_number)
                            self._add_usage(response.usage)
                            final = "".join(
                                part.text for part in response.parts if isinstance(part, Text)
                            )
                            last_text, text = final or text, ""
                    case Finish(reason="complete"):
                        return last_text
                    case Finish(reason="max_turns"):
                        raise too_many_turns(spec)
                    case _:
                        pass
        raise ProviderFailed(f"{self.name}: {error or 'the conversation was cancelled'}")

    def _count_turns(self, number: int) -> None:
        self.usage = msgspec.structs.replace(self.usage, turns=number)

    def _add_usage(self, usage: Usage | None) -> None:
        """Add a response: all tokens that the model has read, and all that it has written."""
        used, reported = self.usage, usage or Usage()
        counting = dialects.dialect_named(self.dialect).token_counting
        cached = (reported.cache_read or 0) + (reported.cache_write or 0)
        read, written = reported.input, reported.output
        if read is not None and not counting.cache_is_input:
            read += cached
        if written is not None and not counting.reasoning_is_output:
            written += reported.reasoning or 0
        self.usage = msgspec.structs.replace(
            used,
            input_tokens=_sum(used.input_tokens, read),
            output_tokens=_sum(used.output_tokens, written),
        )

    def _tool(self, definition: Mapping[str, Any]) -> Tool:
        """A tool of the conversation runtime for one of MCP."""
        name = definition["name"]
        return Tool(
            ToolDefinition(name, definition["description"], definition["inputSchema"]),
            partial(self.call_tool, name),
        )

    async def _close_tools(self) -> None:
        """Let the tools clean up; tools that block their thread are abandoned."""
        try:
            async with asyncio.timeout(_CLOSING_LIMIT_S):
                await self._run_in_thread(self._context.toolset.aclose())
        except TimeoutError:
            self._context.show("the tools did not clean up in time")

    async def _run_in_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return await asyncio.wrap_future(future)


class OpenAIProvider(ChatProvider):
    """Chat Completions of OpenAI, and of every server that has the same API."""

    name = "openai"
    dialect = "openai-chat"
    default_model = "gpt-4"


class OpenAIResponsesProvider(ChatProvider):
    """The Responses API of OpenAI."""

    name = "openai-responses"
    dialect = "openai-responses"
    default_model = "gpt-4.1"


class AnthropicProvider(ChatProvider):
    """The Messages API of Anthropic."""

    name = "anthropic"
    dialect = "anthropic"
    default_model = "claude-sonnet-5"


class GeminiProvider(ChatProvider):
    """The Gemini API."""

    name = "gemini"
    dialect = "gemini"
    default_model = "gemini-2.5-flash"


class OllamaProvider(ChatProvider):
    """A local Ollama server."""

    name = "ollama"
    dialect = "ollama"


class BedrockProvider(ChatProvider):
    """Models of Amazon Bedrock, through Converse."""

    name = "bedrock"
    dialect = "bedrock"


@contextmanager
def _tool_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop in a daemon thread, for which Python does not wait at its end."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="llm-pytest tools", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=_STOPPING_LIMIT_S)
        if not thread.is_alive():
            loop.close()


def _sum(total: int | None, count: int | None) -> int | None:
    return total if count is None else (total or 0) + count
