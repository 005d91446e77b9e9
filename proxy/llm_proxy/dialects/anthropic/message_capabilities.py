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
from llm_proxy.dialects.anthropic.message_decoder import DETAILS, OTHER_BLOCKS, USAGE
from llm_proxy.dialects.capabilities import Capabilities
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Finish,
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

OF_START: Final = ("diagnostics", "input_transformations")
"""Metadata that a message has when it begins."""

OF_DELTA: Final = ("stop_sequence", DETAILS, "container")
"""Metadata that stands beside the reason to stop."""

OF_END: Final = ("context_management",)
"""Metadata that stands beside the usage at the end."""

_KEEPS: Final = (*OF_START, *OF_DELTA, *OF_END, REQUEST_ID, USAGE, OTHER_BLOCKS)
_UNTIL_FAILURE: Final = (*OF_START, REQUEST_ID, USAGE, OTHER_BLOCKS)

_WORDS: Final = {
    Finish.STOP: "end_turn",
    Finish.STOP_SEQUENCE: "stop_sequence",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL_CALLS: "tool_use",
    Finish.REFUSAL: message_decoder.REFUSAL,
    Finish.CONTENT_FILTER: message_decoder.REFUSAL,
    Finish.CONTEXT_FULL: "model_context_window_exceeded",
    Finish.PAUSED: "pause_turn",
}
_SIGNATURE: Final = 52
"""Characters of a made signature, behind the four that it begins with."""


def capabilities(*, streams: bool, context: EncodeContext, id_prefix: str = "msg_") -> Capabilities:
    """The words of a message that is streamed or whole."""
    return Capabilities(
        dialect="anthropic",
        streams=streams,
        finish_of_raw=message_decoder.FINISH,
        raw_of_finish=_WORDS,
        convert_text=block_capabilities.convert_text,
        convert_reasoning=block_capabilities.convert_reasoning,
        convert_refusal=block_capabilities.convert_refusal,
        convert_tool_call=block_capabilities.convert_tool_call
        if streams
        else block_capabilities.convert_object_tool_call,
        convert_tool_result=block_capabilities.convert_tool_result,
        convert_media=block_capabilities.convert_media,
        merged_kinds=frozenset(),
        kinds_kept_empty=frozenset((Media, Reasoning)),
        id_prefix=id_prefix,
        call_id_prefix="toolu_",
        usage_fields=usage.COUNTS,
        required_usage_fields=("input", "output"),
        always_has_usage=True,
        metadata_names=_KEEPS,
        arrange=partial(_arrange_turn, context=context),
        convert_failure=errors.with_type_defaults,
        convert_failed_turn=partial(_as_failed_stream, context=context),
        convert_http_error_turn=partial(errors.with_request_id_only, context=context),
    )


def content_blocks(turn: Turn) -> list[Part | Fields]:
    """The blocks of a message: its parts, and between them those that no part has a word for.

    These stand where they stood, or as near to it as can be.
    """
    items: list[Part | Fields] = [part for part in turn.parts if not isinstance(part, Refusal)]
    least = 0
    for index, block in sorted(_unconverted_blocks(turn), key=lambda values: values[0]):
        at = min(max(index, least), len(items))
        items.insert(at, block)
        least = at + 1
    return items


def _unconverted_blocks(turn: Turn) -> Iterator[tuple[int, Fields]]:
    """The blocks that no part has a word for, and where each stood."""
    for entry in lenient_json.object_items(dict(turn.metadata).get(OTHER_BLOCKS)):
        block = lenient_json.object_fields(entry.get("content_block"))
        if block and block_decoder.decode_block(block, {}) is None:
            yield lenient_json.first_count(entry.get("index")) or 0, block


def _arrange_turn(turn: Turn, context: EncodeContext) -> Turn:
    turn = _with_refusal_finish(turn)
    parts = _with_tool_names(_as_own_tool_calls(turn.parts))
    others: list[Json] = [
        {"index": index, "content_block": dict(block)}
        for index, block in enumerate(content_blocks(turn))
        if isinstance(block, dict)
    ]
    fields: dict[str, Json] = {
        **dict(turn.metadata),
        USAGE: usage.extra_usage_fields(lenient_json.object_fields(dict(turn.metadata).get(USAGE))),
        OTHER_BLOCKS: others,
    }
    if turn.failure is None:
        fields.pop(REQUEST_ID, None)
    return replace(
        _with_tool_calls_finish(turn, parts),
        parts=tuple(_sign_reasoning(parts, context)),
        model=message_decoder.fallback_model(others) or turn.model,
        metadata=lenient_json.named_metadata(fields, _KEEPS),
    )


def _with_refusal_finish(turn: Turn) -> Turn:
    refusals = [part for part in turn.parts if isinstance(part, Refusal)]
    if not refusals and turn.finish_raw == message_decoder.REFUSAL:
        found = message_decoder.decode_refusal(dict(turn.metadata).get(DETAILS))
        refusals = [block_capabilities.convert_refusal(refusal) for refusal in found]
    if not refusals:
        return turn
    metadata: Metadata = tuple(pair for refusal in refusals for pair in refusal.metadata)
    one = block_capabilities.convert_refusal(
        Refusal("".join(refusal.text for refusal in refusals), metadata)
    )
    return replace(
        turn,
        parts=(*(part for part in turn.parts if not isinstance(part, Refusal)), one),
        finish=Finish.REFUSAL,
        finish_raw=message_decoder.REFUSAL,
        metadata=tuple(pair for pair in turn.metadata if pair[0] != DETAILS),
    )


def _as_own_tool_calls(parts: tuple[Part, ...]) -> list[Part]:
    answered = {part.call_id for part in parts if isinstance(part, ToolResult)}
    return [
        block_capabilities.convert_provider_tool_call(part)
        if isinstance(part, ToolCall) and part.id in answered
        else part
        for part in parts
    ]


def _with_tool_calls_finish(turn: Turn, parts: list[Part]) -> Turn:
    """Only a call of the client's own tools is waited for."""
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if (
        turn.finish is not Finish.TOOL_CALLS
        or not calls
        or any(map(block_capabilities.awaits_client, calls))
    ):
        return turn
    return replace(turn, finish=Finish.STOP, finish_raw=_WORDS[Finish.STOP])


def _with_tool_names(parts: list[Part]) -> list[Part]:
    """Results bear the names of their calls, which is all that the wire tells of them."""
    names = {part.id: part.name for part in parts if isinstance(part, ToolCall)}
    return [
        block_capabilities.with_tool_name(part, names) if isinstance(part, ToolResult) else part
        for part in parts
    ]


def _sign_reasoning(parts: Iterable[Part], context: EncodeContext) -> Iterator[Part]:
    """Thoughts in words with signatures, which clients hand back, if they are to be made."""
    for at, part in enumerate(parts):
        match part:
            case Reasoning(signature=None, redacted=None, metadata=()) if context.signs_reasoning:
                yield replace(part, signature=context.identifier("sign", at, _SIGNATURE))
            case _:
                yield part


def _as_failed_stream(turn: Turn, context: EncodeContext) -> Turn:
    """What a stream tells before its end: neither a refusal nor what the output cost."""
    fields = dict(turn.metadata)
    cost = lenient_json.object_fields(fields.get(USAGE))
    fields[USAGE] = {name: value for name, value in cost.items() if name not in usage.AT_END}
    fields[REQUEST_ID] = errors.request_id(turn, context)
    return replace(
        turn,
        parts=tuple(part for part in turn.parts if not isinstance(part, Refusal)),
        usage=usage.encode_initial_usage(turn.usage or Usage()),
        metadata=lenient_json.named_metadata(fields, _UNTIL_FAILURE),
    )
