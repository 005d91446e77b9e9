"""The result of an SDK's request, and its description in the tables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

ANSWER_TEXT: Final = "The quick brown fox jumps over the lazy dög, and nobody minds."
"""The text of every response; it has a character of two bytes."""
TOOL_NAME: Final = "get_weather"
"""The tool that is offered where a fault needs one."""
REQUIRED_ARGUMENT: Final = "city"
"""The tool's required argument."""

FINE: Final = "fine"
SILENT_PREFIX: Final = "silent: "

_WORDS: Final = frozenset(ANSWER_TEXT.split())
_SDK_MODULES: Final = frozenset(("anthropic", "builtins", "google", "ollama", "openai"))
"""Packages whose exceptions are shown without the package name."""
_END_FINISHES: Final = frozenset(("stop", "end_turn", "STOP", "completed"))
"""Each provider's finish reason of a complete response."""
_TOOL_CALL_FINISHES: Final = frozenset(("stop", "tool_calls", "tool_use", "STOP", "completed"))
"""The same for a response with tool calls."""


@dataclass(slots=True)
class SdkResult:
    """What one SDK returned or raised for one response."""

    raised: tuple[str, str] = ("", "")
    """The module and name of the exception; empty where none was raised."""
    other_type: str = ""
    """The type of the object returned in place of a response; empty where it was a response."""
    text: str = ""
    refusal: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """The names of the called tools, and their arguments: JSON, or the text in its place."""
    finish: str = ""
    """The finish reason; empty where there is none."""

    @property
    def outcome(self) -> str:
        """The result as a cell of the tables."""
        module, name = self.raised
        if name:
            return exception_name(module, name)
        if self.other_type:
            return f"{SILENT_PREFIX}returns a `{self.other_type}`"
        problems = [*self._text_problems, *self._call_problems, *self._finish_problems]
        return f"{SILENT_PREFIX}{', '.join(problems)}" if problems else FINE

    @property
    def _text_problems(self) -> list[str]:
        """The problems of the text."""
        if self.refusal:
            return ["a refusal"]
        if self.text == ANSWER_TEXT or (self.calls and not self.text):
            return []
        if not self.text:
            return ["no text"]
        if ANSWER_TEXT.startswith(self.text):
            return ["text cut"]
        return ["text altered" if set(self.text.split()) & _WORDS else "another text"]

    @property
    def _call_problems(self) -> list[str]:
        """A description of each tool call."""
        return [_call_problem(*call) for call in self.calls]

    @property
    def _finish_problems(self) -> list[str]:
        """The problems of the finish reason."""
        if self.finish in (_TOOL_CALL_FINISHES if self.calls else _END_FINISHES):
            return []
        return [f"finish `{self.finish}`" if self.finish else "no finish"]


def exception_name(module: str, name: str) -> str:
    """The name of an exception, with its package unless that is the SDK."""
    root = module.partition(".")[0]
    return f"`{name}`" if root in _SDK_MODULES else f"`{root}.{name}`"


def _call_problem(name: str, arguments: str) -> str:
    if name != TOOL_NAME:
        return "a call of an unknown tool"
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return "a call with invalid JSON arguments"
    return "a call" if REQUIRED_ARGUMENT in parsed else "a call without a required argument"
