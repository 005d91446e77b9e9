"""Answers of Converse as they are told: one document, or the events of a stream.

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
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.bedrock import errors, frames, usage
from llm_proxy.dialects.bedrock.converse_decoder import OF_END, OF_STOP, USAGE
from llm_proxy.dialects.capabilities import as_object, kept
from llm_proxy.dialects.encode_context import Delivery
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


def document(turn: Turn) -> Document:
    """The whole answer of a turn that fits."""
    return {**message(turn), **_end(turn), **dict(kept(turn.metadata, OF_STOP))}


def events(turn: Turn, cut: Cut) -> Iterator[Event]:
    """The events of a turn that fits; one that failed has no end."""
    yield from message_events(turn, cut)
    if turn.failure is None:
        stop: Document = {"stopReason": turn.finish_raw, **dict(kept(turn.metadata, OF_STOP))}
        yield "messageStop", stop
        yield "metadata", _end(turn)


def response(turn: Turn, delivery: Delivery, *, streams: bool) -> Response:
    """The answer that tells a turn that fits: a frame an event, or a document."""
    headers = errors.headers(delivery)
    if not streams:
        return response_encoding.document(document(turn), headers)
    messages = [frames.event(name, said) for name, said in events(turn, delivery.cut)]
    if turn.failure is not None:
        messages.append(frames.exception(turn.failure))
    return response_encoding.streamed(frames.CODEC, eventstream.CONTENT_TYPE, messages, headers)


def message(turn: Turn) -> Document:
    """What was said, and why it ended."""
    content = [_block(part) for part in turn.parts]
    return {"output": {"message": {**_ROLE, "content": content}}, "stopReason": turn.finish_raw}


def message_events(turn: Turn, cut: Cut, *, apart: bool = False) -> Iterator[Event]:
    """What is said before the end; `apart` gives each piece of text a block of its own."""
    yield "messageStart", _ROLE
    index = 0
    for part in turn.parts:
        deltas = _deltas(part, cut)
        blocks = ([it] for it in deltas) if apart and isinstance(part, Text) else (deltas,)
        for block in blocks:
            yield from _block_events(index, _start(part), block)
            index += 1


def uncounted(turn: Turn) -> Document:
    """What is told of the cost that `Usage` has no word for."""
    return dict(lenient_json.fields(dict(turn.metadata).get(USAGE)))


def _end(turn: Turn) -> Document:
    counts = {**usage.told(turn.usage), **uncounted(turn)}
    return {"usage": counts, **dict(kept(turn.metadata, OF_END))}


def _block(part: Part) -> Document:
    """The block of a document that holds this part."""
    match part:
        case Text() if part.citations:
            cited = [_citation(it) for it in part.citations]
            return {"citationsContent": {"content": [{"text": part.text}], "citations": cited}}
        case Text() | Refusal():  # a refusal never fits
            return {"text": part.text}
        case Reasoning(redacted=sealed) if sealed:
            return {"reasoningContent": {"redactedContent": sealed}}
        case Reasoning():
            signature = {"signature": part.signature} if part.signature else {}
            return {"reasoningContent": {"reasoningText": {"text": part.text, **signature}}}
        case ToolCall():
            return {"toolUse": {**_called(part), "input": _object(part.arguments)}}
        case ToolResult():
            return {"toolResult": {**_given(part), "content": _contents(part)}}
        case Media():
            kind, form = _format(part)
            return {kind: {"format": form, "source": _source(part)}}


def _block_events(index: int, start: Document, deltas: Iterable[Document]) -> Iterator[Event]:
    at = {"contentBlockIndex": index}
    if start:
        yield "contentBlockStart", {**at, "start": start}
    for delta in deltas:
        yield "contentBlockDelta", {**at, "delta": delta}
    yield "contentBlockStop", at


def _start(part: Part) -> Document:
    """What a block says before its deltas; the start of others is not told."""
    match part:
        case ToolCall():
            return {"toolUse": _called(part)}
        case ToolResult():
            return {"toolResult": _given(part)}
        case Media():
            kind, form = _format(part)
            return {kind: {"format": form}}
        case _:
            return {}


def _deltas(part: Part, cut: Cut) -> Iterator[Document]:
    """The same as `_block` in pieces."""
    match part:
        case Text():
            yield from ({"text": piece} for piece in cut(part.text))
            yield from ({"citation": _citation(it)} for it in part.citations)
        case Reasoning():
            yield from ({"reasoningContent": piece} for piece in _thoughts(part, cut))
        case ToolCall():
            yield from ({"toolUse": {"input": piece}} for piece in cut(part.arguments))
        case ToolResult():
            yield {"toolResult": _contents(part)}
        case Media():
            yield {_format(part)[0]: {"source": _source(part)}}
        case Refusal():
            yield {"text": part.text}  # none fits


def _thoughts(thought: Reasoning, cut: Cut) -> Iterator[Document]:
    """What is sealed comes whole, and a signature behind what can be read."""
    if thought.redacted:
        yield {"redactedContent": thought.redacted}
    yield from ({"text": piece} for piece in cut(thought.text))
    if thought.signature:
        yield {"signature": thought.signature}


def _called(call: ToolCall) -> Document:
    return {"toolUseId": call.id, "name": call.name, **dict(call.metadata)}


def _given(given: ToolResult) -> Document:
    status = "error" if given.failed else "success"
    return {"toolUseId": given.call_id, "status": status, **dict(given.metadata)}


def _contents(given: ToolResult) -> list[Document]:
    """What a tool gave back: an object, where it spells one as we do, or a text."""
    if as_object(given.content) == given.content:
        return [{"json": _object(given.content)}]
    return [{"text": given.content}] if given.content else []


def _object(spelled: str) -> orjson.Fragment:
    """An object that is spelled out already."""
    return orjson.Fragment(spelled)


def _format(media: Media) -> tuple[str, str]:
    kind, _, form = media.media_type.partition("/")
    return kind, form


def _source(media: Media) -> Document:
    return {"bytes": media.base64} if media.base64 else {"s3Location": {"uri": media.url}}


def _citation(cited: Citation) -> Document:
    """A source; where its words stand in it is metadata of its own."""
    about: Document = {"title": cited.title} if cited.title else {}
    if cited.quoted:
        about["sourceContent"] = [{"text": cited.quoted}]
    return {**about, **dict(cited.metadata)}
