"""The decoded request, free of any wire format: the counterpart of `turns`.

A `Conversation` is a view.  Dialects read it from a request; scenarios are chosen, checked and
filled in by it.  What a dialect's request cannot say is absent, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llm_proxy.turns import Json, Part, Text, ToolResult

Role = Literal["system", "user", "assistant", "tool"]
"""Who speaks: `system` is the operator (`developer` too), `assistant` the model (`model` too)."""


@dataclass(frozen=True, slots=True)
class RequestMessage:
    """What one speaker said at once."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """Its texts, joined with line ends; other parts say nothing here."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that the model is offered."""

    name: str
    """A built-in tool of the provider's is called by its type."""
    description: str = ""
    response_schema: Json = None
    """The JSON Schema of its arguments; None where it has none."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request for a turn, as far as its dialect has words for it."""

    messages: tuple[RequestMessage, ...]
    """In their order, those of role `system` too where they stand among them.  Where a dialect has
    items in place of messages, each unbroken run of what the model made is one.  Results of tools
    that follow each other are one message of role `tool`, also where the dialect has the user send
    them, if it says nothing else."""
    system: str = ""
    """The system prompt: where the dialect keeps it, else its first message of that role."""
    tools: tuple[ToolDefinition, ...] = ()
    temperature: float | None = None
    """None where it is not sent; whole numbers stay `int`."""
    top_p: float | None = None
    """As `temperature`."""
    reasoning_enabled: bool = False
    """Whether reasoning is switched on: its switch is there, and not its explicit off."""
    wants_signed_reasoning: bool = False
    """Whether reasoning in the history must bear its provider's seal (Anthropic)."""
    response_schema: Json = None
    """The JSON Schema that the answer must have; `{}` where any JSON object will do."""
    previous_response_id: str = ""
    """The id of the answer that this continues, whose history the request does not repeat."""
    stored_conversation_id: str = ""
    """The id of the conversation that the provider keeps, and that this adds to."""

    is_stored_by_provider: bool = False
    """Whether the provider keeps the answer: it can be continued, and asked for, by its id."""

    @property
    def turn(self) -> int:
        """The number of the turn that is asked for: the model's messages so far, and one."""
        return 1 + sum(message.role == "assistant" for message in self.messages)

    @property
    def first_user_text(self) -> str:
        """What the first message of the user says; empty where there is none."""
        return next((message.text for message in self.messages if message.role == "user"), "")

    @property
    def last_user_text(self) -> str:
        """What the latest message of the user says that has text; empty where there is none."""
        return next(
            (
                message.text
                for message in reversed(self.messages)
                if message.role == "user" and message.text
            ),
            "",
        )

    @property
    def prompt(self) -> str:
        """All the words that a model reads of it: of the operator, of messages, of results."""
        has_system = any(message.role == "system" for message in self.messages)
        items = [] if has_system else [self.system]
        for message in self.messages:
            for part in message.parts:
                match part:
                    case Text(text=words) | ToolResult(content=words):
                        items.append(words)
                    case _:
                        pass
        return "".join(items)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results of tools that came after the model's latest message."""
        latest: list[ToolResult] = []
        for message in reversed(self.messages):
            if message.role == "assistant":
                break
            latest[:0] = [part for part in message.parts if isinstance(part, ToolResult)]
        return tuple(latest)
