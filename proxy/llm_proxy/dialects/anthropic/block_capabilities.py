"""Converts parts to what Anthropic's content blocks can represent.

A part from this format is recognised by the type in its metadata (`server_tool_use`,
`web_search_tool_result`, `char_location`) and keeps all its metadata; a part from another format
keeps what this one can represent.  Tools of another provider become an MCP server's, whose blocks
can represent any tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.anthropic import block_decoder
from llm_proxy.dialects.anthropic.block_decoder import (
    CALL_FIELDS,
    CITATION_FIELDS,
    COMPACTION,
    COMPACTION_FIELDS,
    CONTAINER_UPLOAD,
    MCP_TOOL_RESULT,
    MCP_TOOL_USE,
    RESULT_FIELDS,
    TOOL_RESULT_SUFFIX,
    TOOL_USE,
    result_content_text,
)
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.encoding import normalized_object_json
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Metadata,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)

_WEB_PAGE_LOCATION: Final = "web_search_result_location"
_CHAR_LOCATION: Final = "char_location"

_REQUIRED_LOCATION_FIELDS: Final[Mapping[str, Mapping[str, Json]]] = {
    _WEB_PAGE_LOCATION: {},
    "search_result_location": {
        "search_result_index": 0, "start_block_index": 0, "end_block_index": 0,
    },
    _CHAR_LOCATION: {"document_index": 0, "start_char_index": 0, "end_char_index": 0},
    "page_location": {"document_index": 0, "start_page_number": 1, "end_page_number": 1},
    "content_block_location": {
        "document_index": 0, "start_block_index": 0, "end_block_index": 0,
    },
}  # fmt: skip
"""The location fields that clients require in each type of citation, with defaults."""

URL_FIELDS: Final = {_WEB_PAGE_LOCATION: "url", "search_result_location": "source"}
"""The field of the source's URL by citation type; documents have none."""

_CLIENT_CALL_METADATA: Final = ("caller", "toolset_name")
_REFUSAL_METADATA: Final = (
    "category", "recommended_model", "fallback_credit_token", "fallback_has_prefill_claim",
)  # fmt: skip
_DEFAULT_MCP_SERVER: Final = "server"


def representable_text(text: Text) -> Text:
    """The text with its citations."""
    return Text(text.text, tuple(map(_representable_citation, text.citations)))


def _representable_citation(citation: Citation) -> Citation:
    """A page or a document; citations apply to the whole block, so there is no span."""
    kind = _original_type(citation.metadata)
    if not kind.endswith("_location"):
        kind = _WEB_PAGE_LOCATION if citation.url else _CHAR_LOCATION
        kept_metadata: Metadata = ()
    else:
        kept_metadata = _type_and_extra_fields(kind, citation.metadata, CITATION_FIELDS)
    kept_fields = dict(kept_metadata)
    required_fields = _REQUIRED_LOCATION_FIELDS.get(kind, {}).items()
    return Citation(
        url=lenient_json.value_as_text(citation.url) if kind in URL_FIELDS else "",
        title=lenient_json.value_as_text(citation.title),
        quoted=lenient_json.value_as_text(citation.quoted),
        metadata=(
            *(kept_metadata or (("type", kind),)),
            *((name, value) for name, value in required_fields if name not in kept_fields),
        ),
    )


def representable_reasoning(reasoning: Reasoning) -> Reasoning:
    """Readable reasoning, redacted reasoning, or a compaction (summary of the conversation)."""
    if _original_type(reasoning.metadata) == COMPACTION:
        return replace(
            reasoning,
            metadata=_type_and_extra_fields(COMPACTION, reasoning.metadata, COMPACTION_FIELDS),
        )
    if reasoning.redacted and not reasoning.text:
        return Reasoning(redacted=reasoning.redacted)
    return Reasoning(reasoning.text, reasoning.signature)


def representable_refusal(refusal: Refusal) -> Refusal:
    """The explanation, with its category and related metadata."""
    return Refusal(refusal.text, nonempty_metadata(refusal.metadata, _REFUSAL_METADATA))


def representable_tool_call(tool_call: ToolCall) -> ToolCall:
    """The call for a stream, which sends arguments as the model wrote them."""
    kind = _original_type(tool_call.metadata)
    if kind != TOOL_USE and kind.endswith(TOOL_USE):
        return replace(
            tool_call, metadata=_type_and_extra_fields(kind, tool_call.metadata, CALL_FIELDS)
        )
    return replace(tool_call, metadata=nonempty_metadata(tool_call.metadata, _CLIENT_CALL_METADATA))


def representable_object_argument_call(tool_call: ToolCall) -> ToolCall | None:
    """The call for a document, which has arguments as an object; None if they are not an object."""
    arguments = normalized_object_json(tool_call.arguments)
    return (
        None
        if arguments is None
        else representable_tool_call(replace(tool_call, arguments=arguments))
    )


def awaits_client(tool_call: ToolCall) -> bool:
    """Whether the client runs the call: those without a type in their metadata."""
    return not _original_type(tool_call.metadata)


def representable_provider_tool_call(tool_call: ToolCall) -> ToolCall:
    """A call that the provider ran; one from another format becomes an MCP server's."""
    if not awaits_client(tool_call):
        return tool_call
    values = (("type", MCP_TOOL_USE), ("server_name", _DEFAULT_MCP_SERVER))
    return replace(tool_call, metadata=(*values, *tool_call.metadata))


def representable_tool_result(tool_result: ToolResult) -> ToolResult:
    """The result of a provider's tool; its type defaults to an MCP server's."""
    kind = _original_type(tool_result.metadata)
    kept_metadata = _type_and_extra_fields(kind, tool_result.metadata, RESULT_FIELDS)
    metadata = kept_metadata if kind.endswith(TOOL_RESULT_SUFFIX) else (("type", MCP_TOOL_RESULT),)
    converted = replace(
        tool_result, call_id=lenient_json.value_as_text(tool_result.call_id), metadata=metadata
    )
    value = structured_result_content(converted)
    if value is None:
        return replace(converted, content=lenient_json.value_as_text(tool_result.content))
    has_failed = tool_result.failed or block_decoder.is_failed_result({"content": value})
    return replace(converted, content=lenient_json.compact_json(value), failed=has_failed)


def with_tool_name(tool_result: ToolResult, tool_names: Mapping[str, str]) -> ToolResult:
    """The result with the name that it decodes to; `tool_names` is by call id."""
    default_name = block_decoder.tool_name_of_result_type(_original_type(tool_result.metadata))
    return replace(tool_result, name=tool_names.get(tool_result.call_id, default_name))


def structured_result_content(tool_result: ToolResult) -> Json:
    """The content of a result as an object or a list of blocks; None if it is text."""
    try:
        value = lenient_json.parse_json(tool_result.content.encode("utf-8", "replace"))
    except ValueError:
        return None
    compact = lenient_json.compact_json(value)
    is_unchanged = compact and compact == result_content_text(value)
    is_mcp_result = _original_type(tool_result.metadata) == MCP_TOOL_RESULT
    is_allowed = _is_list_of_text_blocks(value) if is_mcp_result else isinstance(value, dict | list)
    return value if is_allowed and is_unchanged else None


def _is_list_of_text_blocks(value: Json) -> bool:
    """Whether it is a list of text blocks, the only content of MCP results."""
    items = lenient_json.array_items(value)
    return bool(items) and all(
        lenient_json.object_fields(item).get("type") == "text" for item in items
    )


def representable_media(media: Media) -> Media | None:
    """A file that a tool created (`container_upload`), the only media; None for any other."""
    if _original_type(media.metadata) != CONTAINER_UPLOAD:
        return None
    return Media("*/*", metadata=_type_and_extra_fields(CONTAINER_UPLOAD, media.metadata, ()))


def _original_type(metadata: Metadata) -> str:
    """The type in the metadata, as in the format that the part came from; empty without one."""
    kind = dict(metadata).get("type")
    return kind if isinstance(kind, str) else ""


def _type_and_extra_fields(kind: str, metadata: Metadata, known: Iterable[str]) -> Metadata:
    """The type, and the metadata without the `known` names."""
    fields = {"type": kind, **{name: value for name, value in metadata if name not in known}}
    return lenient_json.select_metadata(fields, fields)
