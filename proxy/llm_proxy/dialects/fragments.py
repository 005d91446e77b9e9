"""Joins the fragments of a streamed response into parts.

A delta is itself a small part: `Text("Hel")`, `ToolCall("", "", '{"ci')`.  Dialects hand them
over in order, and each becomes a part or grows one:

    Text "Hel"   Text "lo"   ToolCall #0 "f" "{"   ToolCall #1 "g" "{}"   ToolCall #0 "}"
    └──── Text "Hello" ───┘  └─ ToolCall f "{}" ── ToolCall g "{}" ─────────────┘
"""

from __future__ import annotations

import base64
from collections.abc import Hashable, Iterable

from llm_proxy.dialects.lenient_json import join_pieces
from llm_proxy.turns import (
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)


class FragmentJoiner:
    """Collects fragments in order; time and memory are linear in what it is given."""

    def __init__(self) -> None:
        self._groups: list[list[Part]] = []
        """The fragments of each part, in the order in which the parts began."""
        self._latest_group: dict[Hashable, list[Part]] = {}
        """For each kind and key, the group that it opened last."""

    def add(self, fragment: Part, key: Hashable = "") -> None:
        """Take the next fragment; `key` tells parts of one kind apart, None is never joined.

        Readable text grows only the part that stands last, so that text after a tool call is
        a part of its own.  Everything else (arguments, a signature, a citation) finds the
        part of its kind and key wherever that stands.
        """
        identity = (type(fragment), key)
        group = self._latest_group.get(identity)
        if (
            key is None
            or group is None
            or (_is_readable_reasoning(fragment) and group is not self._groups[-1])
        ):
            group = self._latest_group[identity] = []
            self._groups.append(group)
        group.append(fragment)

    def joined_parts(self) -> tuple[Part, ...]:
        """The parts as they stand."""
        return tuple(_join_fragments(group) for group in self._groups)


def _is_readable_reasoning(fragment: Part) -> bool:
    return isinstance(fragment, Text | Reasoning | Refusal) and bool(fragment.text)


def _join_fragments(group: list[Part]) -> Part:
    match group[0]:
        case Text():
            return _join_text([part for part in group if isinstance(part, Text)])
        case Reasoning():
            return _join_reasoning([part for part in group if isinstance(part, Reasoning)])
        case Refusal():
            return _join_refusal([part for part in group if isinstance(part, Refusal)])
        case ToolCall():
            return _join_tool_call([part for part in group if isinstance(part, ToolCall)])
        case ToolResult():
            return _join_tool_result([part for part in group if isinstance(part, ToolResult)])
        case Media():
            return _join_media([part for part in group if isinstance(part, Media)])


def _join_text(group: list[Text]) -> Text:
    citations = tuple(citation for text in group for citation in text.citations)
    return Text(
        join_pieces(text.text for text in group),
        citations,
        _merge_metadata(text.metadata for text in group),
    )


def _join_reasoning(group: list[Reasoning]) -> Reasoning:
    return Reasoning(
        join_pieces(reasoning.text for reasoning in group),
        signature=join_pieces(reasoning.signature or "" for reasoning in group) or None,
        redacted=join_pieces(reasoning.redacted or "" for reasoning in group) or None,
        metadata=_merge_metadata(reasoning.metadata for reasoning in group),
    )


def _join_refusal(group: list[Refusal]) -> Refusal:
    return Refusal(
        join_pieces(refusal.text for refusal in group),
        _merge_metadata(refusal.metadata for refusal in group),
    )


def _join_tool_call(group: list[ToolCall]) -> ToolCall:
    """Id and name come once; servers that repeat them in every fragment mean them once too."""
    return ToolCall(
        id=_first_nonempty(tool_call.id for tool_call in group),
        name=_first_nonempty(tool_call.name for tool_call in group),
        arguments=join_pieces(tool_call.arguments for tool_call in group),
        metadata=_merge_metadata(tool_call.metadata for tool_call in group),
    )


def _join_tool_result(group: list[ToolResult]) -> ToolResult:
    return ToolResult(
        call_id=_first_nonempty(tool_result.call_id for tool_result in group),
        content=join_pieces(tool_result.content for tool_result in group),
        name=_first_nonempty(tool_result.name for tool_result in group),
        failed=any(tool_result.failed for tool_result in group),
        metadata=_merge_metadata(tool_result.metadata for tool_result in group),
    )


def _join_media(group: list[Media]) -> Media:
    return Media(
        media_type=_first_nonempty(media.media_type for media in group),
        url=_first_nonempty(media.url for media in group),
        base64=_join_base64([media.base64 for media in group if media.base64]),
        transcript=join_pieces(media.transcript for media in group),
        metadata=_merge_metadata(media.metadata for media in group),
    )


def _join_base64(pieces: list[str]) -> str:
    """Each piece may end in padding of its own, which has no place inside the whole."""
    if not any(piece.endswith("=") for piece in pieces[:-1]):
        return join_pieces(pieces)
    try:
        content = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
    except ValueError:
        return join_pieces(pieces)
    return base64.b64encode(content).decode()


def _first_nonempty(values: Iterable[str]) -> str:
    """The first that says something."""
    return join_pieces([next(filter(None, values), "")])


def _merge_metadata(items: Iterable[Metadata]) -> Metadata:
    """Each name once, with what was said of it last."""
    known: dict[str, Json] = {}
    for pairs in items:
        known.update(pairs)
    return tuple(known.items())
