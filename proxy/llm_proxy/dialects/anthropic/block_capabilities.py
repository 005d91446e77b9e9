"""Converts parts to what Anthropic's content blocks can represent.

What came from this wire says so by its type (`server_tool_use`, `web_search_tool_result`,
`char_location`) and keeps all that stands beside it; what came from elsewhere keeps what has a
word here.  Tools of another provider's are told as an MCP server's, whose words fit any tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.anthropic import block_decoder
from llm_proxy.dialects.anthropic.block_decoder import (
    CALL,
    COMPACTION,
    MCP_CALL,
    MCP_RESULT,
    OF_CALL,
    OF_CITATION,
    OF_COMPACTION,
    OF_RESULT,
    RESULT,
    UPLOAD,
    result_content,
)
from llm_proxy.dialects.capabilities import nonempty_metadata, normalized_object_text
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

_PAGE: Final = "web_search_result_location"
_DOCUMENT: Final = "char_location"

_LOCATIONS: Final[Mapping[str, Mapping[str, Json]]] = {
    _PAGE: {},
    "search_result_location": {
        "search_result_index": 0, "start_block_index": 0, "end_block_index": 0,
    },
    _DOCUMENT: {"document_index": 0, "start_char_index": 0, "end_char_index": 0},
    "page_location": {"document_index": 0, "start_page_number": 1, "end_page_number": 1},
    "content_block_location": {
        "document_index": 0, "start_block_index": 0, "end_block_index": 0,
    },
}  # fmt: skip
"""What each type of citation must say of where the words stand, or clients refuse it."""

LINKS: Final = {_PAGE: "url", "search_result_location": "source"}
"""The field of a source's address, by the type of the citation; documents have none."""

_OF_CALL: Final = ("caller", "toolset_name")
_OF_REFUSAL: Final = (
    "category", "recommended_model", "fallback_credit_token", "fallback_has_prefill_claim",
)  # fmt: skip
_SERVER: Final = "server"
"""The name of an MCP server that nobody named."""


def convert_text(text: Text) -> Text:
    """A text, and what it rests on."""
    return Text(text.text, tuple(map(_convert_citation, text.citations)))


def _convert_citation(cited: Citation) -> Citation:
    """A page or a document; the whole block rests on it, so there is no span."""
    kind = _original_type(cited.metadata)
    if not kind.endswith("_location"):
        kind = _PAGE if cited.url else _DOCUMENT
        own: Metadata = ()
    else:
        own = _type_and_extra_fields(kind, cited.metadata, OF_CITATION)
    known = dict(own)
    needed = _LOCATIONS.get(kind, {}).items()
    return Citation(
        url=lenient_json.printable_text(cited.url) if kind in LINKS else "",
        title=lenient_json.printable_text(cited.title),
        quoted=lenient_json.printable_text(cited.quoted),
        metadata=(
            *(own or (("type", kind),)),
            *((name, value) for name, value in needed if name not in known),
        ),
    )


def convert_reasoning(thought: Reasoning) -> Reasoning:
    """A thought that can be read, one that is sealed, or a summary of the conversation."""
    if _original_type(thought.metadata) == COMPACTION:
        return replace(
            thought, metadata=_type_and_extra_fields(COMPACTION, thought.metadata, OF_COMPACTION)
        )
    if thought.redacted and not thought.text:
        return Reasoning(redacted=thought.redacted)
    return Reasoning(thought.text, thought.signature)


def convert_refusal(declined: Refusal) -> Refusal:
    """An explanation, and its category."""
    return Refusal(declined.text, nonempty_metadata(declined.metadata, _OF_REFUSAL))


def convert_tool_call(tool_call: ToolCall) -> ToolCall:
    """A call whose arguments stand on the wire as they were written."""
    kind = _original_type(tool_call.metadata)
    if kind != CALL and kind.endswith(CALL):
        return replace(
            tool_call, metadata=_type_and_extra_fields(kind, tool_call.metadata, OF_CALL)
        )
    return replace(tool_call, metadata=nonempty_metadata(tool_call.metadata, _OF_CALL))


def convert_object_tool_call(tool_call: ToolCall) -> ToolCall | None:
    """A call whose arguments stand there as an object; None where they are none."""
    arguments = normalized_object_text(tool_call.arguments)
    return None if arguments is None else convert_tool_call(replace(tool_call, arguments=arguments))


def awaits_client(tool_call: ToolCall) -> bool:
    """Whether a call waits for the client, who runs those without a type of their own."""
    return not _original_type(tool_call.metadata)


def convert_provider_tool_call(tool_call: ToolCall) -> ToolCall:
    """A call that the provider answered itself, as such; one of this wire's is one already."""
    if not awaits_client(tool_call):
        return tool_call
    values = (("type", MCP_CALL), ("server_name", _SERVER))
    return replace(tool_call, metadata=(*values, *tool_call.metadata))


def convert_tool_result(tool_result: ToolResult) -> ToolResult:
    """What a tool of the provider's gave back."""
    kind = _original_type(tool_result.metadata)
    own = _type_and_extra_fields(kind, tool_result.metadata, OF_RESULT)
    metadata = own if kind.endswith(RESULT) else (("type", MCP_RESULT),)
    said = replace(
        tool_result, call_id=lenient_json.printable_text(tool_result.call_id), metadata=metadata
    )
    value = result_content_value(said)
    if value is None:
        return replace(said, content=lenient_json.printable_text(tool_result.content))
    has_failed = tool_result.failed or block_decoder.is_failed_result({"content": value})
    return replace(said, content=lenient_json.compact_json(value), failed=has_failed)


def with_tool_name(tool_result: ToolResult, names: Mapping[str, str]) -> ToolResult:
    """The result with the name that it is read with; `names` tells the tool of each call's id."""
    tool = block_decoder.tool_name_of_result(_original_type(tool_result.metadata))
    return replace(tool_result, name=names.get(tool_result.call_id, tool))


def result_content_value(tool_result: ToolResult) -> Json:
    """What a result holds where that is no text: an object, or a list of blocks; else None."""
    try:
        value = lenient_json.parse_json(tool_result.content.encode("utf-8", "replace"))
    except ValueError:
        return None
    spelled = lenient_json.compact_json(value)
    is_itself = spelled and spelled == result_content(value)
    of_mcp = _original_type(tool_result.metadata) == MCP_RESULT
    fits = _is_list_of_text_blocks(value) if of_mcp else isinstance(value, dict | list)
    return value if fits and is_itself else None


def _is_list_of_text_blocks(value: Json) -> bool:
    """Whether it is a list of blocks of text, which is all that MCP servers give."""
    items = lenient_json.array_items(value)
    return bool(items) and all(
        lenient_json.object_fields(content).get("type") == "text" for content in items
    )


def convert_media(shown: Media) -> Media | None:
    """A file that a tool made; this model shows nothing else."""
    if _original_type(shown.metadata) != UPLOAD:
        return None
    return Media("*/*", metadata=_type_and_extra_fields(UPLOAD, shown.metadata, ()))


def _original_type(metadata: Metadata) -> str:
    """What the part says that it is, in the words of the wire that it came from."""
    kind = dict(metadata).get("type")
    return kind if isinstance(kind, str) else ""


def _type_and_extra_fields(kind: str, metadata: Metadata, known: Iterable[str]) -> Metadata:
    """The type, and what else stands beside a part and has no place of its own."""
    fields = {"type": kind, **{name: value for name, value in metadata if name not in known}}
    return lenient_json.named_metadata(fields, fields)
