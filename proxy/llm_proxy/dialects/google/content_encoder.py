"""The content of a candidate as it is told: whole, or in the pieces of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import kept
from llm_proxy.dialects.google import part_capabilities
from llm_proxy.dialects.google.content_decoder import OF_PART
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

Cut = Callable[[str], Iterable[str]]


def silence() -> Document:
    """A part that says nothing."""
    return {"text": ""}


def whole(said: Iterable[Part]) -> list[Document]:
    """Each part."""
    return [_part(part) for part in said]


def pieces(said: Iterable[Part], cut: Cut) -> Iterator[list[Document]]:
    """The parts of each chunk; calls that are asked for at once share one."""
    for calls, group in groupby(said, part_capabilities.awaits):
        if calls:
            yield whole(group)
        else:
            yield from (piece for part in group for piece in _pieces(part, cut))


def _pieces(part: Part, cut: Cut) -> Iterator[list[Document]]:
    """A part in pieces, of which the last bears its seal."""
    if isinstance(part, Text | Reasoning) and part.text:
        *first, last = (_said(part, piece) for piece in cut(part.text))
        yield from ([piece] for piece in first)
        yield [{**last, **_beside(part)}]
    elif not isinstance(part, Text) or part.metadata:
        yield [_part(part)]


def _part(part: Part) -> Document:
    match part:
        case Text() | Reasoning():
            return {**_said(part, part.text), **_beside(part)}
        case Refusal():
            return {"text": part.text}
        case ToolCall():
            return {**_call(part), **_beside(part)}
        case ToolResult():
            return {**_result(part), **_beside(part)}
        case Media():
            return {**_media(part), **_beside(part)}


def _said(part: Text | Reasoning, words: str) -> Document:
    return {"text": words, "thought": True} if isinstance(part, Reasoning) else {"text": words}


def _beside(part: Part) -> Document:
    """What stands beside what a part says."""
    if isinstance(part, Reasoning):
        return {part_capabilities.SEAL: part.signature} if part.signature else {}
    return dict(kept(part.metadata, (*OF_PART, *part_capabilities.OF_MEDIA)))


def _call(call: ToolCall) -> Document:
    arguments = orjson.Fragment(call.arguments)
    match dict(call.metadata).get("type"):
        case part_capabilities.CODE_CALL:
            code = lenient_json.document(call.arguments.encode())
            return {part_capabilities.CODE_CALL: {**_id(call.id), **code}}
        case part_capabilities.TOOL_CALL:
            return {
                part_capabilities.TOOL_CALL: {
                    **_id(call.id),
                    "toolType": call.name,
                    "args": arguments,
                }
            }
        case _:
            return {"functionCall": {**_id(call.id), "name": call.name, "args": arguments}}


def _result(result: ToolResult) -> Document:
    about = dict(result.metadata)
    kind = str(about["type"])
    if kind == part_capabilities.CODE_RESULT:
        output: Document = {"outcome": about["outcome"], "output": result.content}
        return {kind: {**_id(result.call_id), **output}}
    named = "toolType" if kind == part_capabilities.TOOL_RESULT else "name"
    response = {"response": orjson.Fragment(result.content)} if result.content else {}
    return {kind: {**_id(result.call_id), named: result.name, **response}}


def _id(identity: str) -> Document:
    return {"id": identity} if identity else {}


def _media(media: Media) -> Document:
    about: Document = {
        "mimeType": media.media_type,
        **dict(kept(media.metadata, ("displayName",))),
    }
    if media.url:
        return {"fileData": {**about, "fileUri": media.url}}
    return {"inlineData": {**about, "data": media.base64}}
