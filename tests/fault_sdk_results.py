"""What an SDK makes of an answer, and how the tables put it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Final

TEXT: Final = "The quick brown fox jumps over the lazy dög, and nobody minds."
"""What every answer says: it has a character of two bytes."""
TOOL: Final = "get_weather"
"""The tool that is offered where a fault needs one."""
NEEDED: Final = "city"
"""The argument that it needs."""

FINE: Final = "fine"
SILENT: Final = "silent: "

_WORDS: Final = frozenset(TEXT.split())
_OWN: Final = frozenset(("anthropic", "builtins", "google", "ollama", "openai"))
"""Modules whose exceptions need no surname."""
_ENDS: Final = frozenset(("stop", "end_turn", "STOP", "completed"))
"""Each provider's word for an answer that is over."""
_CALLS: Final = frozenset(("stop", "tool_calls", "tool_use", "STOP", "completed"))
"""The same for one that calls tools."""


@dataclass(slots=True)
class Heard:
    """What one SDK made of one answer."""

    raised: tuple[str, str] = ("", "")
    """The module and the name of what it raised; empty where it raised nothing."""
    other: str = ""
    """The type of what it gave in place of an answer; empty where it gave one."""
    text: str = ""
    refusal: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """The tools that are called, and their arguments as JSON or what came in its place."""
    finish: str = ""
    """Why it says that the answer finished; empty where it says nothing of it."""

    @property
    def outcome(self) -> str:
        """All of it, in the words of the tables."""
        module, name = self.raised
        if name:
            return named(module, name)
        if self.other:
            return f"{SILENT}gives a `{self.other}`"
        amiss = [*self._said, *self._called, *self._finished]
        return f"{SILENT}{', '.join(amiss)}" if amiss else FINE

    @property
    def _said(self) -> list[str]:
        """What is amiss with the text."""
        if self.refusal:
            return ["a refusal"]
        if self.text == TEXT or (self.calls and not self.text):
            return []
        if not self.text:
            return ["no text"]
        if TEXT.startswith(self.text):
            return ["text cut"]
        return ["text altered" if set(self.text.split()) & _WORDS else "another text"]

    @property
    def _called(self) -> list[str]:
        """What is amiss with its calls."""
        return [_amiss(*item) for item in self.calls]

    @property
    def _finished(self) -> list[str]:
        """What is amiss with its end."""
        if self.finish in (_CALLS if self.calls else _ENDS):
            return []
        return [f"finish `{self.finish}`" if self.finish else "no finish"]


def named(module: str, name: str) -> str:
    """The name of an exception, with where it is from if that is not the SDK."""
    root = module.partition(".")[0]
    return f"`{name}`" if root in _OWN else f"`{root}.{name}`"


def _amiss(name: str, arguments: str) -> str:
    if name != TOOL:
        return "a call of no tool that was offered"
    try:
        given = json.loads(arguments)
    except ValueError:
        return "a call whose arguments are no JSON"
    return "a call" if NEEDED in given else "a call that lacks an argument"
