"""Encodes a candidate's content, whole or in stream pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.google import representable_parts
from llm_proxy.dialects.google.content_decoder import PART_METADATA
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

TextSplitter = Callable[[str], Iterable[str]]


def empty_text_part() -> Document:
    """A part with empty text."""
    return {"text": ""}


def encode_parts(parts: Iterable[Part]) -> list[Document]:
    """Each part as one wire part."""
    return [_encode_part(part) for part in parts]


def encode_part_chunks(parts: Iterable[Part], split_text: TextSplitter) -> Iterator[list[Document]]:
    """The wire parts of each chunk; neighbouring calls of client tools share a chunk."""
    for are_client_calls, group in groupby(parts, representable_parts.is_client_tool_call):
        if are_client_calls:
            yield encode_parts(group)
        else:
            yield from (piece for part in group for piece in _encode_part_pieces(part, split_text))


def _encode_part_pieces(part: Part, split_text: TextSplitter) -> Iterator[list[Document]]:
    """A part in chunks; the last has its metadata, such as the signature."""
    if isinstance(part, Text | Reasoning) and part.text:
        *first, last = (_part_with_text(part, piece) for piece in split_text(part.text))
        yield from ([piece] for piece in first)
        yield [{**last, **_metadata_fields(part)}]
    elif not isinstance(part, Text) or part.metadata:
        yield [_encode_part(part)]


def _encode_part(part: Part) -> Document:
    match part:
        case Text() | Reasoning():
            return {**_part_with_text(part, part.text), **_metadata_fields(part)}
        case Refusal():
            return {"text": part.text}
        case ToolCall():
            return {**_encode_tool_call(part), **_metadata_fields(part)}
        case ToolResult():
            return {**_encode_tool_result(part), **_metadata_fields(part)}
        case Media():
            return {**_encode_media(part), **_metadata_fields(part)}


def _part_with_text(part: Text | Reasoning, text: str) -> Document:
    return {"text": text, "thought": True} if isinstance(part, Reasoning) else {"text": text}


def _metadata_fields(part: Part) -> Document:
    if isinstance(part, Reasoning):
        return {representable_parts.SIGNATURE_FIELD: part.signature} if part.signature else {}
    return dict(
        nonempty_metadata(part.metadata, (*PART_METADATA, *representable_parts.MEDIA_METADATA))
    )


def _encode_tool_call(call: ToolCall) -> Document:
    arguments = orjson.Fragment(call.arguments)
    match dict(call.metadata).get("type"):
        case representable_parts.CODE_CALL:
            code = lenient_json.parse_object(call.arguments.encode())
            return {representable_parts.CODE_CALL: {**_id_field(call.id), **code}}
        case representable_parts.TOOL_CALL:
            return {
                representable_parts.TOOL_CALL: {
                    **_id_field(call.id),
                    "toolType": call.name,
                    "args": arguments,
                }
            }
        case _:
            return {"functionCall": {**_id_field(call.id), "name": call.name, "args": arguments}}


def _encode_tool_result(result: ToolResult) -> Document:
    fields = dict(result.metadata)
    kind = str(fields["type"])
    if kind == representable_parts.CODE_RESULT:
        output: Document = {"outcome": fields["outcome"], "output": result.content}
        return {kind: {**_id_field(result.call_id), **output}}
    name_field = "toolType" if kind == representable_parts.TOOL_RESULT else "name"
    response = {"response": orjson.Fragment(result.content)} if result.content else {}
    return {kind: {**_id_field(result.call_id), name_field: result.name, **response}}


def _id_field(call_id: str) -> Document:
    return {"id": call_id} if call_id else {}


def _encode_media(media: Media) -> Document:
    document: Document = {
        "mimeType": media.media_type,
        **dict(nonempty_metadata(media.metadata, ("displayName",))),
    }
    if media.url:
        return {"fileData": {**document, "fileUri": media.url}}
    return {"inlineData": {**document, "data": media.base64}}
