"""Decodes and encodes Anthropic messages, whole or as events.

    message_start
    ( content_block_start  content_block_delta*  content_block_stop )*
    message_delta            stop reason and usage, as totals
    message_stop

`ping` may occur anywhere, and `error` in place of the rest.  A message that continues after a tool
of the provider called one of the client's comes whole in its `message_start`.  A refusal is no
block: it is the stop reason, and its text is in `stop_details`.  Legacy completions are decoded,
and not encoded.

The transport is left to the caller: SSE events, or the frames of Bedrock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from llm_proxy.dialects import json_api
from llm_proxy.dialects.anthropic import blocks
from llm_proxy.dialects.anthropic.blocks import TOOL_USE, BlockDecoder
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_integer,
    get_object,
    get_objects,
    get_string,
    get_text,
    metadata_except,
    object_fields,
    select_metadata,
    selected_fields,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import FinishReasons, UsageFields, WireFormat
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Json,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

REQUEST_ID: Final = "request_id"
"""The field of the request's id in an error body; the header is `request-id`."""

_END_TURN: Final = "end_turn"
_REFUSAL: Final = "refusal"
"""The stop reason of a refusal, and the type of its `stop_details`."""

_MEANINGS: Final = {
    _END_TURN: FinishReason.STOP,
    "stop_sequence": FinishReason.STOP_SEQUENCE,
    "max_tokens": FinishReason.LENGTH,
    TOOL_USE: FinishReason.TOOL_CALLS,
    "compaction": FinishReason.PAUSED,
    "pause_turn": FinishReason.PAUSED,
    _REFUSAL: FinishReason.REFUSAL,
    "model_context_window_exceeded": FinishReason.CONTEXT_FULL,
}
"""The meaning of each stop reason; of two with one meaning, the last is sent."""
_FINISH: Final = FinishReasons(
    _MEANINGS,
    {meaning: raw for raw, meaning in _MEANINGS.items()} | {FinishReason.CONTENT_FILTER: _REFUSAL},
)

_USAGE: Final = UsageFields(
    {
        "input": ("input_tokens",),
        "cache_write": ("cache_creation_input_tokens",),
        "cache_read": ("cache_read_input_tokens",),
        "output": ("output_tokens",),
        "reasoning": ("output_tokens_details", "thinking_tokens"),
    },
    required=("input", "output"),
    is_required=True,
)
"""The input excludes tokens read from a cache or written to one."""

_FINAL_USAGE_FIELDS: Final = ("server_tool_use", "iterations")
"""Usage fields that only the end of a stream has."""

_STOP_DETAILS: Final = "stop_details"
_OTHER_BLOCKS: Final = "other_blocks"
_EXTRA_USAGE: Final = "usage"
"""Metadata of a turn: the details of a refusal, the blocks that no part can represent, and
the usage fields that `Usage` does not have."""

_START_METADATA: Final = ("diagnostics", "input_transformations")
"""Metadata of `message_start`."""
_STOP_METADATA: Final = ("stop_sequence", _STOP_DETAILS, "container")
"""Metadata next to the stop reason in `message_delta`."""
_END_METADATA: Final = ("context_management",)
"""Metadata next to the usage in `message_delta`."""
_METADATA: Final = (
    *_START_METADATA, *_STOP_METADATA, *_END_METADATA, REQUEST_ID, _EXTRA_USAGE, _OTHER_BLOCKS,
)  # fmt: skip
_REFUSAL_METADATA: Final = (
    "category", "recommended_model", "fallback_credit_token", "fallback_has_prefill_claim",
)  # fmt: skip

_DECODED_FIELDS: Final = (
    "type", "id", "role", "model", "content", "stop_reason", "usage",
    "delta", "completion", "log_id",
)  # fmt: skip
"""Fields that do not become metadata, since the turn holds them; `log_id` repeats the id."""

_COMPLETION: Final = "completion"
"""The type of a legacy completion and its events, and the field of their text."""

MESSAGE_KINDS: Final = frozenset(
    """
    message message_start content_block_start content_block_delta content_block_stop message_delta
    completion error
    """.split()  # noqa: SIM905 # a table of words, one name a line would hide it
)
"""The kinds of documents that add to a turn."""

_EMPTY_PARTS: Final = (Text(""), Reasoning())

_FAKE_SIGNATURE_CHARS: Final = 52
"""Characters of a fake signature after its prefix of four."""


def wire_format(
    *, stream: bool, id_prefix: str = "msg_", call_id_prefix: str = "toolu_"
) -> WireFormat:
    """What a message can hold.  Only a stream holds arguments as the model wrote them."""
    return WireFormat(
        dialect="anthropic",
        is_streamed=stream,
        parts=frozenset((Text, Reasoning, Refusal, ToolCall, ToolResult, Media)),
        finish=_FINISH,
        usage=_USAGE,
        metadata=_METADATA,
        convert_part=blocks.representable_part,
        is_sent_empty=blocks.is_sent_empty,
        has_object_arguments=not stream,
        has_signatures=True,
        merged=frozenset(),
        id_prefix=id_prefix,
        call_id_prefix=call_id_prefix,
    )


def response_payload_kind(document: Fields) -> str:
    """The kind of a document: the type of its event, `message`, `completion`, or `error`.

    Empty if it is no message (token counts, lists of models).
    """
    if document.get("error"):
        return "error"
    if named := get_text(document, "type"):
        return named
    return "message" if isinstance(document.get("content"), list) else ""


def stop_reason(document: Fields) -> str:
    """The stop reason in this event or document; empty if it has none."""
    is_delta = response_payload_kind(document) == "message_delta"
    fields = get_object(document, "delta") if is_delta else document
    return get_text(fields, "stop_reason")


def event_output_chars(document: Fields) -> int:
    """How many output characters an event adds; signatures and citations count nothing."""
    match response_payload_kind(document):
        case "content_block_delta":
            return blocks.delta_output_chars(get_object(document, "delta"))
        case "completion":
            return len(get_string(document, _COMPLETION))
        case _:
            return 0


def decode_failure(document: Fields) -> Failure:
    """Decodes an error; its code defaults to `details.error_code`."""
    error = document.get("error") or dict(document)
    failure = json_api.decode_failure(error)
    details = get_object(object_fields(error), "details")
    return replace(failure, code=failure.code or get_text(details, "error_code"))


class MessagesResponseDecoder:
    """Decodes the documents of a response to turns: one, except for spliced streams."""

    def __init__(self) -> None:
        self._messages: list[_MessageDecoder] = []

    def feed(self, document: Fields) -> list[Part]:
        """Decode one event, or the one document of a response that does not stream.

        Returns what it adds to the first message: a call when its block has stopped.
        """
        kind = response_payload_kind(document)
        if kind not in MESSAGE_KINDS:
            return []  # a ping, or no part of a message
        if kind in ("message_start", "message") or not self._messages:
            self._messages.append(_MessageDecoder())
        pieces = self._messages[-1].feed(kind, document)
        return pieces if len(self._messages) == 1 else []

    def turns(self) -> tuple[Turn, ...]:
        """The turns so far, one per message."""
        return tuple(message.turn() for message in self._messages)


class _MessageDecoder:
    """Decodes the events of one message."""

    def __init__(self) -> None:
        self._fields: dict[str, Json] = {}
        self._usage: dict[str, Json] = {}
        self._blocks: list[tuple[int, BlockDecoder]] = []
        self._latest_blocks: dict[int, BlockDecoder] = {}
        """For each index, the block that started there last."""
        self._failure: Failure | None = None

    def feed(self, kind: str, document: Fields) -> list[Part]:
        match kind:
            case "message_start" | "message":
                message = document
                if kind == "message_start":
                    message = get_object(document, "message")
                self._store_fields(message)
                for index, block in enumerate(get_objects(message, "content")):
                    self._begin_block(index, BlockDecoder(block, closed=True))
                return [part for part in self.turn().parts if json_api.is_piece(part)]
            case "message_delta":
                delta = get_object(document, "delta")
                self._store_fields(delta)
                self._store_fields(document)
                refusal = _decode_refusal(delta.get(_STOP_DETAILS))
                return [refusal] if refusal else []
            case "completion":
                self._store_fields(document)
                delta = {"type": "text_delta", "text": document.get(_COMPLETION)}
                return self._block_at(0).feed(delta)
            case "error":  # only the first is kept
                self._failure = self._failure or decode_failure(document)
                self._store_fields({REQUEST_ID: document.get(REQUEST_ID)})
            case _:
                return self._feed_block_event(kind, document)
        return []

    def _feed_block_event(self, kind: str, event: Fields) -> list[Part]:
        is_start = kind == "content_block_start"
        index = get_integer(event, "index")
        if index is None:
            index = len(self._blocks) - (not is_start)
        if is_start:
            block = BlockDecoder(get_object(event, "content_block"))
            self._begin_block(index, block)
            return block.initial_pieces()
        if kind == "content_block_delta":
            return self._block_at(index).feed(get_object(event, "delta"))
        if index in self._latest_blocks:
            return self._latest_blocks[index].close()
        return []

    def _store_fields(self, fields: Fields) -> None:
        """Merge fields: null is skipped, later values win."""
        usage = get_object(fields, "usage")
        for known, new in ((self._fields, fields), (self._usage, usage)):
            known.update((name, value) for name, value in new.items() if value is not None)

    def _begin_block(self, index: int, block: BlockDecoder) -> None:
        self._blocks.append((index, block))
        self._latest_blocks[index] = block

    def _block_at(self, index: int) -> BlockDecoder:
        """The latest block at this index; a new one if its start is missing."""
        if index not in self._latest_blocks:
            self._begin_block(index, BlockDecoder({}))
        return self._latest_blocks[index]

    def turn(self) -> Turn:
        indexed_blocks = [(index, block.block()) for index, block in self._blocks]
        tool_names = {
            get_text(block, "id"): get_text(block, "name")
            for _, block in indexed_blocks
            if blocks.is_tool_call(block)
        }
        parts: list[Part] = []
        other_blocks: list[Json] = []
        for index, block in indexed_blocks:
            part = blocks.decode_block(block, tool_names)
            if part is None and block:
                other_blocks.append({"index": index, "content_block": dict(block)})
            elif part is not None and part not in _EMPTY_PARTS:
                parts.append(part)
        raw = get_text(self._fields, "stop_reason")
        metadata = {
            name: value for name, value in self._fields.items() if name not in _DECODED_FIELDS
        }
        refusal = _decode_refusal(metadata.get(_STOP_DETAILS)) if raw == _REFUSAL else None
        if refusal:
            parts.append(refusal)
            del metadata[_STOP_DETAILS]
        metadata[_EXTRA_USAGE] = _extra_usage_fields(self._usage)
        metadata[_OTHER_BLOCKS] = other_blocks
        return Turn(
            tuple(parts),
            finish=_FINISH.decode(raw),
            finish_raw=raw,
            usage=_USAGE.decode(self._usage) or (Usage() if self._usage else None),
            failure=self._failure,
            id=get_text(self._fields, "id"),
            model=_fallback_model(block for _, block in indexed_blocks)
            or get_text(self._fields, "model"),
            metadata=select_metadata(metadata, metadata),
        )


def _decode_refusal(value: Json) -> Refusal | None:
    """The refusal in `stop_details`, its other fields as metadata; None without explanation."""
    details = object_fields(value)
    explanation = get_text(details, "explanation")
    metadata = metadata_except(details, ("type", "explanation"))
    return Refusal(explanation, metadata) if explanation else None


def _extra_usage_fields(counts: Fields) -> dict[str, Json]:
    """The usage fields that `Usage` does not have."""
    known = {name for name, *_ in _USAGE.paths.values()}
    return {
        name: value for name, value in counts.items() if name not in known and value is not None
    }


def _fallback_model(message_blocks: Iterable[Fields]) -> str:
    """The model that responded after another declined: that of the last `fallback` block."""
    model = ""
    for block in message_blocks:
        if block.get("type") == "fallback":
            target = get_object(block, "to")
            model = get_text(target, "model") or model
    return model


def encode_message(turn: Turn, context: EncodeContext) -> Document:
    """The whole message of a prepared turn."""
    message_blocks = _content_blocks(turn, context)
    return {
        **_start_fields(turn, message_blocks),
        "content": [blocks.whole_block(block) for block in message_blocks],
        **_stop_fields(turn, message_blocks),
        **selected_fields(turn.metadata, _END_METADATA),
        "usage": {**_USAGE.encode(turn.usage), **_extra_usage_of(turn)},
    }


def encode_events(turn: Turn, context: EncodeContext) -> Iterator[Document]:
    """The events of a prepared turn.

    A failed turn has no end: the caller adds the error in the format of the transport.
    """
    message_blocks = _content_blocks(turn, context)
    usage, extra_usage = turn.usage or Usage(), _extra_usage_of(turn)
    final = {name: value for name, value in extra_usage.items() if name in _FINAL_USAGE_FIELDS}
    initial = {name: value for name, value in extra_usage.items() if name not in final}
    initial_counts = replace(usage, output=min(usage.output or 0, 1), reasoning=None)
    message = {
        **_start_fields(turn, message_blocks),
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_USAGE.encode(initial_counts), **initial},
    }
    yield {"type": "message_start", "message": message}
    for index, block in enumerate(message_blocks):
        start, *deltas = blocks.streamed_block(block, context.split_text)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    if turn.failure is None:
        yield {
            "type": "message_delta",
            "delta": _stop_fields(turn, message_blocks),
            "usage": {**_USAGE.encode(usage), **final},
            **selected_fields(turn.metadata, _END_METADATA),
        }
        yield {"type": "message_stop"}


def _content_blocks(turn: Turn, context: EncodeContext) -> list[Document]:
    """The blocks of a message: its parts, and between them the blocks that no part can represent.

    Those keep their original index, or the nearest possible.
    """
    parts = [part for part in turn.parts if not isinstance(part, Refusal)]
    answered_calls = {part.call_id for part in parts if isinstance(part, ToolResult)}
    message_blocks = []
    for ordinal, part in enumerate(parts):
        signature = ""
        if isinstance(part, Reasoning) and context.signs_reasoning:
            signature = context.fake_identifier("sign", ordinal, _FAKE_SIGNATURE_CHARS)
        message_blocks.append(blocks.encode_block(part, signature, answered_calls))
    other_blocks = [
        (
            get_integer(entry, "index") or 0,
            get_object(entry, "content_block"),
        )
        for entry in get_objects(dict(turn.metadata), _OTHER_BLOCKS)
    ]
    next_position = 0
    for index, block in sorted(other_blocks, key=lambda indexed_block: indexed_block[0]):
        if block and blocks.decode_block(block, {}) is None:
            position = min(max(index, next_position), len(message_blocks))
            message_blocks.insert(position, dict(block))
            next_position = position + 1
    return message_blocks


def _start_fields(turn: Turn, message_blocks: Sequence[Document]) -> Document:
    return {
        "id": turn.id,
        "type": "message",
        "role": "assistant",
        "model": _fallback_model(message_blocks) or turn.model,
        "content": [],
        **selected_fields(turn.metadata, _START_METADATA),
    }


def _stop_fields(turn: Turn, message_blocks: Sequence[Document]) -> Document:
    """Why a message stopped; it does not wait for the client if the provider ran all calls."""
    raw, metadata = turn.finish_raw, selected_fields(turn.metadata, _STOP_METADATA)
    call_types = {block["type"] for block in message_blocks if blocks.is_tool_call(block)}
    if raw == TOOL_USE and call_types and TOOL_USE not in call_types:
        raw = _END_TURN
    refusals = [part for part in turn.parts if isinstance(part, Refusal)]
    if not refusals and raw == _REFUSAL:
        refusals = [*filter(None, [_decode_refusal(metadata.get(_STOP_DETAILS))])]
    if refusals:
        raw = _REFUSAL
        details: Document = {"type": _REFUSAL, "category": None}
        for refusal in refusals:
            details |= selected_fields(refusal.metadata, _REFUSAL_METADATA)
        details["explanation"] = "".join(refusal.text for refusal in refusals)
        metadata[_STOP_DETAILS] = details
    fields = selected_fields(metadata, _STOP_METADATA)
    return {"stop_reason": raw, "stop_sequence": None, **fields}


def _extra_usage_of(turn: Turn) -> dict[str, Json]:
    return _extra_usage_fields(get_object(dict(turn.metadata), _EXTRA_USAGE))
