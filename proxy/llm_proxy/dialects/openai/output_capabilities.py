"""Converts parts to what output items of the Responses API can represent.

A call or a result decoded from an output item keeps the item's type and its other fields in its
metadata.  A call from another dialect becomes a function call, which waits for the client; one
with a result was run by the provider, and becomes an MCP call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.lenient_json import join_pieces
from llm_proxy.dialects.openai import output_item_decoder
from llm_proxy.dialects.openai.output_item_decoder import IMAGE_FIELDS, URL_CITATION_TYPE
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

SUMMARY_TYPE: Final = "summary_text"
REASONING_TEXT_TYPE: Final = "reasoning_text"
COMPACTION_TYPE: Final = "compaction"

_MESSAGE_FIELDS: Final = ("id", "status", "phase")
_REASONING_FIELDS: Final = ("id", "status", "format")
_FUNCTION_CALL_FIELDS: Final = ("id", "status", "namespace")
_UNCOMPLETED_STATUSES: Final = frozenset(
    ("in_progress", "incomplete", "failed", "searching", "generating", "interpreting", "calling")
)
"""The statuses of an item that are kept; `completed` is the default."""
_FILE_CITATION_TYPES: Final = ("file_citation", "container_file_citation", "file_path")
_ANNOTATION_FIELDS: Final = (
    "type",
    "url",
    "title",
    "filename",
    "content",
    "start_index",
    "end_index",
)


def representable_text(part: Text) -> Text:
    """Text with its citations and log probabilities."""
    logprobs = dict(part.metadata).get("logprobs")
    entries: list[Json] = [dict(entry) for entry in lenient_json.array_objects(logprobs)]
    values = (*_string_metadata(part.metadata, _MESSAGE_FIELDS), ("logprobs", entries))
    return Text(
        part.text,
        tuple(map(_representable_citation, part.citations)),
        nonempty_metadata(values, (*dict(values),)),
    )


def representable_refusal(part: Refusal) -> Refusal:
    """A refusal with the metadata of its message."""
    return Refusal(part.text, _string_metadata(part.metadata, _MESSAGE_FIELDS))


def representable_reasoning(part: Reasoning, kind: str) -> Reasoning:
    """A summary, a reasoning text or encrypted reasoning; a text without a type is of `kind`."""
    metadata = _string_metadata(part.metadata, _REASONING_FIELDS)
    block_type = dict(part.metadata).get("type")
    if part.text:
        text_type = block_type if block_type in (SUMMARY_TYPE, REASONING_TEXT_TYPE) else kind
        return Reasoning(
            part.text, redacted=part.redacted, metadata=(*metadata, ("type", text_type))
        )
    if part.redacted and block_type == COMPACTION_TYPE:
        return Reasoning(redacted=part.redacted, metadata=(*metadata, ("type", block_type)))
    keeps_metadata = part.redacted or "id" in dict(metadata)
    return Reasoning(redacted=part.redacted, metadata=metadata if keeps_metadata else ())


def representable_tool_call(part: ToolCall) -> ToolCall:
    """A call with the metadata that its item can hold."""
    kind = original_item_type(part)
    if not kind:
        caller = nonempty_metadata(part.metadata, ("caller",))
        return replace(
            part, metadata=(*_string_metadata(part.metadata, _FUNCTION_CALL_FIELDS), *caller)
        )
    return replace(
        part,
        metadata=_metadata_except(
            part.metadata, (*output_item_decoder.KNOWN_CALL_FIELDS, "result")
        ),
    )


def representable_tool_result(part: ToolResult) -> ToolResult:
    """The result of a call, for the call's item or a separate one."""
    tool_result = replace(
        part, call_id=join_pieces([part.call_id]), content=join_pieces([part.content])
    )
    error = nonempty_metadata(part.metadata, ("error",)) if tool_result.content else ()
    if not original_item_type(part):
        return replace(tool_result, metadata=error)
    excluded = (*output_item_decoder.KNOWN_CALL_FIELDS, "result")
    return replace(tool_result, metadata=(*_metadata_except(part.metadata, excluded), *error))


def representable_image(part: Media) -> Media | None:
    """A generated image, inline as base64; None for any other media or an image by URL."""
    if not part.media_type.startswith("image/") or not part.base64:
        return None
    media_type = "image/*" if part.media_type == "image/" else join_pieces([part.media_type])
    metadata = _string_metadata(part.metadata, ("id", *IMAGE_FIELDS[1:]))
    return Media(media_type, base64=part.base64, metadata=metadata)


def representable_image_or_audio(part: Media) -> Media | None:
    """A generated image, or audio, which only streams can represent; else None."""
    if part.media_type.startswith("audio/") and (part.base64 or part.transcript):
        return Media("audio/*", base64=part.base64, transcript=join_pieces([part.transcript]))
    return representable_image(part)


def original_item_type(part: ToolCall | ToolResult) -> str:
    """The type of the item that the part was decoded from; empty for a function's or none."""
    kind = dict(part.metadata).get("type")
    if not isinstance(kind, str) or kind == "function_call":
        return ""
    if isinstance(part, ToolResult):
        return kind if kind.endswith(output_item_decoder.OUTPUT_TYPE_SUFFIXES) else ""
    return (
        kind if kind.endswith("_call") or kind in output_item_decoder.UNSUFFIXED_CALL_TYPES else ""
    )


def _string_metadata(metadata: Metadata, names: tuple[str, ...]) -> Metadata:
    pairs = (
        (name, value)
        for name, value in nonempty_metadata(metadata, names)
        if isinstance(value, str)
    )
    return tuple(
        (name, value) for name, value in pairs if name != "status" or value in _UNCOMPLETED_STATUSES
    )


def _metadata_except(metadata: Metadata, excluded: tuple[str, ...]) -> Metadata:
    """The metadata without the excluded fields: an item may have any field."""
    fields = {name: value for name, value in metadata if name not in (*excluded, "id", "status")}
    return (
        *_string_metadata(metadata, ("id", "status")),
        *lenient_json.select_metadata(fields, fields),
    )


def _representable_citation(citation: Citation) -> Citation:
    """A cited page or file, and the span that cites it."""
    span = citation.span if citation.span and citation.span[0] < citation.span[1] else None
    converted = Citation(
        join_pieces([citation.url]),
        join_pieces([citation.title]),
        join_pieces([citation.quoted]),
        span,
    )
    fields = dict(citation.metadata)
    if fields.get("type") not in _FILE_CITATION_TYPES:
        return converted
    others = {name: value for name, value in fields.items() if name not in _ANNOTATION_FIELDS}
    return replace(
        converted,
        metadata=(("type", fields["type"]), *lenient_json.select_metadata(others, others)),
    )


def encode_annotation(citation: Citation) -> dict[str, Json]:
    """A citation as an entry of `annotations`."""
    start, end = citation.span or (0, 0)
    file_fields = dict(citation.metadata)
    if not file_fields:
        page_fields: dict[str, Json] = {
            "type": URL_CITATION_TYPE,
            "start_index": start,
            "end_index": end,
        }
        quoted: dict[str, Json] = {"content": citation.quoted} if citation.quoted else {}
        return {**page_fields, "url": citation.url, "title": citation.title, **quoted}
    fields = {"filename": citation.title, "url": citation.url, "content": citation.quoted}
    span_fields: dict[str, Json] = {"start_index": start, "end_index": end} if citation.span else {}
    return {**file_fields, **{name: text for name, text in fields.items() if text}, **span_fields}
