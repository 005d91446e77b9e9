"""Encodes one interaction step: whole, or as a start and deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.google import interaction_capabilities as words
from llm_proxy.dialects.google.citations import byte_offsets
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Citation, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

Cut = Callable[[str], Iterable[str]]


def encode_step(part: Part) -> Document:
    """The step of a part."""
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
            return {**encode_step_start(part), **_encode_result(part)}
        case Media():
            return {**encode_step_start(part), "content": [_encode_media(part)]}
        case Refusal():
            return {**encode_step_start(part), "content": [_encode_text(part.text)]}


def encode_step_start(part: Part) -> Document:
    """What is said of a step before it grows."""
    match part:
        case Reasoning():
            return {"type": "thought"}
        case ToolCall():
            return _encode_call_start(part)
        case ToolResult():
            return {
                **_step_kind(part),
                "call_id": part.call_id,
                **_tool_name_field(part),
                **_extra_fields(part),
            }
        case _:
            return {"type": "model_output"}


def encode_step_deltas(part: Part, cut: Cut) -> Iterator[Document]:
    """How it grows."""
    match part:
        case Text() | Refusal():
            yield from map(_encode_text, cut(part.text))
            if isinstance(part, Text) and part.citations:
                yield {"type": "text_annotation_delta", **_encode_annotations(part)}
        case Reasoning():
            yield from _encode_thought_deltas(part, cut)
        case ToolCall():
            yield from _encode_argument_deltas(part, cut)
        case ToolResult():
            yield {**_step_kind(part), **_encode_result(part)}
        case Media():
            yield _encode_media(part)


def _encode_thought_deltas(reasoning: Reasoning, cut: Cut) -> Iterator[Document]:
    for piece in cut(reasoning.text):
        yield {"type": "thought_summary", "content": _encode_text(piece)}
    if reasoning.signature:
        yield {"type": "thought_signature", **_signature_fields(reasoning)}


def _encode_text(text: str) -> Document:
    return {"type": "text", "text": text}


def _encode_annotations(text: Text) -> Document:
    """What a text rests on, in bytes of it."""
    offsets = byte_offsets(text.text)
    cited = [
        {
            **_encode_annotation(citation),
            **(
                _span_fields(offsets[citation.span[0]], offsets[citation.span[1]])
                if citation.span
                else {}
            ),
        }
        for citation in text.citations
    ]
    return {"annotations": cited} if cited else {}


def _span_fields(begin: int, end: int) -> Document:
    return {"start_index": begin, "end_index": end}


def _encode_annotation(citation: Citation) -> Document:
    """A page, a file or a place; each kind has its own names for the same."""
    document: Document = dict(citation.metadata)
    kind = document.pop("type", words.URL)
    match kind:
        case words.FILE:
            source = {
                "document_uri": citation.url,
                "file_name": citation.title,
                "source": citation.quoted,
            }
        case words.PLACE:
            source = {"url": citation.url, "name": citation.title}
        case _:
            source = {"url": citation.url, "title": citation.title}
    return {"type": kind, **{name: value for name, value in source.items() if value}, **document}


def _signature_fields(reasoning: Reasoning) -> Document:
    return {"signature": reasoning.signature} if reasoning.signature else {}


def _encode_call_start(call: ToolCall) -> Document:
    own = _step_kind(call)
    named = _tool_name_field(call) if own else {"name": call.name}
    kind = own or {"type": words.FUNCTION}
    return {**kind, "id": call.id, **named, "arguments": {}, **_extra_fields(call)}


def _encode_argument_deltas(call: ToolCall, cut: Cut) -> Iterator[Document]:
    """Arguments grow as text; those of Google's own tools come as they are."""
    if own := _step_kind(call):
        yield {**own, "arguments": orjson.Fragment(call.arguments)}
        return
    for piece in cut(call.arguments):
        yield {"type": "arguments_delta", "arguments": piece}


def _encode_result(result: ToolResult) -> Document:
    """What a tool gave: text, or the JSON that the text spells."""
    failed = {"is_error": True} if result.failed else {}
    value: Any = result.content
    is_text = dict(result.metadata).get("type") == words.CODE_RESULT
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
    return {"type": words.content_type_of_media(media.media_type), **fields, **dict(media.metadata)}


def _step_kind(part: ToolCall | ToolResult) -> Document:
    return {name: value for name, value in part.metadata if name == "type"}


def _tool_name_field(part: ToolCall | ToolResult) -> Document:
    """The name of a tool, where the kind of its step does not say it."""
    kind = str(dict(part.metadata).get("type", ""))
    return {} if part.name == words.default_tool_name(kind) else {"name": part.name}


def _extra_fields(part: ToolCall | ToolResult) -> Document:
    return {name: value for name, value in part.metadata if name != "type"}
