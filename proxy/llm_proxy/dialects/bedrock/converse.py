"""Converse's messages, whole or as events, and those of Amazon's own models (Nova).

    messageStart
    ( contentBlockStart?  contentBlockDelta*  contentBlockStop )*    start for tools and media
    messageStop           the stop reason
    metadata              usage, metrics, the guardrail's trace

Nova has the same format in InvokeModel responses, with other names of usage fields.  There each
event is wrapped in its name, and each piece of a text has a block of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.bedrock import converse_blocks, errors, frames, usage
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.fragments import FragmentJoiner, fragment_output_chars
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_integer,
    get_object,
    get_objects,
    get_text,
    select_metadata,
    selected_fields,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import FinishReasons, UsageFields, WireFormat
from llm_proxy.turns import (
    FinishReason,
    Json,
    Media,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

DELTA_EVENT: Final = "contentBlockDelta"

EVENT_NAMES: Final = (
    "messageStart",
    "contentBlockStart",
    DELTA_EVENT,
    "contentBlockStop",
    "messageStop",
    "metadata",
)

_MEANINGS: Final = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP_SEQUENCE,
    "max_tokens": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "guardrail_intervened": FinishReason.CONTENT_FILTER,
    "content_filtered": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.REFUSAL,
    "model_context_window_exceeded": FinishReason.CONTEXT_FULL,
    "malformed_tool_use": FinishReason.ERROR,
    "malformed_model_output": FinishReason.ERROR,
}
"""The meaning of each stop reason; of two with one meaning, the last is sent."""
_FINISH: Final = FinishReasons(_MEANINGS, {meaning: raw for raw, meaning in _MEANINGS.items()})

_STOP_METADATA: Final = ("additionalModelResponseFields",)
"""Metadata next to the stop reason."""
_END_METADATA: Final = ("metrics", "trace", "performanceConfig", "serviceTier")
"""Metadata next to the usage."""
_USAGE: Final = "usage"
"""Metadata: the usage fields that `Usage` does not have."""


def wire_format(*, stream: bool) -> WireFormat:
    """What a response of Converse can hold.  Only a stream holds arguments as text."""
    return WireFormat(
        dialect="bedrock",
        is_streamed=stream,
        parts=frozenset((Text, Reasoning, ToolCall, ToolResult, Media)),
        finish=_FINISH,
        usage=usage.CONVERSE,
        metadata=(*_STOP_METADATA, *_END_METADATA, _USAGE),
        convert_part=partial(converse_blocks.representable_part, stream=stream),
        is_sent_empty=lambda part: isinstance(part, Text) and bool(part.citations),
        has_object_arguments=not stream,
        has_signatures=True,
        merged=frozenset(),
        call_id_prefix="tooluse_",
    )


def nova_wire_format(*, stream: bool) -> WireFormat:
    """As Converse's; a stream has no citations, and its texts have no boundaries."""
    nova = replace(wire_format(stream=stream), usage=usage.NOVA, metadata=(_USAGE,))
    if not stream:
        return nova
    return replace(
        nova,
        usage=usage.NOVA_STREAM,
        is_sent_empty=lambda _part: False,
        merged=frozenset((Text,)),
    )


class ConverseDecoder:
    """Decodes one message from its document or its events."""

    def __init__(self, *, joins_text: bool = False) -> None:
        """`joins_text` joins the blocks of text, of which Nova sends one per piece."""
        self._joins_text = joins_text
        self._fragments = FragmentJoiner()
        self._tool_names: dict[str, str] = {}
        """The tool of each call id."""
        self._returned_calls: set[int | None] = set()
        """The indexes of the calls that `feed` has returned."""
        self._response_fields: dict[str, Json] = {}
        self.is_empty = True
        """Whether nothing was fed yet."""

    @property
    def stop_reason(self) -> str:
        """The stop reason; empty if there is none yet."""
        return get_text(self._response_fields, "stopReason")

    def feed(self, event: str, fields: Fields) -> list[Part]:
        """Decode one event; those of unknown names are ignored.

        Returns its piece of text, or the call whose block it stops.
        """
        if event not in EVENT_NAMES:
            return []
        self.is_empty = False
        index = get_integer(fields, "contentBlockIndex")
        match event:
            case "contentBlockStart":
                return self._add_block(index, get_object(fields, "start"))
            case "contentBlockDelta":
                return self._add_block(index, get_object(fields, "delta"))
            case "contentBlockStop" if index not in self._returned_calls:
                call = self._fragments.latest_part(ToolCall, index)
                if call is not None:
                    self._returned_calls.add(index)
                return [call] if call is not None and json_api.is_client_call(call) else []
            case "messageStop" | "metadata":
                self._response_fields.update(fields)
            case _:
                pass  # starts and stops without content
        return []

    def feed_whole_response(self, document: Fields) -> list[Part]:
        """Decode the one document of a response that does not stream; return all its pieces."""
        self.is_empty = False
        self._response_fields.update(document)
        message = get_object(get_object(document, "output"), "message")
        for index, block in enumerate(get_objects(message, "content")):
            self._add_block(index, block)
        return [part for part in self._fragments.joined_parts() if json_api.is_piece(part)]

    def turn(self) -> Turn:
        """The turn so far."""
        raw = self.stop_reason
        fields = {**self._response_fields}
        counts = get_object(fields, "usage")
        fields[_USAGE] = usage.extra_usage_fields(counts)
        # responses name no other model than the one that a prompt router chose
        router = get_object(get_object(fields, "trace"), "promptRouter")
        return Turn(
            self._fragments.joined_parts(),
            finish=_FINISH.decode(raw),
            finish_raw=raw,
            usage=usage.decode(usage.CONVERSE, counts),
            model=get_text(router, "invokedModelId"),
            metadata=select_metadata(fields, (*_STOP_METADATA, *_END_METADATA, _USAGE)),
        )

    def _add_block(self, index: int | None, block: Fields) -> list[Part]:
        """Add a block, its start or its delta, all of which have the same format.

        Returns its pieces of text.
        """
        pieces: list[Part] = []
        for part in converse_blocks.decode_parts(block):
            if not isinstance(part, ToolCall) and json_api.is_piece(part):
                pieces.append(part)
            match part:
                case Text() if self._joins_text:
                    self._fragments.add_fragment(part, "text")
                case ToolResult(call_id=call_id):
                    name = self._tool_names.get(call_id, "")
                    self._fragments.add_fragment(replace(part, name=name), index)
                case ToolCall(id=call_id, name=name) if name:
                    self._tool_names[call_id] = name
                    self._fragments.add_fragment(part, index)
                case _:
                    self._fragments.add_fragment(part, index)
        return pieces


def event_output_chars(event: str, fields: Fields) -> int:
    """How many output characters an event adds; signatures and citations count nothing."""
    if event != DELTA_EVENT:
        return 0
    delta = get_object(fields, "delta")
    return sum(map(fragment_output_chars, converse_blocks.decode_parts(delta)))


def encode_response(turn: Turn, context: EncodeContext, *, streams: bool) -> DialectResponse:
    """The response of a prepared turn: a frame per event, or a document."""
    metadata = dict(turn.metadata)
    stop = selected_fields(metadata, _STOP_METADATA)
    given_metrics = get_object(metadata, "metrics")
    metadata["metrics"] = {"latencyMs": usage.FAKE_LATENCY_MS, **given_metrics}
    end: Document = {
        "usage": _encode_usage(turn, usage.CONVERSE),
        **selected_fields(metadata, _END_METADATA),
    }
    if not streams:
        document = {**_encode_message(turn), **end, **stop}
        return response_encoding.json_response(document, errors.common_response_headers(context))
    events = [*_encode_blocks(turn, context.split_text)]
    if turn.failure is None:
        events.append(("messageStop", {"stopReason": turn.finish_raw, **stop}))
        events.append(("metadata", end))
    return frames.stream_response(
        [frames.encode_event_frame(name, document) for name, document in events],
        turn.failure and errors.with_stream_error_type(turn.failure, errors.CONVERSE_EXCEPTIONS),
        errors.common_response_headers(context),
    )


def encode_nova_message(turn: Turn, _context: EncodeContext) -> Document:
    """The message of Nova and its usage."""
    return {**_encode_message(turn), "usage": _encode_usage(turn, usage.NOVA)}


def encode_nova_events(turn: Turn, context: EncodeContext) -> Iterator[Document]:
    """The events of Nova, each wrapped in its name; a failed turn has no end."""
    for name, document in _encode_blocks(turn, context.split_text, separate_text_blocks=True):
        yield {name: document}
    if turn.failure is None:
        yield {"messageStop": {"stopReason": turn.finish_raw}}
        counts = _encode_usage(turn, usage.NOVA_STREAM)
        yield {"metadata": {"usage": counts, "metrics": {}, "trace": {}}}


def _encode_usage(turn: Turn, fields: UsageFields) -> Document:
    extra = usage.extra_usage_fields(get_object(dict(turn.metadata), _USAGE))
    return {**fields.encode(turn.usage), **extra}


def _answered_calls(parts: Iterable[Part]) -> set[str]:
    """The ids of the calls that the provider ran: those that a result answers."""
    return {part.call_id for part in parts if isinstance(part, ToolResult)}


def _encode_message(turn: Turn) -> Document:
    """The message and its stop reason."""
    answered_calls = _answered_calls(turn.parts)
    content = [converse_blocks.encode_block(part, answered_calls) for part in turn.parts]
    message = {"role": "assistant", "content": content}
    return {"output": {"message": message}, "stopReason": turn.finish_raw}


def _encode_blocks(
    turn: Turn, split_text: Callable[[str], Iterable[str]], *, separate_text_blocks: bool = False
) -> Iterator[tuple[str, Document]]:
    """The events before the end, each with its name.

    `separate_text_blocks` gives each piece of text a block, and leaves out citations.
    """
    yield "messageStart", {"role": "assistant"}
    answered_calls = _answered_calls(turn.parts)
    index = 0
    for part in turn.parts:
        start = converse_blocks.encode_start(part, answered_calls)
        blocks: Iterable[Iterable[Document]] = [converse_blocks.encode_deltas(part, split_text)]
        if separate_text_blocks and isinstance(part, Text):
            blocks = ([{"text": piece}] for piece in split_text(part.text))
        for deltas in blocks:
            position = {"contentBlockIndex": index}
            if start:
                yield "contentBlockStart", {**position, "start": start}
            for delta in deltas:
                yield DELTA_EVENT, {**position, "delta": delta}
            yield "contentBlockStop", position
            index += 1
