"""Encodes Converse responses: a document, or stream events.

    messageStart
    ( contentBlockStart?  contentBlockDelta*  contentBlockStop )*    start for tools and media
    messageStop  metadata

`encode_document` and `encode_events` leave the transport to the caller; Nova has variants of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import orjson

from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock import errors, frames, usage
from llm_proxy.dialects.bedrock.converse_decoder import END_METADATA, STOP_METADATA, USAGE
from llm_proxy.dialects.capabilities import nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.encoding import normalized_object_json
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

TextSplitter = Callable[[str], Iterable[str]]
"""Splits a text into the pieces of a stream."""

Event = tuple[str, Document]
"""The type and the payload of an event."""

_ROLE: Final[Document] = {"role": "assistant"}


def encode_whole_response(turn: Turn) -> Document:
    """The whole response of a converted turn."""
    return {
        **encode_message(turn),
        **_encode_metadata(turn),
        **dict(nonempty_metadata(turn.metadata, STOP_METADATA)),
    }


def encode_events(turn: Turn, split_text: TextSplitter) -> Iterator[Event]:
    """The events of a converted turn; a failed one has no end."""
    yield from encode_message_events(turn, split_text)
    if turn.failure is None:
        stop: Document = {
            "stopReason": turn.finish_raw,
            **dict(nonempty_metadata(turn.metadata, STOP_METADATA)),
        }
        yield "messageStop", stop
        yield "metadata", _encode_metadata(turn)


def encode_response(turn: Turn, context: EncodeContext, *, streams: bool) -> DialectResponse:
    """The response of a converted turn: a frame per event, or a document."""
    headers = errors.common_response_headers(context)
    if not streams:
        return response_encoding.json_response(encode_whole_response(turn), headers)
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
    """The message and its stop reason."""
    content = [_encode_block(part) for part in turn.parts]
    return {"output": {"message": {**_ROLE, "content": content}}, "stopReason": turn.finish_raw}


def encode_message_events(
    turn: Turn, split_text: TextSplitter, *, separate_text_blocks: bool = False
) -> Iterator[Event]:
    """The events before the end; `separate_text_blocks` gives each piece of text a block."""
    yield "messageStart", _ROLE
    index = 0
    for part in turn.parts:
        deltas = _encode_block_deltas(part, split_text)
        blocks = (
            ([delta] for delta in deltas)
            if separate_text_blocks and isinstance(part, Text)
            else (deltas,)
        )
        for block in blocks:
            yield from _encode_block_events(index, _encode_block_start(part), block)
            index += 1


def extra_usage_fields(turn: Turn) -> Document:
    """The usage fields that `Usage` does not have."""
    return dict(lenient_json.object_fields(dict(turn.metadata).get(USAGE)))


def _encode_metadata(turn: Turn) -> Document:
    counts = {**usage.encode_usage(turn.usage), **extra_usage_fields(turn)}
    return {"usage": counts, **dict(nonempty_metadata(turn.metadata, END_METADATA))}


def _encode_block(part: Part) -> Document:
    match part:
        case Text() if part.citations:
            citations = [_encode_citation(citation) for citation in part.citations]
            return {"citationsContent": {"content": [{"text": part.text}], "citations": citations}}
        case Text() | Refusal():  # conversion leaves no refusal
            return {"text": part.text}
        case Reasoning(redacted=redacted) if redacted:
            return {"reasoningContent": {"redactedContent": redacted}}
        case Reasoning():
            signature = {"signature": part.signature} if part.signature else {}
            return {"reasoningContent": {"reasoningText": {"text": part.text, **signature}}}
        case ToolCall():
            return {
                "toolUse": {
                    **_encode_tool_call(part),
                    "input": _json_fragment(part.arguments),
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
            kind, format_name = _media_kind_and_format(part)
            return {kind: {"format": format_name, "source": _media_source(part)}}


def _encode_block_events(
    index: int, start: Document, deltas: Iterable[Document]
) -> Iterator[Event]:
    index_field = {"contentBlockIndex": index}
    if start:
        yield "contentBlockStart", {**index_field, "start": start}
    for delta in deltas:
        yield "contentBlockDelta", {**index_field, "delta": delta}
    yield "contentBlockStop", index_field


def _encode_block_start(part: Part) -> Document:
    """The start of a block; empty for kinds without a start event."""
    match part:
        case ToolCall():
            return {"toolUse": _encode_tool_call(part)}
        case ToolResult():
            return {"toolResult": _encode_tool_result(part)}
        case Media():
            kind, format_name = _media_kind_and_format(part)
            return {kind: {"format": format_name}}
        case _:
            return {}


def _encode_block_deltas(part: Part, split_text: TextSplitter) -> Iterator[Document]:
    """The content of `_encode_block` as deltas."""
    match part:
        case Text():
            yield from ({"text": piece} for piece in split_text(part.text))
            yield from ({"citation": _encode_citation(citation)} for citation in part.citations)
        case Reasoning():
            yield from (
                {"reasoningContent": piece} for piece in _encode_reasoning_deltas(part, split_text)
            )
        case ToolCall():
            yield from ({"toolUse": {"input": piece}} for piece in split_text(part.arguments))
        case ToolResult():
            yield {"toolResult": _encode_result_contents(part)}
        case Media():
            yield {_media_kind_and_format(part)[0]: {"source": _media_source(part)}}
        case Refusal():
            yield {"text": part.text}  # conversion leaves no refusal


def _encode_reasoning_deltas(reasoning: Reasoning, split_text: TextSplitter) -> Iterator[Document]:
    if reasoning.redacted:
        yield {"redactedContent": reasoning.redacted}
    yield from ({"text": piece} for piece in split_text(reasoning.text))
    if reasoning.signature:
        yield {"signature": reasoning.signature}


def _encode_tool_call(call: ToolCall) -> Document:
    return {"toolUseId": call.id, "name": call.name, **dict(call.metadata)}


def _encode_tool_result(tool_result: ToolResult) -> Document:
    status = "error" if tool_result.failed else "success"
    return {"toolUseId": tool_result.call_id, "status": status, **dict(tool_result.metadata)}


def _encode_result_contents(tool_result: ToolResult) -> list[Document]:
    """The contents of a result: `json` if it is an object in normalized form, else `text`."""
    if normalized_object_json(tool_result.content) == tool_result.content:
        return [{"json": _json_fragment(tool_result.content)}]
    return [{"text": tool_result.content}] if tool_result.content else []


def _json_fragment(json_text: str) -> orjson.Fragment:
    return orjson.Fragment(json_text)


def _media_kind_and_format(media: Media) -> tuple[str, str]:
    kind, _, format_name = media.media_type.partition("/")
    return kind, format_name


def _media_source(media: Media) -> Document:
    return {"bytes": media.base64} if media.base64 else {"s3Location": {"uri": media.url}}


def _encode_citation(citation: Citation) -> Document:
    """A citation; its location in the source is metadata."""
    document: Document = {"title": citation.title} if citation.title else {}
    if citation.quoted:
        document["sourceContent"] = [{"text": citation.quoted}]
    return {**document, **dict(citation.metadata)}
