"""The messages of a conversation, independent of the API of a provider."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from assistant.tools import Tool

MODEL = "smollm2-135m"
SYSTEM_PROMPT = "You are a helpful assistant. Answer in one short sentence."
MAX_TOKENS = 100


@dataclass(frozen=True)
class ToolCall:
    """A call that the model makes."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Message:
    """A message of the user or the model, or the result of a tool call."""

    role: Literal["user", "assistant", "tool"]
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    """The calls that a message of the model makes."""
    call_id: str = ""
    """The call to which the result of a tool belongs."""


class ModelError(Exception):
    """A request to a model failed."""


class StreamReply(Protocol):
    """Sends a conversation to a model; yields the text of its reply, and returns the reply."""

    def __call__(
        self, messages: Sequence[Message], tools: Sequence[Tool], *, must_call_tool: bool
    ) -> Generator[str, None, Message]:
        """With `must_call_tool`, the reply contains a tool call: small models seldom choose one.

        Raises `ModelError`.
        """
