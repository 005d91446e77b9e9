"""The events of providers, turns and chats: frozen values for `match`.

    match event:
        case TextEvent(text):
            print(text, end="")
        case ErrorEvent(message):
            print(message)

    ProviderEvent   text, reasoning, tool call, retry, then one response end or one error
    TurnEvent       the same without the response end, and the results of tools
    ChatEvent       the events of all turns, each followed by `TurnComplete`; `Finish` is the last

Source: owner's document 002, "Provider Types", "Chat Client" and "Turn".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, Self
from uuid import UUID

from llm_chat.errors import error_text
from llm_proxy.dialects.encoding import normalized_object_json
from llm_proxy.turns import Json, Part, ToolCall, Usage

ResponseReason = Literal["stop", "length", "tool"]
"""Why a response ended: by itself, at a token limit, or to wait for the results of tools."""

FinishReason = Literal["complete", "max_turns", "error", "cancelled"]
"""Why a chat ended."""


@dataclass(frozen=True, slots=True)
class TextEvent:
    """A piece of the response's text, as it arrives."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningEvent:
    """A piece of the model's reasoning, as it arrives."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """The model calls a tool."""

    call: ToolCall

    @property
    def args(self) -> dict[str, Json]:
        """The arguments; empty if they are not a JSON object."""
        return call_args(self.call) or {}


@dataclass(frozen=True, slots=True)
class ToolCallResult:
    """The result of a tool call."""

    call: ToolCall
    result: Json
    """What the tool returned; `{"error": message}` if it failed."""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Retry:
    """A request failed and is sent again."""

    attempt: int
    """The number of the failed attempt, from 1."""
    wait_s: float
    """Seconds until the next attempt."""
    error: ErrorEvent


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """A failure of the provider, or an unexpected error."""

    message: str
    code: str = ""
    """An HTTP status, a provider's error code, or a word such as `CONNECTION_FAILED`."""
    detail: str = ""
    """The provider's own words, if `message` does not have them."""
    refuses_tools: bool = False
    """Whether the model cannot be offered tools."""

    @classmethod
    def from_exception(cls, error: BaseException) -> Self:
        """The event for an unexpected exception: its type is the code."""
        return cls(error_text(error), type(error).__name__)

    def __str__(self) -> str:
        """The message and its detail."""
        return f"{self.message}: {self.detail}" if self.detail else self.message


@dataclass(frozen=True, slots=True)
class ResponseEnd:
    """The end of a complete response."""

    reason: ResponseReason
    parts: tuple[Part, ...] = ()
    """The response as it is sent back in the next request, with signed reasoning and all calls.
    If empty, it consists of the events before."""
    usage: Usage | None = None
    raw_reason: str = ""
    """The provider's own value for `reason`."""
    is_blocked: bool = False
    """Whether the provider stopped the response: by a filter, or after an error of its own.  Its
    tool calls do not run."""
    correction: str = ""
    """What the model is asked to correct, in a message of the user; empty for a usable response."""


@dataclass(frozen=True, slots=True)
class TokenLimitWarning:
    """A request nearly reaches the token limit of its model."""

    model: str
    tokens: int
    limit: int


@dataclass(frozen=True, slots=True)
class TurnComplete:
    """A turn has ended; the results of its tools are in the messages."""

    turn_number: int
    """From 1."""
    response: ResponseEnd | None = None
    """The end of its response; None after an error."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The last event of a chat; there is exactly one."""

    reason: FinishReason


ProviderEvent = TextEvent | ReasoningEvent | ToolCallStart | Retry | ResponseEnd | ErrorEvent
TurnEvent = TextEvent | ReasoningEvent | ToolCallStart | ToolCallResult | Retry | ErrorEvent
ChatEvent = TurnEvent | TokenLimitWarning | TurnComplete | Finish


def made_call_id(seed: bytes) -> str:
    """The id of a call to which the model gave none: a UUID.

    It is a hash of `seed`, so that a conversation has the same requests when it is replayed.
    """
    return str(UUID(bytes=sha256(seed).digest()[:16], version=4))


def call_args(call: ToolCall) -> dict[str, Json] | None:
    """The arguments of a call; without any, `{}`.

    None if they are not a JSON object, or have numbers that providers do not accept.
    """
    arguments = normalized_object_json(call.arguments or "{}")
    return None if arguments is None else json.loads(arguments)
