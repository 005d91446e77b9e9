"""A turn in words: what was said, as named texts, and what one message added to it."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy import display
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import dialect_of
from llm_proxy.dialects import Response
from llm_proxy.turns import (
    Citation,
    Failure,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

Named = tuple[str, str]
"""What it is, and the text, which may have several lines."""


def turn_text(turn: Turn) -> Iterator[Named]:
    """Everything that a turn says, in its order."""
    for part in turn.parts:
        yield from _part(part)
    if turn.failure is not None:
        yield "failure", _failure(turn.failure)
    elif turn.finish is None:
        yield "finish", "none: the answer ended before saying why"
    if turn.finish is not None:
        raw = f"  (in its own word {turn.finish_raw!r})" if turn.finish_raw != turn.finish else ""
        yield "finish", f"{turn.finish}{raw}"
    if turn.usage is not None:
        yield "usage", _usage(turn.usage)
    if turn.model:
        yield "answered by", turn.model


def contribution(cassette: Cassette, message: bytes) -> str:
    """What one message of a stream adds to the response, in a few words; often nothing."""
    response = Response(cassette.head, cassette.codec, (message,))
    turns = dialect_of(cassette).turns(response)
    return " ".join(filter(None, map(_addition, turns)))


def _part(part: Part) -> Iterator[Named]:
    match part:
        case Text():
            yield "text", part.text
            yield from (("citation", _citation(it)) for it in part.citations)
        case Reasoning():
            yield "reasoning", _reasoning(part)
        case ToolCall():
            yield "tool call", f"{part.name or '(no name)'} {part.id}".rstrip()
            yield "", part.arguments or "(no arguments)"
        case ToolResult():
            yield "tool result", f"{part.name} {part.call_id}".strip()
            yield "", f"failed: {part.content}" if part.failed else part.content
        case Refusal():
            yield "refusal", part.text
        case Media():
            yield "media", _media(part)


def _citation(it: Citation) -> str:
    return " ".join(filter(None, (it.title, it.url, it.quoted)))


def _reasoning(it: Reasoning) -> str:
    sealed = it.redacted or it.signature
    seal = f"(sealed: {display.counted(len(sealed), 'character')})" if sealed else ""
    return "\n".join(filter(None, (it.text, seal)))


def _media(it: Media) -> str:
    where = it.url or display.counted(len(it.base64), "character") + " of base64"
    return "\n".join(filter(None, (f"{it.media_type} {where}".strip(), it.transcript)))


def _failure(it: Failure) -> str:
    notes = ", ".join(filter(None, (it.type, it.code)))
    return f"{it.message} ({notes})" if notes else it.message


def _usage(it: Usage) -> str:
    counts = {
        "in": it.input,
        "out": it.output,
        "in all": it.total,
        "read from cache": it.cache_read,
        "written to cache": it.cache_write,
        "for reasoning": it.reasoning,
    }
    said = [f"{count:,} {what}" for what, count in counts.items() if count is not None]
    return f"{', '.join(said)} (tokens)" if said else "none counted"


def _addition(turn: Turn) -> str:
    parts = [_short(part) for part in turn.parts]
    if turn.failure is not None:
        parts.append(f"! {turn.failure.message}")
    if turn.finish is not None:
        parts.append(f"[{turn.finish}]")
    elif turn.usage is not None and not parts:
        parts.append("[usage]")
    return " ".join(filter(None, parts))


def _short(part: Part) -> str:
    match part:
        case Text(text=text) | Refusal(text=text):
            return f'"{text}"' if text else ""
        case Reasoning(text=text):
            return f"~{text}" if text else ""
        case ToolCall():
            return f"{part.name}({part.arguments}"
        case ToolResult():
            return f"= {part.content}"
        case Media():
            return part.transcript or f"[{part.media_type}]"
