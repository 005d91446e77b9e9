"""Joins the fragments of a streamed response into parts.

A delta is itself a small part: `Text("Hel")`, `ToolCall("", "", '{"ci')`.  Dialects add them in
order, and each starts a new part or extends one:

    Text "Hel"   Text "lo"   ToolCall #0 "f" "{"   ToolCall #1 "g" "{}"   ToolCall #0 "}"
    └──── Text "Hello" ───┘  └─ ToolCall f "{}" ── ToolCall g "{}" ─────────────┘
"""

from __future__ import annotations

import base64
from collections.abc import Hashable
from dataclasses import fields
from itertools import chain
from typing import Any

from llm_proxy.dialects.lenient_json import join_pieces
from llm_proxy.turns import Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult


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

    def latest_part(self, kind: type[Part], key: Hashable = "") -> Part | None:
        """The latest part of this kind and key, joined from its fragments so far."""
        group = self._latest_group_by_identity.get((kind, key))
        return None if group is None else _join_fragments(group)

    def joined_parts(self, start: int = 0) -> tuple[Part, ...]:
        """The parts so far, from the one with this number on, each joined from its fragments."""
        return tuple(_join_fragments(group) for group in self._groups[start:])


def _has_readable_text(fragment: Part) -> bool:
    return isinstance(fragment, Text | Reasoning | Refusal) and bool(fragment.text)


def _join_fragments(group: list[Part]) -> Part:
    """The fragments as one part; ids and names are taken once, since some servers repeat them."""
    values: dict[str, Any] = {}
    for field in fields(group[0]):
        pieces = [getattr(fragment, field.name) for fragment in group]
        match field.name:
            case "text" | "arguments" | "content" | "transcript":
                values[field.name] = join_pieces(pieces)
            case "signature" | "redacted":
                values[field.name] = join_pieces(filter(None, pieces)) or None
            case "base64":
                values[field.name] = _join_base64(list(filter(None, pieces)))
            case "citations":
                values[field.name] = tuple(chain.from_iterable(pieces))
            case "failed":
                values[field.name] = any(pieces)
            case "metadata":  # each name once, with its last value
                values[field.name] = tuple(dict(chain.from_iterable(pieces)).items())
            case _:
                values[field.name] = join_pieces([next(filter(None, pieces), "")])
    return type(group[0])(**values)


def _join_base64(pieces: list[str]) -> str:
    """Decodes and re-encodes pieces with padding of their own, which is invalid inside base64."""
    if not any(piece.endswith("=") for piece in pieces[:-1]):
        return join_pieces(pieces)
    try:
        decoded = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
    except ValueError:
        return join_pieces(pieces)
    return base64.b64encode(decoded).decode()


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
