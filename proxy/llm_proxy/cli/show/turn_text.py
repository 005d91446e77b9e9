"""Renders a turn as text, and what one message contributed to it."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy import display
from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect
from llm_proxy.dialects import DialectResponse
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

LabelledText = tuple[str, str]
"""A label, and a text that may have several lines."""


def labelled_texts(turn: Turn) -> Iterator[LabelledText]:
    """All parts of a turn in order, then failure or finish, usage and model."""
    for part in turn.parts:
        yield from _part_texts(part)
    if turn.failure is not None:
        yield "failure", _failure_text(turn.failure)
    elif turn.finish is None:
        yield "finish", "none: the answer ended before saying why"
    if turn.finish is not None:
        raw = f"  (in its own word {turn.finish_raw!r})" if turn.finish_raw != turn.finish else ""
        yield "finish", f"{turn.finish}{raw}"
    if turn.usage is not None:
        yield "usage", _usage_text(turn.usage)
    if turn.model:
        yield "answered by", turn.model


def stream_message_contribution(cassette: Cassette, message: bytes) -> str:
    """What one message of a stream adds to the response, as a short text; often empty."""
    response = DialectResponse(cassette.response_head, cassette.codec_name, (message,))
    turns = cassette_dialect(cassette).decode_response(response)
    return " ".join(filter(None, map(_contribution_text, turns)))


def _part_texts(part: Part) -> Iterator[LabelledText]:
    match part:
        case Text():
            yield "text", part.text
            yield from (("citation", _citation_text(citation)) for citation in part.citations)
        case Reasoning():
            yield "reasoning", _reasoning_text(part)
        case ToolCall():
            yield "tool call", f"{part.name or '(no name)'} {part.id}".rstrip()
            yield "", part.arguments or "(no arguments)"
        case ToolResult():
            yield "tool result", f"{part.name} {part.call_id}".strip()
            yield "", f"failed: {part.content}" if part.failed else part.content
        case Refusal():
            yield "refusal", part.text
        case Media():
            yield "media", _media_text(part)


def _citation_text(citation: Citation) -> str:
    return " ".join(filter(None, (citation.title, citation.url, citation.quoted)))


def _reasoning_text(reasoning: Reasoning) -> str:
    sealed = reasoning.redacted or reasoning.signature
    seal = f"(sealed: {display.count_with_noun(len(sealed), 'character')})" if sealed else ""
    return "\n".join(filter(None, (reasoning.text, seal)))


def _media_text(media: Media) -> str:
    where = media.url or display.count_with_noun(len(media.base64), "character") + " of base64"
    return "\n".join(filter(None, (f"{media.media_type} {where}".strip(), media.transcript)))


def _failure_text(failure: Failure) -> str:
    notes = ", ".join(filter(None, (failure.type, failure.code)))
    return f"{failure.message} ({notes})" if notes else failure.message


def _usage_text(usage: Usage) -> str:
    counts = {
        "in": usage.input,
        "out": usage.output,
        "in all": usage.total,
        "read from cache": usage.cache_read,
        "written to cache": usage.cache_write,
        "for reasoning": usage.reasoning,
    }
    items = [f"{count:,} {label}" for label, count in counts.items() if count is not None]
    return f"{', '.join(items)} (tokens)" if items else "none counted"


def _contribution_text(turn: Turn) -> str:
    parts = [_short_part_text(part) for part in turn.parts]
    if turn.failure is not None:
        parts.append(f"! {turn.failure.message}")
    if turn.finish is not None:
        parts.append(f"[{turn.finish}]")
    elif turn.usage is not None and not parts:
        parts.append("[usage]")
    return " ".join(filter(None, parts))


def _short_part_text(part: Part) -> str:
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
