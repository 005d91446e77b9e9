"""The decoded response, free of any wire format: parts, finish reason and usage.

A `Turn` is a view.  Dialects compute it from a recording, and speak it onto a wire; the
recording itself stays bytes.  What a wire gives beyond these words is kept verbatim in
`metadata`, so that re-telling a turn in its own dialect loses nothing that matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""A JSON value, as `orjson.loads` gives it."""

Metadata = tuple[tuple[str, Json], ...]
"""Provider fields without a word of their own, as ordered pairs."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that a text rests on."""

    url: str = ""
    title: str = ""
    quoted: str = ""
    """The cited passage, where the provider gives it."""
    span: tuple[int, int] | None = None
    """Characters of the text that rest on it: start and end."""
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text of the answer."""

    text: str
    citations: tuple[Citation, ...] = ()
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What the model thought: readable, summarised, or sealed by the provider."""

    text: str = ""
    signature: str | None = None
    """The provider's seal, needed to hand the reasoning back in a later turn."""
    redacted: str | None = None
    """Sealed content without readable text (`redacted_thinking`, `encrypted_content`)."""
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asks for."""

    id: str
    name: str
    arguments: str
    """JSON text exactly as the model wrote it, which need not be valid."""
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back; within an answer only where the provider ran the tool itself."""

    call_id: str
    content: str
    name: str = ""
    failed: bool = False
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The model declined, in words."""

    text: str
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or a file: by reference, or inline as base64."""

    media_type: str
    url: str = ""
    base64: str = ""
    transcript: str = ""
    metadata: Metadata = ()


Part = Text | Reasoning | ToolCall | ToolResult | Refusal | Media


class Finish(StrEnum):
    """Why the model stopped, in words that all providers share."""

    STOP = "stop"
    STOP_SEQUENCE = "stop_sequence"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    CONTEXT_FULL = "context_full"
    PAUSED = "paused"
    ERROR = "error"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TokenCounting:
    """What a provider counts as input and as output."""

    cache_is_input: bool = True
    """Whether the input counts what was read from a cache or written to one."""
    reasoning_is_output: bool = True
    """Whether the output counts reasoning."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counted them (see `TokenCounting`); None where it said nothing."""

    input: int | None = None
    output: int | None = None
    total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that the provider reported inside its answer."""

    message: str
    type: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer (one choice, where a provider gives several)."""

    parts: tuple[Part, ...]
    finish: Finish | None = None
    """None when the stream ended before saying why."""
    finish_raw: str = ""
    """The provider's own word for `finish`."""
    usage: Usage | None = None
    failure: Failure | None = None
    id: str = ""
    model: str = ""
    metadata: Metadata = ()

    @property
    def text(self) -> str:
        """All text parts in one string."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))
