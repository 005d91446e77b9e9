"""The decoded request, free of any wire format: the counterpart of `turns`.

A `Conversation` is a view.  Dialects decode it from a request, and encode it to one; scenarios are
selected, checked and filled in by it.  What a dialect's request cannot express is absent, never
guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llm_proxy.turns import Json, Metadata, Part, Text, ToolResult

Role = Literal["system", "user", "assistant", "tool"]
"""The role of a message: `system` includes `developer`, and `assistant` includes `model`."""


@dataclass(frozen=True, slots=True)
class RequestMessage:
    """One message of a request: its role and its parts."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text parts, joined with LF; other parts are left out."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that the request offers to the model."""

    name: str
    """A built-in tool of the provider is named by its type."""
    description: str = ""
    parameters_schema: Json = None
    """The JSON Schema of the arguments; None if the tool has none."""
    built_in_type: str = ""
    """The provider's type of a tool that the provider defines, or whose calls have a text instead
    of arguments; empty for a function."""


@dataclass(frozen=True, slots=True)
class ForcedTool:
    """A tool choice that forces the model to call one tool."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | ForcedTool
"""Whether the model calls a tool: as it likes, never, at least one, or the one that is named."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request for a turn, as far as its dialect can express it."""

    messages: tuple[RequestMessage, ...]
    """In order, including `system` messages if the dialect puts them in the list.  If a dialect
    has items instead of messages, each unbroken run of model items is one message.  Consecutive
    tool results are one message of role `tool`, even if the dialect sends them as the user's, as
    long as that message has nothing else."""
    system: str = ""
    """The system prompt: the dialect's own field, else the first `system` message."""
    tools: tuple[ToolDefinition, ...] = ()
    temperature: float | None = None
    """None if it is not sent; whole numbers stay `int`."""
    top_p: float | None = None
    """As `temperature`."""
    model: str = ""
    """The requested model; empty if the request names none."""
    tool_choice: ToolChoice | None = None
    """None if it is not sent."""
    max_tokens: int | None = None
    """The most tokens of the response; None if it is not sent."""
    top_k: int | None = None
    """As `max_tokens`."""
    repeat_penalty: float | None = None
    """As `temperature`."""
    seed: int | None = None
    """As `max_tokens`."""
    stop_sequences: tuple[str, ...] = ()
    """Texts at which the model stops."""
    reasoning_enabled: bool = False
    """Whether reasoning is enabled: the dialect's switch is sent and is not an explicit off."""
    wants_signed_reasoning: bool = False
    """Whether reasoning in the history must carry the provider's signature (Anthropic)."""
    response_schema: Json = None
    """The JSON Schema that the response must match; `{}` if any JSON object will do."""
    previous_response_id: str = ""
    """The id of the response that this continues; the request does not repeat its history."""
    stored_conversation_id: str = ""
    """The id of a conversation that the provider stores and that this request adds to."""

    is_stored_by_provider: bool = False
    """Whether the provider stores the response, so that it can be fetched or continued by id."""
    extra_fields: Metadata = ()
    """Further fields of the request body, as the provider defines them; only encoded."""

    @property
    def turn(self) -> int:
        """The number of the requested turn, from 1: the model's messages so far, plus one."""
        return 1 + sum(message.role == "assistant" for message in self.messages)

    @property
    def first_user_text(self) -> str:
        """The text of the first user message; empty if there is none."""
        return next((message.text for message in self.messages if message.role == "user"), "")

    @property
    def last_user_text(self) -> str:
        """The text of the last user message that has text; empty if there is none."""
        user_texts = (message.text for message in reversed(self.messages) if message.role == "user")
        return next(filter(None, user_texts), "")

    @property
    def prompt(self) -> str:
        """All text that the model reads: the system prompt, messages and tool results, joined."""
        has_system = any(message.role == "system" for message in self.messages)
        texts = [] if has_system else [self.system]
        for message in self.messages:
            for part in message.parts:
                match part:
                    case Text(text=text) | ToolResult(content=text):
                        texts.append(text)
                    case _:
                        pass
        return "".join(texts)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results after the last message of the model."""
        latest_results: list[ToolResult] = []
        for message in reversed(self.messages):
            if message.role == "assistant":
                break
            latest_results[:0] = [part for part in message.parts if isinstance(part, ToolResult)]
        return tuple(latest_results)
