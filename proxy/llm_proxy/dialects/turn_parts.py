"""What every format does with the parts of turns: merging, mending, telling them apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeGuard, TypeVar

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.lenient_json import get_text, join_pieces
from llm_proxy.turns import (
    Citation,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

Content = TypeVar("Content", Turn, Part, Conversation)

TEXT_ARGUMENT_CALL_TYPES: Final = ("custom", "custom_tool_call")
"""The types of calls whose arguments are plain text, not an object."""
_CLIENT_RUN_CALL_TYPES: Final = (
    *TEXT_ARGUMENT_CALL_TYPES,
    "function",
    "function_call",
    "tool_use",
    "toolUse",
)
"""The types of calls that the client runs; most such calls have no type in their metadata."""


def is_provider_tool_call(part: Part) -> TypeGuard[ToolCall]:
    """Whether the part is a call that the provider runs itself, by the type in its metadata."""
    if not isinstance(part, ToolCall):
        return False
    call_type = get_text(dict(part.metadata), "type")
    return bool(call_type) and call_type not in _CLIENT_RUN_CALL_TYPES


def is_empty_part(part: Part) -> bool:
    """Whether a part has no content; tool calls and results never count as empty."""
    match part:
        case Text():
            return not (part.text or part.citations)
        case Refusal():
            return not part.text
        case Reasoning():
            return not (part.text or part.signature or part.redacted)
        case Media():
            return not (part.url or part.base64 or part.transcript)
        case ToolCall() | ToolResult():
            return False


def merge_neighbours(
    parts: Iterable[Part],
    mergeable_kinds: Collection[type[Part]],
    blocks_merge: Callable[[Part], bool] = lambda _part: False,
) -> tuple[Part, ...]:
    """The parts, with neighbours of the same mergeable kind merged.

    Nothing is merged onto a part for which `blocks_merge` is true.
    """
    groups: list[list[Part]] = []
    for part in parts:
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and type(part) is type(last) in mergeable_kinds
            and not blocks_merge(last)
        ):
            groups[-1].append(part)
        else:
            groups.append([part])
    return tuple(
        _merge_parts([part for part in group if isinstance(part, Text | Reasoning | Refusal)])
        if type(group[0]) in mergeable_kinds
        else group[0]
        for group in groups
    )


def _merge_parts(parts: Sequence[Text | Reasoning | Refusal]) -> Part:
    """Merges parts of one kind: of texts, all citations; of reasoning, the last signature."""
    text = "".join(part.text for part in parts)
    citations: list[Citation] = []
    last, offset = parts[-1], 0
    for part in parts:
        if isinstance(part, Text):
            citations += (_shift_citation(citation, offset) for citation in part.citations)
            offset += len(part.text)
        elif isinstance(part, Reasoning) and (part.signature or part.redacted):
            last = part
    match last:
        case Text():
            return Text(text, tuple(citations), last.metadata)
        case Reasoning():
            return replace(last, text=text)
        case Refusal():
            return Refusal(text)


def _shift_citation(citation: Citation, offset: int) -> Citation:
    if citation.span is None:
        return citation
    start, end = citation.span
    return replace(citation, span=(start + offset, end + offset))


def replace_lone_surrogates(content: Content) -> Content:
    """The value, with U+FFFD for each lone surrogate outside of metadata and JSON Schemas.

    Metadata is unchanged: what cannot be encoded is left out elsewhere.
    """
    replaced: Content = _replace_in_value(content)
    return replaced


def _replace_in_value(value: Any) -> Any:
    match value:
        case StrEnum():
            return value
        case str():
            return join_pieces([value])
        case tuple():
            return tuple(map(_replace_in_value, value))
        case _ if is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in fields(value) if field.name != "metadata"]
            return replace(
                value, **{name: _replace_in_value(getattr(value, name)) for name in names}
            )
        case _:
            return value
