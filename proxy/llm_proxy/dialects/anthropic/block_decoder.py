"""Decodes Anthropic content blocks, whole or from deltas, into parts.

Deltas grow the block that `content_block_start` opened; grown, it is the same object that a
response which does not stream holds, so both are read alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

_GROWS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""What a delta grows: the type of the block, where its start is missing, and the field."""

_REPLACES: Final = {
    "signature_delta": ("thinking", ("signature",)),
    "compaction_delta": ("compaction", ("content", "encrypted_content")),
}
"""What a delta gives whole; where it comes twice, the second counts."""

OF_CALL: Final = ("id", "name", "input", "partial_json")
OF_RESULT: Final = ("tool_use_id", "content", "is_error")
OF_COMPACTION: Final = ("content", "signature", "encrypted_content")
OF_CITATION: Final = ("cited_text", "url", "source", "title", "document_title")
"""The fields of a block or a citation that have words of their own."""

CALL: Final = "tool_use"
MCP_CALL: Final = "mcp_tool_use"
MCP_RESULT: Final = "mcp_tool_result"
RESULT: Final = "_tool_result"
"""How the types of results end."""

COMPACTION: Final = "compaction"
UPLOAD: Final = "container_upload"


def delta_output_chars(delta: Fields) -> int:
    """How many characters a delta adds to what was said; a piece of a call counts as one at least.

    Seals and citations add none.
    """
    kind = lenient_json.printable_text(delta.get("type"))
    if kind in _GROWS:
        of, name = _GROWS[kind]
        return max(len(lenient_json.str_or_empty(delta.get(name))), int(of == CALL))
    return (
        max(len(lenient_json.str_or_empty(delta.get("content"))), 1)
        if kind == "compaction_delta"
        else 0
    )


class ContentBlockDecoder:
    """One content block, as its deltas come."""

    def __init__(self, start: Fields, *, closed: bool = False) -> None:
        self._fields: dict[str, Json] = dict(start)
        self._argument_pieces: dict[str, list[str]] = {}
        self._citations: list[Json] = []
        self.is_closed = closed
        """Whether it was said that nothing more would come."""

    def feed(self, delta: Fields) -> None:
        """Read one delta; those of unknown types are left out."""
        kind = lenient_json.printable_text(delta.get("type"))
        if kind in _GROWS:
            of, name = _GROWS[kind]
            self._argument_pieces.setdefault(name, []).append(
                lenient_json.str_or_empty(delta.get(name))
            )
        elif kind in _REPLACES:
            of, names = _REPLACES[kind]
            self._fields.update((name, delta.get(name)) for name in names)
        elif kind == "citations_delta":
            of = "text"
            self._citations.append(delta.get("citation"))
        else:
            return
        self._fields.setdefault("type", of)

    def content(self) -> Fields:
        """The block as it stands; of a tool call, the JSON as it was written is `partial_json`."""
        grown: dict[str, Json] = {
            name: lenient_json.join_pieces(
                [lenient_json.str_or_empty(self._fields.get(name)), *pieces]
            )
            for name, pieces in self._argument_pieces.items()
        }
        if self._citations:
            grown["citations"] = [
                *lenient_json.array_items(self._fields.get("citations")),
                *self._citations,
            ]
        if is_tool_call_block(self._fields) and not grown.get("partial_json"):
            grown["partial_json"] = self._undelivered_arguments()
        return {**self._fields, **grown}

    def _undelivered_arguments(self) -> str:
        """The arguments of a call without deltas: an open one may not have begun to write."""
        value = self._fields.get("input")
        return (
            lenient_json.compact_json(value)
            if value or (self.is_closed and value is not None)
            else ""
        )


def is_tool_call_block(block: Fields) -> bool:
    """Whether it is a call: `tool_use`, `server_tool_use`, `mcp_tool_use`."""
    return lenient_json.printable_text(block.get("type")).endswith(CALL)


def decode_block(block: Fields, names: Mapping[str, str]) -> Part | None:
    """What a block says; None for the types that no part has a word for.

    `names` tells the tool behind each id, since a result gives its call's id alone.
    """
    match block.get("type"):
        case "text":
            return _decode_text(block)
        case "thinking":
            return Reasoning(
                lenient_json.printable_text(block.get("thinking")),
                lenient_json.printable_text(block.get("signature")) or None,
            )
        case "redacted_thinking":
            return Reasoning(redacted=lenient_json.printable_text(block.get("data")) or None)
        case it if it == COMPACTION:
            return _decode_compaction(block)
        case it if it == UPLOAD:
            return Media("*/*", metadata=lenient_json.named_metadata(block, block))
        case str(kind) if kind.endswith(CALL):
            return _decode_tool_call(block)
        case str(kind) if kind.endswith(RESULT):
            return _decode_tool_result(block, names)
        case _:
            return None


def _decode_text(block: Fields) -> Text:
    citations = tuple(
        _decode_citation(object_item)
        for object_item in lenient_json.object_items(block.get("citations"))
    )
    return Text(lenient_json.printable_text(block.get("text")), citations)


def _decode_citation(cited: Fields) -> Citation:
    """A page or a document; its places are counted in the source, so there is no span."""
    return Citation(
        url=lenient_json.printable_text(cited.get("url") or cited.get("source")),
        title=lenient_json.printable_text(cited.get("title") or cited.get("document_title")),
        quoted=lenient_json.printable_text(cited.get("cited_text")),
        metadata=_extra_fields(cited, OF_CITATION),
    )


def _decode_compaction(block: Fields) -> Reasoning:
    """A summary that stands for the conversation so far, to be handed back like reasoning."""
    return Reasoning(
        lenient_json.printable_text(block.get("content")),
        signature=lenient_json.printable_text(block.get("signature")) or None,
        redacted=lenient_json.printable_text(block.get("encrypted_content")) or None,
        metadata=_extra_fields(block, OF_COMPACTION),
    )


def _decode_tool_call(block: Fields) -> ToolCall:
    """A call of the client's tool; of the provider's own tools, the type stands beside it."""
    is_plain = block.get("type") == CALL
    return ToolCall(
        id=lenient_json.printable_text(block.get("id")),
        name=lenient_json.printable_text(block.get("name")),
        arguments=lenient_json.printable_text(block.get("partial_json")),
        metadata=_extra_fields(block, (*OF_CALL, "type") if is_plain else OF_CALL),
    )


def _decode_tool_result(block: Fields, names: Mapping[str, str]) -> ToolResult:
    """What a tool that the provider ran gave back; anything but plain text as JSON."""
    call_id = lenient_json.printable_text(block.get("tool_use_id"))
    return ToolResult(
        call_id,
        content=result_content(block.get("content")),
        name=names.get(
            call_id, tool_name_of_result(lenient_json.printable_text(block.get("type")))
        ),
        failed=is_failed_result(block),
        metadata=_extra_fields(block, OF_RESULT),
    )


def tool_name_of_result(kind: str) -> str:
    """The tool that gives results of this type; an MCP server has tools of any name."""
    return "" if kind == MCP_RESULT else kind.removesuffix(RESULT)


def is_failed_result(result: Fields) -> bool:
    """Whether a result says that the tool failed, in a flag or by the type of what it holds."""
    kind = lenient_json.printable_text(
        lenient_json.object_fields(result.get("content")).get("type")
    )
    return result.get("is_error") is True or kind.endswith("_error")


def result_content(content: Json) -> str:
    """What a result holds, in words or as JSON; one block of text is its text."""
    match content:
        case [{"type": "text", "text": str(text)}]:
            return lenient_json.join_pieces([text])
        case _:
            return lenient_json.printable_text(content)


def _extra_fields(source: Fields, known: tuple[str, ...]) -> Metadata:
    return lenient_json.named_metadata(source, (name for name in source if name not in known))
