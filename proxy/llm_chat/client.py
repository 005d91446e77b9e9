"""The chat client: conversations of several turns with one of the registered providers.

Source: owner's document 002, "Chat Client".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, TypeGuard

from llm_chat.cancellation import until_cancelled
from llm_chat.errors import ChatError, TokenLimitExceeded
from llm_chat.events import ChatEvent, ErrorEvent, Finish, Retry, TokenLimitWarning, TurnComplete
from llm_chat.provider import Provider
from llm_chat.react_provider import ReactProvider
from llm_chat.registry import ProviderRegistry
from llm_chat.settings import providers_from_environment
from llm_chat.token_limits import TokenCounter, TokenLimits
from llm_chat.tools import DEFAULT_TIME_LIMIT_S, Tool, ToolRunner, as_tools
from llm_chat.turn import Turn
from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage, ToolChoice
from llm_proxy.turns import Json, Part, Text

DEFAULT_MAX_TURNS: Final = 10
DEFAULT_MODEL: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """How a chat runs.  An option that is None is not sent."""

    provider: str | None = None
    """The name of a registered provider; None for the default one."""
    model: str = DEFAULT_MODEL
    system_prompt: str = ""
    tools: tuple[str, ...] | None = None
    """The names of the tools that the model may call; None for all of the client's."""
    tool_choice: ToolChoice | None = None
    """`required` and a forced tool are for the first turn only: the model could not end else."""
    temperature: float | None = None
    max_tokens: int | None = None
    """The most tokens of one response."""
    top_p: float | None = None
    top_k: int | None = None
    repeat_penalty: float | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] = ()
    response_schema: Json = None
    """The JSON Schema of the response's text; `{}` for any JSON object."""
    extra_fields: Mapping[str, Json] = field(default_factory=dict)
    """Further fields of the request body, by the names that the provider gives them."""
    max_turns: int = DEFAULT_MAX_TURNS
    tool_concurrency: int | None = None
    """How many tools run at the same time; None for all that a response calls, but at most 100; 1
    for one after another."""
    tool_time_limit_s: float = DEFAULT_TIME_LIMIT_S
    """Seconds that a call of a tool may take."""
    react: bool | None = None
    """Whether tools are called in plain text; None to do so only for models that refuse tools."""

    def __post_init__(self) -> None:
        """Raises `ValueError` for a limit below 1."""
        for name in ("max_turns", "tool_concurrency"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name}: expected at least 1, got {value}")
        if not self.tool_time_limit_s > 0:
            raise ValueError(
                f"tool_time_limit_s: expected more than 0 s, got {self.tool_time_limit_s}"
            )


class ChatClient:
    """Runs chats.  As an async context manager, it closes the providers' connections at its end.

    The attributes are those of the chat that was started last.
    """

    def __init__(
        self,
        providers: ProviderRegistry | None = None,
        *,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        options: ChatOptions | None = None,
        token_limits: TokenLimits | None = None,
    ) -> None:
        """By default, the providers are those of the environment.

        `options` are those of chats without their own.  Raises `ValueError` for a tool without a
        schema, or two tools of one name.
        """
        self.providers = providers_from_environment() if providers is None else providers
        self.tools = as_tools(tools)
        self.options = options or ChatOptions()
        self.token_limits = token_limits or TokenLimits()
        self.messages: list[RequestMessage] = []
        """The conversation so far."""
        self.turn_number = 0
        """From 1; 0 before the first turn."""
        self.provider: Provider | None = None
        """The active provider."""
        self._models_without_tools: set[tuple[str, str]] = set()
        """Provider and model."""

    async def __aenter__(self) -> Self:
        """The client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections of all providers."""
        await self.providers.aclose()

    async def chat(
        self,
        prompt: str | Sequence[Part],
        options: ChatOptions | None = None,
        *,
        history: Sequence[RequestMessage] = (),
        cancel: asyncio.Event | None = None,
    ) -> AsyncGenerator[ChatEvent, None]:
        """Send a prompt, run the tools that the model calls, and yield what happens.

        The last event is `Finish`.  With `client.messages` as `history`, the prompt continues the
        conversation.  Setting `cancel` closes the connection, cancels the tools that run, and ends
        the chat with `Finish("cancelled")`; the turn that it interrupts is not in the messages.
        Closing the generator does the same without an event.

        Raises `ChatError` without a provider, `TokenLimitExceeded` for a request that is too long,
        and `ValueError` for an unknown tool or a prompt without parts.
        """
        events = self._run(prompt, options or self.options, history)
        if cancel is not None:
            events = until_cancelled(events, cancel)
        event: ChatEvent | None = None
        async with aclosing(events):
            async for event in events:
                yield event
        if not isinstance(event, Finish):
            yield Finish("cancelled")

    async def _run(
        self, prompt: str | Sequence[Part], options: ChatOptions, history: Sequence[RequestMessage]
    ) -> AsyncGenerator[ChatEvent, None]:
        provider = self._provider_of(options)
        parts = (Text(prompt),) if isinstance(prompt, str) else tuple(prompt)
        if not prompt:
            raise ValueError("prompt: expected a text or at least one part")
        messages = [*history, RequestMessage("user", parts)]
        self.messages, self.turn_number, self.provider = messages, 0, provider
        tools = self._offered_tools(options)
        runner = ToolRunner(tools, options.tool_concurrency, options.tool_time_limit_s)
        request = _request(options, tools)
        for turn_number in range(1, options.max_turns + 1):
            self.turn_number = turn_number
            while True:  # twice where the model refuses tools
                turn = Turn(provider, runner, messages, request)
                try:
                    check = await TokenCounter(provider, self.token_limits).check(turn.request)
                except TokenLimitExceeded:
                    raise
                except Exception as error:  # of a provider that counts tokens
                    yield ErrorEvent.from_exception(error)
                    yield Finish("error")
                    return
                if check.is_warning:
                    yield TokenLimitWarning(request.model, check.tokens, check.limit)
                refusal: ErrorEvent | None = None
                async with aclosing(turn.execute()) as events:
                    async for event in events:
                        if _calls_for_react(event, provider, options, tools):
                            refusal = event
                            break
                        yield event
                if refusal is None:
                    break
                self._models_without_tools.add((provider.name, options.model))
                provider = ReactProvider(provider)
                yield Retry(1, 0.0, refusal)
            yield TurnComplete(turn_number, turn.response)
            if turn.error is not None:
                yield Finish("error")
                return
            if not turn.needs_next_turn:
                yield Finish("complete")
                return
            if request.tool_choice not in (None, "auto", "none"):
                request = replace(request, tool_choice=None)
        yield Finish("max_turns")

    def _provider_of(self, options: ChatOptions) -> Provider:
        """The provider of a chat, with tools as text if it needs that."""
        if options.provider is None:
            provider = self.providers.get_default()
        elif (named := self.providers.get(options.provider)) is not None:
            provider = named
        else:
            raise ChatError("No provider available")
        refuses_tools = (provider.name, options.model) in self._models_without_tools
        uses_react = refuses_tools if options.react is None else options.react
        return ReactProvider(provider) if uses_react else provider

    def _offered_tools(self, options: ChatOptions) -> dict[str, Tool]:
        names = [*self.tools] if options.tools is None else [*options.tools]
        forced = [choice.name] if isinstance(choice := options.tool_choice, ForcedTool) else []
        if unknown := [name for name in names if name not in self.tools]:
            known = ", ".join(self.tools) or "none"
            raise ValueError(f"unknown tool {unknown[0]!r}; the tools of this client are: {known}")
        if unknown := [name for name in forced if name not in names]:
            offered = ", ".join(names) or "none"
            raise ValueError(f"tool_choice: {unknown[0]!r} is not offered; offered are: {offered}")
        return {name: self.tools[name] for name in names}


def _calls_for_react(
    event: ChatEvent, provider: Provider, options: ChatOptions, tools: Mapping[str, Tool]
) -> TypeGuard[ErrorEvent]:
    """Whether the request is to be sent again with its tools as text."""
    return (
        isinstance(event, ErrorEvent)
        and event.refuses_tools
        and bool(tools)
        and options.react is None
        and not isinstance(provider, ReactProvider)
    )


def _request(options: ChatOptions, tools: Mapping[str, Tool]) -> Conversation:
    """The request of a chat, without messages."""
    return Conversation(
        (),
        model=options.model,
        system=options.system_prompt,
        tools=tuple(tool.definition for tool in tools.values()),
        tool_choice=options.tool_choice,
        temperature=options.temperature,
        top_p=options.top_p,
        max_tokens=options.max_tokens,
        top_k=options.top_k,
        repeat_penalty=options.repeat_penalty,
        seed=options.seed,
        stop_sequences=options.stop_sequences,
        response_schema=options.response_schema,
        extra_fields=tuple(options.extra_fields.items()),
    )
