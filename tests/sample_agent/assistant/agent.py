"""The agent: a loop that runs the tool calls of a model until it answers in text."""

from __future__ import annotations

from collections.abc import Iterator

from assistant.messages import Message, ModelError
from assistant.providers import PROVIDERS
from assistant.tools import TOOLS, call_tool

APOLOGY = "Sorry, I cannot answer at the moment."


class TooManyTurns(Exception):
    """The model has called tools again and again without an answer."""


class Agent:
    """A conversation with the model of a provider."""

    def __init__(self, provider: str = "openai", *, max_turns: int = 4) -> None:
        self.messages: list[Message] = []
        self._stream_reply = PROVIDERS[provider]
        self._max_turns = max_turns

    def ask(self, question: str) -> str:
        """The answer to a question."""
        for _ in self.stream(question):
            pass
        return self.messages[-1].text

    def ask_politely(self, question: str) -> str:
        """The answer to a question, or an apology."""
        try:
            return self.ask(question)
        except ModelError:
            return APOLOGY

    def stream(self, question: str) -> Iterator[str]:
        """The text of the model, in the pieces in which it arrives.

        Raises `ModelError` if a request fails, and `TooManyTurns`.
        """
        self.messages.append(Message("user", question))
        for _ in range(self._max_turns):
            is_first = len(self.messages) == 1
            reply = yield from self._stream_reply(self.messages, TOOLS, must_call_tool=is_first)
            self.messages.append(reply)
            if not reply.tool_calls:
                return
            for call in reply.tool_calls:
                result = call_tool(call.name, call.arguments)
                self.messages.append(Message("tool", result, call_id=call.id))
        raise TooManyTurns(f"no answer after {self._max_turns} turns")
