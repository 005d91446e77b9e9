"""Encodes Converse responses: a document, or stream events.

    messageStart
    ( contentBlockStart?  contentBlockDelta*  contentBlockStop )*    a start for tools and images
    messageStop  metadata

`document` and `events` know nothing of what carries them: Nova tells their like of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import orjson

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock import errors, frames, usage
from llm_proxy.dialects.bedrock.converse_decoder import OF_END, OF_STOP, USAGE
from llm_proxy.dialects.capabilities import nonempty_metadata, normalized_object_text
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.framing import eventstream
from llm_proxy.turns import (
    Citation,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

Cut = Callable[[str], Iterable[str]]
"""How a text becomes the pieces of a stream."""

Event = tuple[str, Document]
"""A type, and what is said."""

_ROLE: Final[Document] = {"role": "assistant"}


def encode_document(turn: Turn) -> Document:
    """The whole answer of a turn that fits."""
    return {
        **encode_message(turn),
        **_encode_end(turn),
        **dict(nonempty_metadata(turn.metadata, OF_STOP)),
    }


def encode_events(turn: Turn, cut: Cut) -> Iterator[Event]:
    """The events of a turn that fits; one that failed has no end."""
    yield from encode_message_events(turn, cut)
    if turn.failure is None:
        stop: Document = {
            "stopReason": turn.finish_raw,
            **dict(nonempty_metadata(turn.metadata, OF_STOP)),
        }
        yield "messageStop", stop
        yield "metadata", _encode_end(turn)


def encode_response(turn: Turn, context: EncodeContext, *, streams: bool) -> DialectResponse:
    """The answer that tells a turn that fits: a frame an event, or a document."""
    headers = errors.response_headers(context)
    if not streams:
        return response_encoding.json_response(encode_document(turn), headers)
    messages = [
        frames.encode_event_frame(name, document)
        for name, document in encode_events(turn, context.split_text)
    ]
    if turn.failure is not None:
        messages.append(frames.encode_exception_frame(turn.failure))
    return response_encoding.stream_response(
        frames.CODEC, eventstream.CONTENT_TYPE, messages, headers
    )


def encode_message(turn: Turn) -> Document:
    """What was said, and why it ended."""
    content = [_encode_block(part) for part in turn.parts]
    return {"output": {"message": {**_ROLE, "content": content}}, "stopReason": turn.finish_raw}


def encode_message_events(
    turn: Turn, cut: Cut, *, separate_text_blocks: bool = False
) -> Iterator[Event]:
    """What is said before the end; `apart` gives each piece of text a block of its own."""
    yield "messageStart", _ROLE
    index = 0
    for part in turn.parts:
        deltas = _encode_block_deltas(part, cut)
        blocks = (
            ([delta] for delta in deltas)
            if separate_text_blocks and isinstance(part, Text)
            else (deltas,)
        )
        for block in blocks:
            yield from _encode_block_events(index, _encode_block_start(part), block)
            index += 1


def extra_usage_fields(turn: Turn) -> Document:
    """What is told of the cost that `Usage` has no word for."""
    return dict(lenient_json.object_fields(dict(turn.metadata).get(USAGE)))


def _encode_end(turn: Turn) -> Document:
    counts = {**usage.encode_usage(turn.usage), **extra_usage_fields(turn)}
    return {"usage": counts, **dict(nonempty_metadata(turn.metadata, OF_END))}


def _encode_block(part: Part) -> Document:
    match part:
        case Text() if part.citations:
            cited = [_encode_citation(citation) for citation in part.citations]
            return {"citationsContent": {"content": [{"text": part.text}], "citations": cited}}
        case Text() | Refusal():  # a refusal never fits
            return {"text": part.text}
        case Reasoning(redacted=sealed) if sealed:
            return {"reasoningContent": {"redactedContent": sealed}}
        case Reasoning():
            signature = {"signature": part.signature} if part.signature else {}
            return {"reasoningContent": {"reasoningText": {"text": part.text, **signature}}}
        case ToolCall():
            return {
                "toolUse": {
                    **_encode_tool_call(part),
                    "input": _parse_normalized_object(part.arguments),
                }
            }
        case ToolResult():
            return {
                "toolResult": {
                    **_encode_tool_result(part),
                    "content": _encode_result_contents(part),
                }
            }
        case Media():
            kind, form = _media_format(part)
            return {kind: {"format": form, "source": _media_source(part)}}


def _encode_block_events(
    index: int, start: Document, deltas: Iterable[Document]
) -> Iterator[Event]:
    at = {"contentBlockIndex": index}
    if start:
        yield "contentBlockStart", {**at, "start": start}
    for delta in deltas:
        yield "contentBlockDelta", {**at, "delta": delta}
    yield "contentBlockStop", at


def _encode_block_start(part: Part) -> Document:
    """What a block says before its deltas; the start of others is not told."""
    match part:
        case ToolCall():
            return {"toolUse": _encode_tool_call(part)}
        case ToolResult():
            return {"toolResult": _encode_tool_result(part)}
        case Media():
            kind, form = _media_format(part)
            return {kind: {"format": form}}
        case _:
            return {}


def _encode_block_deltas(part: Part, cut: Cut) -> Iterator[Document]:
    """The same as `_block` in pieces."""
    match part:
        case Text():
            yield from ({"text": piece} for piece in cut(part.text))
            yield from ({"citation": _encode_citation(citation)} for citation in part.citations)
        case Reasoning():
            yield from (
                {"reasoningContent": piece} for piece in _encode_reasoning_deltas(part, cut)
            )
        case ToolCall():
            yield from ({"toolUse": {"input": piece}} for piece in cut(part.arguments))
        case ToolResult():
            yield {"toolResult": _encode_result_contents(part)}
        case Media():
            yield {_media_format(part)[0]: {"source": _media_source(part)}}
        case Refusal():
            yield {"text": part.text}  # none fits


def _encode_reasoning_deltas(thought: Reasoning, cut: Cut) -> Iterator[Document]:
    if thought.redacted:
        yield {"redactedContent": thought.redacted}
    yield from ({"text": piece} for piece in cut(thought.text))
    if thought.signature:
        yield {"signature": thought.signature}


def _encode_tool_call(call: ToolCall) -> Document:
    return {"toolUseId": call.id, "name": call.name, **dict(call.metadata)}


def _encode_tool_result(tool_result: ToolResult) -> Document:
    status = "error" if tool_result.failed else "success"
    return {"toolUseId": tool_result.call_id, "status": status, **dict(tool_result.metadata)}


def _encode_result_contents(tool_result: ToolResult) -> list[Document]:
    """What a tool gave back: an object, where it spells one as we do, or a text."""
    if normalized_object_text(tool_result.content) == tool_result.content:
        return [{"json": _parse_normalized_object(tool_result.content)}]
    return [{"text": tool_result.content}] if tool_result.content else []


def _parse_normalized_object(spelled: str) -> orjson.Fragment:
    return orjson.Fragment(spelled)


def _media_format(media: Media) -> tuple[str, str]:
    kind, _, form = media.media_type.partition("/")
    return kind, form


def _media_source(media: Media) -> Document:
    return {"bytes": media.base64} if media.base64 else {"s3Location": {"uri": media.url}}


def _encode_citation(cited: Citation) -> Document:
    """A source; where its words stand in it is metadata of its own."""
    document: Document = {"title": cited.title} if cited.title else {}
    if cited.quoted:
        document["sourceContent"] = [{"text": cited.quoted}]
    return {**document, **dict(cited.metadata)}
