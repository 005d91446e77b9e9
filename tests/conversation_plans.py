"""Plans of conversations with official SDKs, and the response that an SDK returns for each turn.

A plan does not depend on the SDK; `sdk_conversations` and
`judges/google-genai/conversations.py` run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

ResponsePart = tuple[Any, ...]
"""A response part: `text`, `reasoning` or `refusal` and its text; or `call`, name, arguments."""

TOOL_RESULT: Final = "done"
"""The result of every tool call."""
FOLLOW_UP: Final = "Go on."
"""The user message after a response without calls."""


@dataclass(frozen=True, slots=True)
class ConversationPlan:
    """What the user and the application send in a conversation."""

    id: str
    """The session of the requests."""
    say: str
    """The first user message."""
    stream: bool = False
    turns: int = 1
    """Number of turns to request."""
    model: str = "some-model"
    system: str = ""
    tools: dict[str, Any] = field(default_factory=dict)
    """JSON Schemas of arguments, by tool name."""
    temperature: float | None = None
    top_p: float | None = None
    reasoned: tuple[int, ...] = ()
    """The numbers of the turns for which reasoning is enabled."""
    schema: Any = None
    """The JSON Schema that responses must satisfy."""
    metadata: dict[str, str] = field(default_factory=dict)
    scenario: str = ""
    """A scenario to select by header, if the SDK cannot send the fields that would select it."""
    retries: int = 0
    """Maximum number of retries by the SDK itself; Google's and Ollama's never retry."""
    tries: int = 1
    """Maximum number of attempts by the application for each turn."""
    patience: float = 30.0
    """Time limit in seconds for a response."""

    @property
    def headers(self) -> dict[str, str]:
        """Headers that identify this conversation to the proxy."""
        scenario_header = {"x-llm-proxy-scenario": self.scenario} if self.scenario else {}
        return {"x-llm-proxy-session": self.id, **scenario_header}


@dataclass(slots=True)
class SdkResponse:
    """A response, as read from the SDK's own objects."""

    parts: list[ResponsePart] = field(default_factory=list)
    """In the order in which the SDK returns them; adjacent parts of a kind are merged."""
    finish: str | None = None
    usage: tuple[int | None, ...] | None = None
    """Input and output tokens."""
    signatures: list[str] = field(default_factory=list)
    """Signatures and encrypted content of the provider's reasoning."""
    raised: list[str] = field(default_factory=list)
    """Names of the exceptions that the SDK raised before there was a response."""


def merge_parts(parts: Iterable[Sequence[Any]]) -> list[ResponsePart]:
    """Merge adjacent parts of a kind; calls stay separate."""
    merged_parts: list[ResponsePart] = []
    for kind, *rest in parts:
        if kind != "call" and merged_parts and merged_parts[-1][0] == kind:
            merged_parts[-1] = (kind, merged_parts[-1][1] + rest[0])
        elif kind == "call" or rest[0]:
            merged_parts.append((kind, *rest))
    return merged_parts


def group_parts_by_kind(parts: Iterable[ResponsePart]) -> list[ResponsePart]:
    """Order and merge parts as in a message that has a single text and a single list of calls."""
    order = ("reasoning", "refusal", "text", "call")
    return merge_parts(sorted(parts, key=lambda part: order.index(part[0])))


def exception_name(module: str, name: str) -> str:
    """Name an exception, with its top-level package if that is not an SDK."""
    root = module.partition(".")[0]
    return name if root in {"anthropic", "google", "ollama", "openai"} else f"{root}.{name}"
