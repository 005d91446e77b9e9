"""Encodes one interaction step: whole, or as a start and deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.google import interaction_capabilities as capabilities
from llm_proxy.dialects.google.citations import byte_offsets
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Citation, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

TextSplitter = Callable[[str], Iterable[str]]


def encode_step(part: Part) -> Document:
    """The whole step of a part."""
    match part:
        case Text():
            return {
                **encode_step_start(part),
                "content": [{**_encode_text(part.text), **_encode_annotations(part)}],
            }
        case Reasoning():
            summary = {"summary": [_encode_text(part.text)]} if part.text else {}
            return {**encode_step_start(part), **summary, **_signature_fields(part)}
        case ToolCall():
            return {**encode_step_start(part), "arguments": orjson.Fragment(part.arguments)}
        case ToolResult():
            return {**encode_step_start(part), **_result_fields(part)}
        case Media():
            return {**encode_step_start(part), "content": [_encode_media(part)]}
        case Refusal():
            return {**encode_step_start(part), "content": [_encode_text(part.text)]}


def encode_step_start(part: Part) -> Document:
    """The step as `step.start` holds it, without its content."""
    match part:
        case Reasoning():
            return {"type": "thought"}
        case ToolCall():
            return _encode_call_start(part)
        case ToolResult():
            return {
                **_kind_field(part),
                "call_id": part.call_id,
                **_tool_name_field(part),
                **_metadata_fields(part),
            }
        case _:
            return {"type": "model_output"}


def encode_step_deltas(part: Part, split_text: TextSplitter) -> Iterator[Document]:
    """The deltas of a part, which follow its start."""
    match part:
        case Text() | Refusal():
            yield from map(_encode_text, split_text(part.text))
            if isinstance(part, Text) and part.citations:
                yield {"type": "text_annotation_delta", **_encode_annotations(part)}
        case Reasoning():
            yield from _encode_thought_deltas(part, split_text)
        case ToolCall():
            yield from _encode_argument_deltas(part, split_text)
        case ToolResult():
            yield {**_kind_field(part), **_result_fields(part)}
        case Media():
            yield _encode_media(part)


def _encode_thought_deltas(reasoning: Reasoning, split_text: TextSplitter) -> Iterator[Document]:
    for piece in split_text(reasoning.text):
        yield {"type": "thought_summary", "content": _encode_text(piece)}
    if reasoning.signature:
        yield {"type": "thought_signature", **_signature_fields(reasoning)}


def _encode_text(text: str) -> Document:
    return {"type": "text", "text": text}


def _encode_annotations(text: Text) -> Document:
    """The annotations of a text, with byte offsets in it."""
    offsets = byte_offsets(text.text)
    annotations = [
        {
            **_encode_annotation(citation),
            **(
                _byte_span_fields(offsets[citation.span[0]], offsets[citation.span[1]])
                if citation.span
                else {}
            ),
        }
        for citation in text.citations
    ]
    return {"annotations": annotations} if annotations else {}


def _byte_span_fields(start_byte: int, end_byte: int) -> Document:
    return {"start_index": start_byte, "end_index": end_byte}


def _encode_annotation(citation: Citation) -> Document:
    """A page, a file or a place; each kind has its own names for the same fields."""
    document: Document = dict(citation.metadata)
    kind = document.pop("type", capabilities.URL_CITATION)
    match kind:
        case capabilities.FILE_CITATION:
            source = {
                "document_uri": citation.url,
                "file_name": citation.title,
                "source": citation.quoted,
            }
        case capabilities.PLACE_CITATION:
            source = {"url": citation.url, "name": citation.title}
        case _:
            source = {"url": citation.url, "title": citation.title}
    return {"type": kind, **{name: value for name, value in source.items() if value}, **document}


def _signature_fields(reasoning: Reasoning) -> Document:
    return {"signature": reasoning.signature} if reasoning.signature else {}


def _encode_call_start(call: ToolCall) -> Document:
    marked_kind = _kind_field(call)
    name_field = _tool_name_field(call) if marked_kind else {"name": call.name}
    kind = marked_kind or {"type": capabilities.FUNCTION_CALL}
    return {**kind, "id": call.id, **name_field, "arguments": {}, **_metadata_fields(call)}


def _encode_argument_deltas(call: ToolCall, split_text: TextSplitter) -> Iterator[Document]:
    """Arguments as fragments of JSON text; those of server tools as one object."""
    if marked_kind := _kind_field(call):
        yield {**marked_kind, "arguments": orjson.Fragment(call.arguments)}
        return
    for piece in split_text(call.arguments):
        yield {"type": "arguments_delta", "arguments": piece}


def _result_fields(result: ToolResult) -> Document:
    """A tool's result as text, or as JSON where the text is compact JSON."""
    failed = {"is_error": True} if result.failed else {}
    value: Any = result.content
    is_text = dict(result.metadata).get("type") == capabilities.CODE_RESULT
    if not is_text and value[:1] in ("[", "{") and _is_compact_json(value):
        value = orjson.Fragment(value)
    return {"result": value, **failed}


def _is_compact_json(text: str) -> bool:
    try:
        return lenient_json.compact_json(lenient_json.parse_json(text.encode())) == text
    except ValueError:
        return False


def _encode_media(media: Media) -> Document:
    document: Document = {"mime_type": media.media_type, "uri": media.url, "data": media.base64}
    fields = {name: value for name, value in document.items() if value}
    return {
        "type": capabilities.content_kind_of_media(media.media_type),
        **fields,
        **dict(media.metadata),
    }


def _kind_field(part: ToolCall | ToolResult) -> Document:
    return {name: value for name, value in part.metadata if name == "type"}


def _tool_name_field(part: ToolCall | ToolResult) -> Document:
    """The name of a tool, where it differs from the default for the kind of its step."""
    kind = str(dict(part.metadata).get("type", ""))
    return {} if part.name == capabilities.default_tool_name(kind) else {"name": part.name}


def _metadata_fields(part: ToolCall | ToolResult) -> Document:
    return {name: value for name, value in part.metadata if name != "type"}
