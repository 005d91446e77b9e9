"""Whole conversations with official SDKs, and what each of them hears, turn by turn.

A talk is the same for all SDKs; `speakers` and `judges/google-genai/conversation_plans.py` hold it with theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Said = tuple[Any, ...]
"""A part of an answer: `text`, `reasoning` or `refusal` and its words; `call`, name, arguments."""

TOOL_SAYS: Final = "done"
"""What every tool answers."""
GO_ON: Final = "Go on."
"""What the user says after an answer without calls."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation as the user and the application lead it."""

    id: str
    """The session of its requests."""
    say: str
    """The first user message."""
    stream: bool = False
    turns: int = 1
    """Answers that are asked for; each but the last is gone on from."""
    model: str = "some-model"
    system: str = ""
    tools: dict[str, Any] = field(default_factory=dict)
    """JSON Schemas of arguments by the names of tools."""
    temperature: float | None = None
    top_p: float | None = None
    reasoned: tuple[int, ...] = ()
    """The turns in which reasoning is asked for."""
    schema: Any = None
    """The JSON Schema that answers must have."""
    metadata: dict[str, str] = field(default_factory=dict)
    scenario: str = ""
    """A scenario to name by header, where the SDK cannot send what would choose it."""
    retries: int = 0
    """How often the SDK itself may ask again; Google's and Ollama's never do."""
    tries: int = 1
    """How often the application asks for an answer."""
    patience: float = 30.0
    """Seconds for an answer."""

    @property
    def headers(self) -> dict[str, str]:
        """What tells the proxy of this talk."""
        chosen = {"x-llm-proxy-scenario": self.scenario} if self.scenario else {}
        return {"x-llm-proxy-session": self.id, **chosen}


@dataclass(slots=True)
class Heard:
    """An answer, as the SDK's own objects tell it."""

    parts: list[Said] = field(default_factory=list)
    """In the order in which the SDK gives them; neighbours of a kind are one."""
    finish: str | None = None
    usage: tuple[int | None, ...] | None = None
    """Input and output."""
    seals: list[str] = field(default_factory=list)
    """What the provider sealed of its reasoning."""
    raised: list[str] = field(default_factory=list)
    """What the SDK raised before there was an answer."""


def merged(parts: Iterable[Sequence[Any]]) -> list[Said]:
    """Parts, the neighbours of a kind as one; calls stay apart."""
    joined: list[Said] = []
    for kind, *rest in parts:
        if kind != "call" and joined and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + rest[0])
        elif kind == "call" or rest[0]:
            joined.append((kind, *rest))
    return joined


def in_one_place_each(parts: Iterable[Said]) -> list[Said]:
    """Parts as a message tells them that has one text and one list of calls."""
    order = ("reasoning", "refusal", "text", "call")
    return merged(sorted(parts, key=lambda part: order.index(part[0])))


def named(module: str, name: str) -> str:
    """An exception, with where it is from if that is no SDK."""
    root = module.partition(".")[0]
    return name if root in {"anthropic", "google", "ollama", "openai"} else f"{root}.{name}"
