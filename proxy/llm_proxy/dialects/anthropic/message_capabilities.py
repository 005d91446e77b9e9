"""What a response of Anthropic's Messages API can represent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.anthropic import (
    block_capabilities,
    block_decoder,
    errors,
    message_decoder,
    usage,
)
from llm_proxy.dialects.anthropic.errors import REQUEST_ID
from llm_proxy.dialects.anthropic.message_decoder import OTHER_BLOCKS, STOP_DETAILS, USAGE
from llm_proxy.dialects.capabilities import Capabilities
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    FinishReason,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)

START_METADATA: Final = ("diagnostics", "input_transformations")
"""Metadata of `message_start`."""

STOP_METADATA: Final = ("stop_sequence", STOP_DETAILS, "container")
"""Metadata next to the stop reason in `message_delta`."""

END_METADATA: Final = ("context_management",)
"""Metadata next to the usage in `message_delta`."""

_KEPT_METADATA: Final = (
    *START_METADATA,
    *STOP_METADATA,
    *END_METADATA,
    REQUEST_ID,
    USAGE,
    OTHER_BLOCKS,
)
_FAILED_STREAM_METADATA: Final = (*START_METADATA, REQUEST_ID, USAGE, OTHER_BLOCKS)

_STOP_REASONS: Final = {
    FinishReason.STOP: "end_turn",
    FinishReason.STOP_SEQUENCE: "stop_sequence",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.REFUSAL: message_decoder.REFUSAL,
    FinishReason.CONTENT_FILTER: message_decoder.REFUSAL,
    FinishReason.CONTEXT_FULL: "model_context_window_exceeded",
    FinishReason.PAUSED: "pause_turn",
}
_FAKE_SIGNATURE_CHARS: Final = 52
"""Characters of a fake signature after its prefix of four."""


def capabilities(*, streams: bool, context: EncodeContext, id_prefix: str = "msg_") -> Capabilities:
    """The capabilities of a message, streamed or whole."""
    return Capabilities(
        dialect="anthropic",
        is_streamed=streams,
        finish_by_raw_reason=message_decoder.FINISH_BY_STOP_REASON,
        raw_reason_by_finish=_STOP_REASONS,
        convert_text=block_capabilities.representable_text,
        convert_reasoning=block_capabilities.representable_reasoning,
        convert_refusal=block_capabilities.representable_refusal,
        convert_tool_call=block_capabilities.representable_tool_call
        if streams
        else block_capabilities.representable_object_argument_call,
        convert_tool_result=block_capabilities.representable_tool_result,
        convert_media=block_capabilities.representable_media,
        merged_kinds=frozenset(),
        part_kinds_kept_if_empty=frozenset((Media, Reasoning)),
        id_prefix=id_prefix,
        call_id_prefix="toolu_",
        usage_fields=usage.USAGE_FIELDS,
        required_usage_fields=("input", "output"),
        always_has_usage=True,
        metadata_names=_KEPT_METADATA,
        normalize_turn=partial(_normalize_turn, context=context),
        convert_failure=errors.with_type_defaults,
        convert_failed_turn=partial(_as_failed_stream, context=context),
        convert_http_error_turn=partial(errors.with_only_request_id_metadata, context=context),
    )


def content_blocks(turn: Turn) -> list[Part | Fields]:
    """The blocks of a message: its parts, and between them the blocks that no part can represent.

    Those keep their original index, or the nearest possible.
    """
    blocks: list[Part | Fields] = [part for part in turn.parts if not isinstance(part, Refusal)]
    next_position = 0
    for index, block in sorted(_undecoded_blocks(turn), key=lambda indexed_block: indexed_block[0]):
        position = min(max(index, next_position), len(blocks))
        blocks.insert(position, block)
        next_position = position + 1
    return blocks


def _undecoded_blocks(turn: Turn) -> Iterator[tuple[int, Fields]]:
    """The original index of each block that no part can represent, and the block."""
    for entry in lenient_json.array_objects(dict(turn.metadata).get(OTHER_BLOCKS)):
        block = lenient_json.object_fields(entry.get("content_block"))
        if block and block_decoder.decode_block(block, {}) is None:
            yield lenient_json.first_integer(entry.get("index")) or 0, block


def _normalize_turn(turn: Turn, context: EncodeContext) -> Turn:
    turn = _with_refusal_finish(turn)
    parts = _with_tool_names(_mark_provider_tool_calls(turn.parts))
    undecoded_blocks: list[Json] = [
        {"index": index, "content_block": dict(block)}
        for index, block in enumerate(content_blocks(turn))
        if isinstance(block, dict)
    ]
    fields: dict[str, Json] = {
        **dict(turn.metadata),
        USAGE: usage.extra_usage_fields(lenient_json.object_fields(dict(turn.metadata).get(USAGE))),
        OTHER_BLOCKS: undecoded_blocks,
    }
    if turn.failure is None:
        fields.pop(REQUEST_ID, None)
    return replace(
        _with_corrected_finish(turn, parts),
        parts=tuple(_sign_reasoning(parts, context)),
        model=message_decoder.responding_fallback_model(undecoded_blocks) or turn.model,
        metadata=lenient_json.select_metadata(fields, _KEPT_METADATA),
    )


def _with_refusal_finish(turn: Turn) -> Turn:
    refusals = [part for part in turn.parts if isinstance(part, Refusal)]
    if not refusals and turn.finish_raw == message_decoder.REFUSAL:
        refusals_in_details = message_decoder.decode_refusal(dict(turn.metadata).get(STOP_DETAILS))
        refusals = [
            block_capabilities.representable_refusal(refusal) for refusal in refusals_in_details
        ]
    if not refusals:
        return turn
    metadata: Metadata = tuple(pair for refusal in refusals for pair in refusal.metadata)
    merged = block_capabilities.representable_refusal(
        Refusal("".join(refusal.text for refusal in refusals), metadata)
    )
    return replace(
        turn,
        parts=(*(part for part in turn.parts if not isinstance(part, Refusal)), merged),
        finish=FinishReason.REFUSAL,
        finish_raw=message_decoder.REFUSAL,
        metadata=tuple(pair for pair in turn.metadata if pair[0] != STOP_DETAILS),
    )


def _mark_provider_tool_calls(parts: tuple[Part, ...]) -> list[Part]:
    answered_call_ids = {part.call_id for part in parts if isinstance(part, ToolResult)}
    return [
        block_capabilities.representable_provider_tool_call(part)
        if isinstance(part, ToolCall) and part.id in answered_call_ids
        else part
        for part in parts
    ]


def _with_corrected_finish(turn: Turn, parts: list[Part]) -> Turn:
    """Replaces `TOOL_CALLS` by `STOP` if the client runs none of the calls."""
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if (
        turn.finish is not FinishReason.TOOL_CALLS
        or not calls
        or any(map(block_capabilities.awaits_client, calls))
    ):
        return turn
    return replace(turn, finish=FinishReason.STOP, finish_raw=_STOP_REASONS[FinishReason.STOP])


def _with_tool_names(parts: list[Part]) -> list[Part]:
    """Results get the names of their calls, since the format has no others."""
    tool_names = {part.id: part.name for part in parts if isinstance(part, ToolCall)}
    return [
        block_capabilities.with_tool_name(part, tool_names)
        if isinstance(part, ToolResult)
        else part
        for part in parts
    ]


def _sign_reasoning(parts: Iterable[Part], context: EncodeContext) -> Iterator[Part]:
    """Adds fake signatures to unsigned readable reasoning if `context.signs_reasoning`."""
    for ordinal, part in enumerate(parts):
        match part:
            case Reasoning(signature=None, redacted=None, metadata=()) if context.signs_reasoning:
                yield replace(
                    part, signature=context.fake_identifier("sign", ordinal, _FAKE_SIGNATURE_CHARS)
                )
            case _:
                yield part


def _as_failed_stream(turn: Turn, context: EncodeContext) -> Turn:
    """What a stream has sent before its end: no refusal and no output count."""
    fields = dict(turn.metadata)
    extra_usage = lenient_json.object_fields(fields.get(USAGE))
    fields[USAGE] = {
        name: value for name, value in extra_usage.items() if name not in usage.FINAL_USAGE_FIELDS
    }
    fields[REQUEST_ID] = errors.turn_request_id(turn, context)
    return replace(
        turn,
        parts=tuple(part for part in turn.parts if not isinstance(part, Refusal)),
        usage=usage.initial_usage(turn.usage or Usage()),
        metadata=lenient_json.select_metadata(fields, _FAILED_STREAM_METADATA),
    )
