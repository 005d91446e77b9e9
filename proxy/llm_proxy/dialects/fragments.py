"""The fragments of a streamed response, joined into parts.

A delta is itself a small part: `Text("Hel")`, `ToolCall("", "", '{"ci')`.  Dialects hand them
over in order, and each becomes a part or grows one:

    Text "Hel"   Text "lo"   ToolCall #0 "f" "{"   ToolCall #1 "g" "{}"   ToolCall #0 "}"
    └──── Text "Hello" ───┘  └─ ToolCall f "{}" ── ToolCall g "{}" ─────────────┘
"""

from __future__ import annotations

import base64
from collections.abc import Hashable, Iterable

from llm_proxy.dialects.lenient_json import joined
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


class Fragments:
    """Collects fragments in order; time and memory are linear in what it is given."""

    def __init__(self) -> None:
        self._groups: list[list[Part]] = []
        """The fragments of each part, in the order in which the parts began."""
        self._latest: dict[Hashable, list[Part]] = {}
        """For each kind and key, the group that it opened last."""

    def add(self, fragment: Part, key: Hashable = "") -> None:
        """Take the next fragment; `key` tells parts of one kind apart, None is never joined.

        Readable text grows only the part that stands last, so that text after a tool call is
        a part of its own.  Everything else (arguments, a signature, a citation) finds the
        part of its kind and key wherever that stands.
        """
        identity = (type(fragment), key)
        group = self._latest.get(identity)
        if (
            key is None
            or group is None
            or (_is_readable(fragment) and group is not self._groups[-1])
        ):
            group = self._latest[identity] = []
            self._groups.append(group)
        group.append(fragment)

    def parts(self) -> tuple[Part, ...]:
        """The parts as they stand."""
        return tuple(_part(group) for group in self._groups)


def _is_readable(fragment: Part) -> bool:
    return isinstance(fragment, Text | Reasoning | Refusal) and bool(fragment.text)


def _part(group: list[Part]) -> Part:
    """One part of all its fragments, which are of one kind."""
    match group[0]:
        case Text():
            return _text([it for it in group if isinstance(it, Text)])
        case Reasoning():
            return _reasoning([it for it in group if isinstance(it, Reasoning)])
        case Refusal():
            return _refusal([it for it in group if isinstance(it, Refusal)])
        case ToolCall():
            return _tool_call([it for it in group if isinstance(it, ToolCall)])
        case ToolResult():
            return _tool_result([it for it in group if isinstance(it, ToolResult)])
        case Media():
            return _media([it for it in group if isinstance(it, Media)])


def _text(group: list[Text]) -> Text:
    citations = tuple(citation for it in group for citation in it.citations)
    return Text(joined(it.text for it in group), citations, _metadata(it.metadata for it in group))


def _reasoning(group: list[Reasoning]) -> Reasoning:
    return Reasoning(
        joined(it.text for it in group),
        signature=joined(it.signature or "" for it in group) or None,
        redacted=joined(it.redacted or "" for it in group) or None,
        metadata=_metadata(it.metadata for it in group),
    )


def _refusal(group: list[Refusal]) -> Refusal:
    return Refusal(joined(it.text for it in group), _metadata(it.metadata for it in group))


def _tool_call(group: list[ToolCall]) -> ToolCall:
    """Id and name come once; servers that repeat them in every fragment mean them once too."""
    return ToolCall(
        id=_first(it.id for it in group),
        name=_first(it.name for it in group),
        arguments=joined(it.arguments for it in group),
        metadata=_metadata(it.metadata for it in group),
    )


def _tool_result(group: list[ToolResult]) -> ToolResult:
    return ToolResult(
        call_id=_first(it.call_id for it in group),
        content=joined(it.content for it in group),
        name=_first(it.name for it in group),
        failed=any(it.failed for it in group),
        metadata=_metadata(it.metadata for it in group),
    )


def _media(group: list[Media]) -> Media:
    return Media(
        media_type=_first(it.media_type for it in group),
        url=_first(it.url for it in group),
        base64=_joined_base64([it.base64 for it in group if it.base64]),
        transcript=joined(it.transcript for it in group),
        metadata=_metadata(it.metadata for it in group),
    )


def _joined_base64(pieces: list[str]) -> str:
    """Each piece may end in padding of its own, which has no place inside the whole."""
    if not any(piece.endswith("=") for piece in pieces[:-1]):
        return joined(pieces)
    try:
        content = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
    except ValueError:
        return joined(pieces)
    return base64.b64encode(content).decode()


def _first(values: Iterable[str]) -> str:
    """The first that says something."""
    return joined([next(filter(None, values), "")])


def _metadata(each: Iterable[Metadata]) -> Metadata:
    """Each name once, with what was said of it last."""
    known: dict[str, Json] = {}
    for pairs in each:
        known.update(pairs)
    return tuple(known.items())
