"""Decodes Anthropic content blocks, whole or from deltas, into parts.

Deltas extend the block of `content_block_start` to the same object that a response without
streaming holds, so both are decoded alike.
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

_APPENDING_DELTAS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""The block type of each delta (used if the block's start is missing), and the extended field."""

_REPLACING_DELTAS: Final = {
    "signature_delta": ("thinking", ("signature",)),
    "compaction_delta": ("compaction", ("content", "encrypted_content")),
}
"""The block type of each delta, and the fields that it replaces; the last delta wins."""

CALL_FIELDS: Final = ("id", "name", "input", "partial_json")
RESULT_FIELDS: Final = ("tool_use_id", "content", "is_error")
COMPACTION_FIELDS: Final = ("content", "signature", "encrypted_content")
CITATION_FIELDS: Final = ("cited_text", "url", "source", "title", "document_title")
"""The fields of a block or a citation that part fields hold; all others become metadata."""

TOOL_USE: Final = "tool_use"
MCP_TOOL_USE: Final = "mcp_tool_use"
MCP_TOOL_RESULT: Final = "mcp_tool_result"
TOOL_RESULT_SUFFIX: Final = "_tool_result"
"""The end of each result type: `web_search_tool_result`."""

COMPACTION: Final = "compaction"
CONTAINER_UPLOAD: Final = "container_upload"


def delta_output_chars(delta: Fields) -> int:
    """How many output characters a delta adds; a piece of a tool call counts as at least one.

    Signatures and citations add none.
    """
    kind = lenient_json.value_as_text(delta.get("type"))
    if kind in _APPENDING_DELTAS:
        block_type, name = _APPENDING_DELTAS[kind]
        return max(len(lenient_json.str_or_empty(delta.get(name))), int(block_type == TOOL_USE))
    return (
        max(len(lenient_json.str_or_empty(delta.get("content"))), 1)
        if kind == "compaction_delta"
        else 0
    )


class ContentBlockDecoder:
    """Decodes one content block from its start and deltas."""

    def __init__(self, start: Fields, *, closed: bool = False) -> None:
        self._fields: dict[str, Json] = dict(start)
        self._pieces_by_field: dict[str, list[str]] = {}
        self._citations: list[Json] = []
        self.is_closed = closed
        """Whether the block has been stopped."""

    def feed(self, delta: Fields) -> None:
        """Add one delta; those of unknown types are ignored."""
        kind = lenient_json.value_as_text(delta.get("type"))
        if kind in _APPENDING_DELTAS:
            block_type, name = _APPENDING_DELTAS[kind]
            self._pieces_by_field.setdefault(name, []).append(
                lenient_json.str_or_empty(delta.get(name))
            )
        elif kind in _REPLACING_DELTAS:
            block_type, names = _REPLACING_DELTAS[kind]
            self._fields.update((name, delta.get(name)) for name in names)
        elif kind == "citations_delta":
            block_type = "text"
            self._citations.append(delta.get("citation"))
        else:
            return
        self._fields.setdefault("type", block_type)

    def block_fields(self) -> Fields:
        """The block so far; `partial_json` holds a call's arguments as text."""
        joined_fields: dict[str, Json] = {
            name: lenient_json.join_pieces(
                [lenient_json.str_or_empty(self._fields.get(name)), *pieces]
            )
            for name, pieces in self._pieces_by_field.items()
        }
        if self._citations:
            joined_fields["citations"] = [
                *lenient_json.array_items(self._fields.get("citations")),
                *self._citations,
            ]
        if is_tool_call_block(self._fields) and not joined_fields.get("partial_json"):
            joined_fields["partial_json"] = self._initial_arguments()
        return {**self._fields, **joined_fields}

    def _initial_arguments(self) -> str:
        """The arguments of a call without deltas; an open call's `{}` may only be a placeholder."""
        value = self._fields.get("input")
        return (
            lenient_json.compact_json(value)
            if value or (self.is_closed and value is not None)
            else ""
        )


def is_tool_call_block(block: Fields) -> bool:
    """Whether it is a tool call: `tool_use`, `server_tool_use`, `mcp_tool_use`."""
    return lenient_json.value_as_text(block.get("type")).endswith(TOOL_USE)


def decode_block(block: Fields, tool_names: Mapping[str, str]) -> Part | None:
    """The part of a block; None for types that no part can represent.

    `tool_names` holds the tool of each call id, since a result has only the id.
    """
    match block.get("type"):
        case "text":
            return _decode_text(block)
        case "thinking":
            return Reasoning(
                lenient_json.value_as_text(block.get("thinking")),
                lenient_json.value_as_text(block.get("signature")) or None,
            )
        case "redacted_thinking":
            return Reasoning(redacted=lenient_json.value_as_text(block.get("data")) or None)
        case block_type if block_type == COMPACTION:
            return _decode_compaction(block)
        case block_type if block_type == CONTAINER_UPLOAD:
            return Media("*/*", metadata=lenient_json.select_metadata(block, block))
        case str(kind) if kind.endswith(TOOL_USE):
            return _decode_tool_call(block)
        case str(kind) if kind.endswith(TOOL_RESULT_SUFFIX):
            return _decode_tool_result(block, tool_names)
        case _:
            return None


def _decode_text(block: Fields) -> Text:
    citations = tuple(
        _decode_citation(citation)
        for citation in lenient_json.array_objects(block.get("citations"))
    )
    return Text(lenient_json.value_as_text(block.get("text")), citations)


def _decode_citation(citation: Fields) -> Citation:
    """A page or a document; locations are in the source, not in the text: there is no span."""
    return Citation(
        url=lenient_json.value_as_text(citation.get("url") or citation.get("source")),
        title=lenient_json.value_as_text(citation.get("title") or citation.get("document_title")),
        quoted=lenient_json.value_as_text(citation.get("cited_text")),
        metadata=_extra_fields(citation, CITATION_FIELDS),
    )


def _decode_compaction(block: Fields) -> Reasoning:
    """A summary of the conversation so far, which the client sends back like reasoning."""
    return Reasoning(
        lenient_json.value_as_text(block.get("content")),
        signature=lenient_json.value_as_text(block.get("signature")) or None,
        redacted=lenient_json.value_as_text(block.get("encrypted_content")) or None,
        metadata=_extra_fields(block, COMPACTION_FIELDS),
    )


def _decode_tool_call(block: Fields) -> ToolCall:
    """A tool call; for the provider's own tools, metadata holds the type."""
    is_client_call = block.get("type") == TOOL_USE
    return ToolCall(
        id=lenient_json.value_as_text(block.get("id")),
        name=lenient_json.value_as_text(block.get("name")),
        arguments=lenient_json.value_as_text(block.get("partial_json")),
        metadata=_extra_fields(block, (*CALL_FIELDS, "type") if is_client_call else CALL_FIELDS),
    )


def _decode_tool_result(block: Fields, tool_names: Mapping[str, str]) -> ToolResult:
    """The result of a tool that the provider ran; anything but one text is JSON."""
    call_id = lenient_json.value_as_text(block.get("tool_use_id"))
    return ToolResult(
        call_id,
        content=result_content_text(block.get("content")),
        name=tool_names.get(
            call_id, tool_name_of_result_type(lenient_json.value_as_text(block.get("type")))
        ),
        failed=is_failed_result(block),
        metadata=_extra_fields(block, RESULT_FIELDS),
    )


def tool_name_of_result_type(result_type: str) -> str:
    """The tool with results of this type; empty for MCP servers, whose tools have any name."""
    return "" if result_type == MCP_TOOL_RESULT else result_type.removesuffix(TOOL_RESULT_SUFFIX)


def is_failed_result(result: Fields) -> bool:
    """Whether the tool failed, by `is_error` or by the type of the content."""
    kind = lenient_json.value_as_text(lenient_json.object_fields(result.get("content")).get("type"))
    return result.get("is_error") is True or kind.endswith("_error")


def result_content_text(content: Json) -> str:
    """The content of a result as text: that of a single text block, else JSON."""
    match content:
        case [{"type": "text", "text": str(text)}]:
            return lenient_json.join_pieces([text])
        case _:
            return lenient_json.value_as_text(content)


def _extra_fields(source: Fields, known: tuple[str, ...]) -> Metadata:
    return lenient_json.select_metadata(source, (name for name in source if name not in known))
