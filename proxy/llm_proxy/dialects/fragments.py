"""Joins the fragments of a streamed response into parts.

A delta is itself a small part: `Text("Hel")`, `ToolCall("", "", '{"ci')`.  Dialects add them in
order, and each starts a new part or extends one:

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
    """Collects fragments in order, in linear time and memory."""

    def __init__(self) -> None:
        self._groups: list[list[Part]] = []
        """The fragments of each part, in the order of the parts' first fragments."""
        self._latest_group_by_identity: dict[Hashable, list[Part]] = {}
        """For each kind and key, its latest group."""

    def add_fragment(self, fragment: Part, key: Hashable = "") -> None:
        """Add the next fragment; `key` distinguishes parts of one kind, None is never joined.

        Readable text extends only the last part, so that text after a tool call is a part of its
        own.  Everything else (arguments, a signature, a citation) extends the latest part of its
        kind and key, wherever that is.
        """
        identity = (type(fragment), key)
        group = self._latest_group_by_identity.get(identity)
        if (
            key is None
            or group is None
            or (_has_readable_text(fragment) and group is not self._groups[-1])
        ):
            group = self._latest_group_by_identity[identity] = []
            self._groups.append(group)
        group.append(fragment)

    def joined_parts(self) -> tuple[Part, ...]:
        """The parts so far, each joined from its fragments."""
        return tuple(_join_fragments(group) for group in self._groups)


def _has_readable_text(fragment: Part) -> bool:
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
    """Id and name are taken once; some servers repeat them in every fragment."""
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
    """Decodes and re-encodes pieces with padding of their own, which is invalid inside base64."""
    if not any(piece.endswith("=") for piece in pieces[:-1]):
        return join_pieces(pieces)
    try:
        decoded = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
    except ValueError:
        return join_pieces(pieces)
    return base64.b64encode(decoded).decode()


def _first_nonempty(values: Iterable[str]) -> str:
    return join_pieces([next(filter(None, values), "")])


def _merge_metadata(items: Iterable[Metadata]) -> Metadata:
    """Each name once, with its last value."""
    merged: dict[str, Json] = {}
    for pairs in items:
        merged.update(pairs)
    return tuple(merged.items())


def fragment_output_chars(fragment: Part) -> int:
    """How many output characters a fragment adds.

    A tool call, a tool result, a sound and an image count as at least one; signatures, citations
    and the names of results count nothing.
    """
    match fragment:
        case Text(text=text) | Reasoning(text=text) | Refusal(text=text):
            return len(text)
        case Media():
            has_content = bool(fragment.url or fragment.base64)
            return len(fragment.transcript) or int(has_content)
        case ToolCall():
            return max(1, len(fragment.name) + len(fragment.arguments))
        case ToolResult():
            return 1
