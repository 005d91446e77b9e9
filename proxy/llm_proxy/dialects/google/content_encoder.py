"""Encodes a candidate's content, whole or in stream pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.google import part_conversion
from llm_proxy.dialects.google.content_decoder import OF_PART
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

Cut = Callable[[str], Iterable[str]]


def empty_part() -> Document:
    """A part that says nothing."""
    return {"text": ""}


def encode_parts(items: Iterable[Part]) -> list[Document]:
    """Each part."""
    return [_encode_part(part) for part in items]


def encode_part_groups(items: Iterable[Part], cut: Cut) -> Iterator[list[Document]]:
    """The parts of each chunk; calls that are asked for at once share one."""
    for calls, group in groupby(items, part_conversion.is_client_tool_call):
        if calls:
            yield encode_parts(group)
        else:
            yield from (piece for part in group for piece in _split_part(part, cut))


def _split_part(part: Part, cut: Cut) -> Iterator[list[Document]]:
    """A part in pieces, of which the last bears its seal."""
    if isinstance(part, Text | Reasoning) and part.text:
        *first, last = (_part_with_text(part, piece) for piece in cut(part.text))
        yield from ([piece] for piece in first)
        yield [{**last, **_extra_fields(part)}]
    elif not isinstance(part, Text) or part.metadata:
        yield [_encode_part(part)]


def _encode_part(part: Part) -> Document:
    match part:
        case Text() | Reasoning():
            return {**_part_with_text(part, part.text), **_extra_fields(part)}
        case Refusal():
            return {"text": part.text}
        case ToolCall():
            return {**_encode_function_call(part), **_extra_fields(part)}
        case ToolResult():
            return {**_encode_function_response(part), **_extra_fields(part)}
        case Media():
            return {**_encode_media(part), **_extra_fields(part)}


def _part_with_text(part: Text | Reasoning, words: str) -> Document:
    return {"text": words, "thought": True} if isinstance(part, Reasoning) else {"text": words}


def _extra_fields(part: Part) -> Document:
    if isinstance(part, Reasoning):
        return {part_conversion.SEAL: part.signature} if part.signature else {}
    return dict(nonempty_metadata(part.metadata, (*OF_PART, *part_conversion.OF_MEDIA)))


def _encode_function_call(call: ToolCall) -> Document:
    arguments = orjson.Fragment(call.arguments)
    match dict(call.metadata).get("type"):
        case part_conversion.CODE_CALL:
            code = lenient_json.parse_object(call.arguments.encode())
            return {part_conversion.CODE_CALL: {**_id_field(call.id), **code}}
        case part_conversion.TOOL_CALL:
            return {
                part_conversion.TOOL_CALL: {
                    **_id_field(call.id),
                    "toolType": call.name,
                    "args": arguments,
                }
            }
        case _:
            return {"functionCall": {**_id_field(call.id), "name": call.name, "args": arguments}}


def _encode_function_response(result: ToolResult) -> Document:
    fields = dict(result.metadata)
    kind = str(fields["type"])
    if kind == part_conversion.CODE_RESULT:
        output: Document = {"outcome": fields["outcome"], "output": result.content}
        return {kind: {**_id_field(result.call_id), **output}}
    named = "toolType" if kind == part_conversion.TOOL_RESULT else "name"
    response = {"response": orjson.Fragment(result.content)} if result.content else {}
    return {kind: {**_id_field(result.call_id), named: result.name, **response}}


def _id_field(identity: str) -> Document:
    return {"id": identity} if identity else {}


def _encode_media(media: Media) -> Document:
    document: Document = {
        "mimeType": media.media_type,
        **dict(nonempty_metadata(media.metadata, ("displayName",))),
    }
    if media.url:
        return {"fileData": {**document, "fileUri": media.url}}
    return {"inlineData": {**document, "data": media.base64}}
