"""llm_chat: conversations with LLM providers, with tools.

    async with ChatClient(tools=[weather]) as client:
        async for event in client.chat("Is it raining in Oslo?", ChatOptions(model="gpt-4o")):
            ...

Three layers: providers (`Provider`, `ProviderRegistry`), the runtime (`ChatClient`, `Turn`, events)
and tools (`Tool`, ReAct).  No format of a provider is known above its provider: messages and parts
are those of `llm_proxy`, whose dialects encode requests and decode responses.

    errors, events          values
    provider, registry      what a provider is, and the known ones by name
    settings                the providers of the environment
    http_provider           a provider over HTTP; `local_provider` adds models to it
    streamed_response       decodes one response as it arrives
    react, react_provider   tools in plain text, for models without tools
    token_limits            counts tokens and checks limits; `model_limits` is the table
    tools                   functions as tools, and how calls run
    turn, client            one turn; a conversation
    cancellation            ends a stream of events from outside

Source: owner's document 002.
"""

from llm_chat.client import ChatClient, ChatOptions
from llm_chat.errors import ChatError, TokenLimitExceeded, UnknownModel
from llm_chat.events import (
    ChatEvent,
    ErrorEvent,
    Finish,
    ProviderEvent,
    ReasoningEvent,
    ResponseEnd,
    Retry,
    TextEvent,
    TokenLimitWarning,
    ToolCallResult,
    ToolCallStart,
    TurnComplete,
    TurnEvent,
)
from llm_chat.http_provider import HttpProvider, HttpSettings
from llm_chat.local_provider import LocalProvider, OllamaProvider
from llm_chat.provider import ManagesModels, ModelInfo, Provider, PullProgress
from llm_chat.registry import ProviderRegistry
from llm_chat.settings import providers_from_environment
from llm_chat.token_limits import TokenLimits
from llm_chat.tools import Tool
from llm_chat.turn import Turn
from llm_proxy.conversation import Conversation, ForcedTool, ToolDefinition
from llm_proxy.conversation import RequestMessage as Message
from llm_proxy.turns import Media, Part, Reasoning, Text, ToolCall, ToolResult

__all__ = [
    "ChatClient",
    "ChatError",
    "ChatEvent",
    "ChatOptions",
    "Conversation",
    "ErrorEvent",
    "Finish",
    "ForcedTool",
    "HttpProvider",
    "HttpSettings",
    "LocalProvider",
    "ManagesModels",
    "Media",
    "Message",
    "ModelInfo",
    "OllamaProvider",
    "Part",
    "Provider",
    "ProviderEvent",
    "ProviderRegistry",
    "PullProgress",
    "Reasoning",
    "ReasoningEvent",
    "ResponseEnd",
    "Retry",
    "Text",
    "TextEvent",
    "TokenLimitExceeded",
    "TokenLimitWarning",
    "TokenLimits",
    "Tool",
    "ToolCall",
    "ToolCallResult",
    "ToolCallStart",
    "ToolDefinition",
    "ToolResult",
    "Turn",
    "TurnComplete",
    "TurnEvent",
    "UnknownModel",
    "providers_from_environment",
]
