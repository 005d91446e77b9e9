"""One step of an interaction as it is told: whole, or as it starts and grows."""

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


def whole(part: Part) -> Document:
    """The step of a part."""
    match part:
        case Text():
            return {**start(part), "content": [{**_said(part.text), **_annotated(part)}]}
        case Reasoning():
            summary = {"summary": [_said(part.text)]} if part.text else {}
            return {**start(part), **summary, **_signed(part)}
        case ToolCall():
            return {**start(part), "arguments": orjson.Fragment(part.arguments)}
        case ToolResult():
            return {**start(part), **_given(part)}
        case Media():
            return {**start(part), "content": [_shown(part)]}
        case Refusal():
            return {**start(part), "content": [_said(part.text)]}


def start(part: Part) -> Document:
    """What is said of a step before it grows."""
    match part:
        case Reasoning():
            return {"type": "thought"}
        case ToolCall():
            return _called(part)
        case ToolResult():
            return {**_kind(part), "call_id": part.call_id, **_named(part), **_beside(part)}
        case _:
            return {"type": "model_output"}


def deltas(part: Part, cut: Cut) -> Iterator[Document]:
    """How it grows."""
    match part:
        case Text() | Refusal():
            yield from map(_said, cut(part.text))
            if isinstance(part, Text) and part.citations:
                yield {"type": "text_annotation_delta", **_annotated(part)}
        case Reasoning():
            yield from _thoughts(part, cut)
        case ToolCall():
            yield from _arguments(part, cut)
        case ToolResult():
            yield {**_kind(part), **_given(part)}
        case Media():
            yield _shown(part)


def _thoughts(reasoning: Reasoning, cut: Cut) -> Iterator[Document]:
    for piece in cut(reasoning.text):
        yield {"type": "thought_summary", "content": _said(piece)}
    if reasoning.signature:
        yield {"type": "thought_signature", **_signed(reasoning)}


def _said(text: str) -> Document:
    return {"type": "text", "text": text}


def _annotated(text: Text) -> Document:
    """What a text rests on, in bytes of it."""
    offsets = byte_offsets(text.text)
    cited = [
        {**_annotation(it), **(_place(offsets[it.span[0]], offsets[it.span[1]]) if it.span else {})}
        for it in text.citations
    ]
    return {"annotations": cited} if cited else {}


def _place(begin: int, end: int) -> Document:
    return {"start_index": begin, "end_index": end}


def _annotation(it: Citation) -> Document:
    """A page, a file or a place; each kind has its own names for the same."""
    about: Document = dict(it.metadata)
    kind = about.pop("type", words.URL)
    match kind:
        case words.FILE:
            source = {"document_uri": it.url, "file_name": it.title, "source": it.quoted}
        case words.PLACE:
            source = {"url": it.url, "name": it.title}
        case _:
            source = {"url": it.url, "title": it.title}
    return {"type": kind, **{name: value for name, value in source.items() if value}, **about}


def _signed(reasoning: Reasoning) -> Document:
    return {"signature": reasoning.signature} if reasoning.signature else {}


def _called(call: ToolCall) -> Document:
    """A call before its arguments are told."""
    own = _kind(call)
    named = _named(call) if own else {"name": call.name}
    kind = own or {"type": words.FUNCTION}
    return {**kind, "id": call.id, **named, "arguments": {}, **_beside(call)}


def _arguments(call: ToolCall, cut: Cut) -> Iterator[Document]:
    """Arguments grow as text; those of Google's own tools come as they are."""
    if own := _kind(call):
        yield {**own, "arguments": orjson.Fragment(call.arguments)}
        return
    for piece in cut(call.arguments):
        yield {"type": "arguments_delta", "arguments": piece}


def _given(result: ToolResult) -> Document:
    """What a tool gave: text, or the JSON that the text spells."""
    failed = {"is_error": True} if result.failed else {}
    given: Any = result.content
    is_text = dict(result.metadata).get("type") == words.CODE_RESULT
    if not is_text and given[:1] in ("[", "{") and _is_compact(given):
        given = orjson.Fragment(given)
    return {"result": given, **failed}


def _is_compact(text: str) -> bool:
    """Whether it is JSON, spelled as it is read."""
    try:
        return lenient_json.compact(lenient_json.parse(text.encode())) == text
    except ValueError:
        return False


def _shown(media: Media) -> Document:
    about: Document = {"mime_type": media.media_type, "uri": media.url, "data": media.base64}
    said = {name: value for name, value in about.items() if value}
    return {"type": words.media_kind(media.media_type), **said, **dict(media.metadata)}


def _kind(part: ToolCall | ToolResult) -> Document:
    """The kind of a step that Google runs."""
    return {name: value for name, value in part.metadata if name == "type"}


def _named(part: ToolCall | ToolResult) -> Document:
    """The name of a tool, where the kind of its step does not say it."""
    kind = str(dict(part.metadata).get("type", ""))
    return {} if part.name == words.bare_name(kind) else {"name": part.name}


def _beside(part: ToolCall | ToolResult) -> Document:
    return {name: value for name, value in part.metadata if name != "type"}
