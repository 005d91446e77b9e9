"""The decoded response, free of any wire format: parts, finish reason and usage.

A `Turn` is a view.  Dialects decode it from a recording and encode it to wire bytes; the
recording itself stays bytes.  Wire fields without a counterpart here are kept verbatim in
`metadata`, so that re-encoding a turn in its own dialect loses nothing that matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""A JSON value, as `orjson.loads` returns it."""

Metadata = tuple[tuple[str, Json], ...]
"""Provider fields without a counterpart in the model, as ordered (name, value) pairs."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A source that a text cites."""

    url: str = ""
    title: str = ""
    quoted: str = ""
    """The cited passage, if the provider sends it."""
    span: tuple[int, int] | None = None
    """Start and end, in characters, of the text that the source supports."""
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text of the response."""

    text: str
    citations: tuple[Citation, ...] = ()
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning of the model: readable, summarised, or encrypted by the provider."""

    text: str = ""
    signature: str | None = None
    """The provider's signature, needed to send the reasoning back in a later turn."""
    redacted: str | None = None
    """Encrypted content without readable text (`redacted_thinking`, `encrypted_content`)."""
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that the model requests."""

    id: str
    name: str
    arguments: str
    """JSON text exactly as the model wrote it; it need not be valid."""
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool; in a response only if the provider ran the tool itself."""

    call_id: str
    content: str
    name: str = ""
    failed: bool = False
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The text with which the model declined to answer."""

    text: str
    metadata: Metadata = ()


@dataclass(frozen=True, slots=True)
class Media:
    """An image, audio or file: by URL, or inline as base64."""

    media_type: str
    url: str = ""
    base64: str = ""
    transcript: str = ""
    metadata: Metadata = ()


Part = Text | Reasoning | ToolCall | ToolResult | Refusal | Media


class FinishReason(StrEnum):
    """Why the model stopped, normalised across providers."""

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
    """Which tokens a provider includes in its input and output counts."""

    cache_is_input: bool = True
    """Whether the input count includes tokens read from or written to a cache."""
    reasoning_is_output: bool = True
    """Whether the output count includes reasoning tokens."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the provider reports them (see `TokenCounting`); None if not reported."""

    input: int | None = None
    output: int | None = None
    total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that the provider reports in its response."""

    message: str
    type: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One response of the model (one choice, if a provider returns several)."""

    parts: tuple[Part, ...]
    finish: FinishReason | None = None
    """None if the stream ended without a finish reason."""
    finish_raw: str = ""
    """The provider's own value for `finish`."""
    usage: Usage | None = None
    failure: Failure | None = None
    id: str = ""
    model: str = ""
    metadata: Metadata = ()

    @property
    def text(self) -> str:
        """All text parts joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))
