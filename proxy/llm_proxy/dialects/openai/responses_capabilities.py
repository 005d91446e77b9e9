"""What an `openai-responses` response can represent, and its response options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import (
    errors,
    output_capabilities,
    output_item_decoder,
    output_item_encoder,
)
from llm_proxy.dialects.openai import responses_decoder as read
from llm_proxy.dialects.openai.provider_variants import provider_variant
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, FinishReason, Media, Metadata, Part, Reasoning, Refusal, Turn

STORED_RESPONSE_PATH: Final = re.compile(r"/responses/(?P<id>[^/]+)(?:/cancel)?\Z")
"""The end of the path of a stored response."""
COMPACT_PATH: Final = "/responses/compact"
"""The end of the path that compacts a conversation."""

_RAW_REASONING_PROVIDERS: Final = frozenset(("bedrock", "deepseek", "ollama", "openrouter", "vllm"))
"""Providers whose models return raw reasoning text instead of summaries."""
_USAGE_FIELDS: Final = ("input", "output", "total", "cache_read", "cache_write", "reasoning")
_RAW_OF_FINISH: Final = {
    FinishReason.STOP: "completed",
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.ERROR: "failed",
}
_RAW_OF_REFUSAL: Final = {FinishReason.REFUSAL: _RAW_OF_FINISH[FinishReason.STOP]}
_RAW_OF_PAUSED: Final = {FinishReason.PAUSED: "in_progress"}
_FINISH_OF_RAW_DOCUMENT: Final = {**read.FINISH_BY_STATUS, **read.FINISH_BY_INCOMPLETE_REASON}
_FINISH_OF_RAW_STREAM: Final = {
    raw: finish
    for raw, finish in _FINISH_OF_RAW_DOCUMENT.items()
    if raw not in read.PENDING_STATUSES
}


@dataclass(frozen=True, slots=True)
class ResponsesOptions:
    """The options of a request that shape its response."""

    stream: bool
    request_body: Fields
    stored_response_id: str = ""
    """The ID of the response that is fetched or cancelled; empty where one is created."""
    resume_after_sequence: int = -1
    """The sequence number of the last event that the client has; -1 for a whole stream."""
    is_compaction: bool = False
    """Whether the request compacts a conversation."""

    @property
    def is_background(self) -> bool:
        """Whether the response is a background one, or is fetched or cancelled by its ID."""
        return bool(self.stored_response_id) or self.request_body.get("background") is True

    @property
    def partial_image_count(self) -> int:
        """How many partial images precede an image: 0 to 3."""
        counts = (
            tool.get("partial_images")
            for tool in lenient_json.array_objects(self.request_body.get("tools"))
        )
        return min(max((lenient_json.first_integer(value) or 0 for value in counts), default=0), 3)


def responses_options(
    request: Request, *, stream: bool, resume_after_sequence: int
) -> ResponsesOptions:
    """The response options of a request."""
    path = request.path
    is_compaction = path.endswith(COMPACT_PATH)
    stored_match = None if is_compaction else STORED_RESPONSE_PATH.search(path)
    body = lenient_json.parse_object(request.body)
    return ResponsesOptions(
        stream and not is_compaction,
        body,
        stored_match["id"] if stored_match else "",
        resume_after_sequence,
        is_compaction,
    )


def capabilities(
    options: ResponsesOptions, context: EncodeContext, turns: Sequence[Turn]
) -> Capabilities:
    """What the response to such a request can represent of these turns.

    A turn with a `Refusal` has the status `completed`.
    """
    has_refusal = any(isinstance(part, Refusal) for turn in turns for part in turn.parts)
    default_reasoning_type = (
        output_capabilities.REASONING_TEXT_TYPE
        if context.provider in _RAW_REASONING_PROVIDERS
        else output_capabilities.SUMMARY_TYPE
    )
    may_be_pending = options.is_background and not options.stream
    return Capabilities(
        dialect="openai-responses",
        is_streamed=options.stream,
        finish_by_raw_reason=_FINISH_OF_RAW_STREAM if options.stream else _FINISH_OF_RAW_DOCUMENT,
        raw_reason_by_finish={
            **_RAW_OF_FINISH,
            **(_RAW_OF_REFUSAL if has_refusal else {}),
            **(_RAW_OF_PAUSED if may_be_pending else {}),
        },
        stop_means_tool_calls=True,
        awaits_client_predicate=_awaits_tool_results,
        convert_text=output_capabilities.representable_text,
        convert_reasoning=partial(
            output_capabilities.representable_reasoning, kind=default_reasoning_type
        ),
        convert_refusal=output_capabilities.representable_refusal,
        convert_tool_call=output_capabilities.representable_tool_call,
        convert_tool_result=output_capabilities.representable_tool_result,
        convert_media=output_capabilities.representable_image_or_audio
        if options.stream
        else output_capabilities.representable_image,
        merged_kinds=frozenset(),
        part_kinds_kept_if_empty=frozenset((Reasoning,)),
        id_prefix="resp_",
        includes_model=not options.is_compaction,
        usage_fields=_USAGE_FIELDS,
        required_usage_fields=_USAGE_FIELDS,
        always_has_usage=True,
        metadata_names=() if options.is_compaction else read.METADATA_FIELDS,
        normalize_turn=partial(_normalize_turn, options=options, context=context),
        convert_failure=partial(
            _failure_with_type_and_code if options.stream else _as_http_error_failure,
            context=context,
        ),
        convert_failed_turn=_failed_stream_turn,
    )


def status_and_incomplete_reason(turn: Turn) -> tuple[str, str]:
    """The `status` for the turn's finish, and the reason of an incomplete response, or empty."""
    raw = turn.finish_raw or _RAW_OF_FINISH[FinishReason.STOP]
    is_status = raw in read.FINISH_BY_STATUS and (
        raw not in read.PENDING_STATUSES or turn.finish is FinishReason.PAUSED
    )
    return (raw, "") if is_status else ("incomplete", raw)


def encode_turn_items(turn: Turn, context: EncodeContext) -> list[Document]:
    """The output items of a turn; the last one is not completed where the turn is not."""
    items = output_item_encoder.encode_items_with_ids(turn.parts, context)
    status, _ = status_and_incomplete_reason(turn)
    if items and status != "completed" and items[-1].get("status") == "completed":
        items[-1]["status"] = "in_progress" if status in read.PENDING_STATUSES else "incomplete"
    return items


def audio_parts(parts: Sequence[Part]) -> list[Media]:
    """The audio parts, which are sent outside the output items."""
    return [part for part in parts if isinstance(part, Media) and part.media_type == "audio/*"]


def _awaits_tool_results(parts: Sequence[Part]) -> bool:
    return read.awaits_tool_results(list(output_item_encoder.encode_output_items(parts)))


def _normalize_turn(turn: Turn, options: ResponsesOptions, context: EncodeContext) -> Turn:
    """The turn as decoding its items yields it, each item with an ID; audio comes last.

    Raises `NotRepresentable` for a second audio part.
    """
    audio = audio_parts(turn.parts)
    if len(audio) > 1:
        raise NotRepresentable("openai-responses says one sound in an answer")
    if options.is_compaction:
        turn = replace(turn, finish=None, finish_raw="")
    parts = [
        part
        for item in encode_turn_items(turn, context)
        for part in output_item_decoder.decode_item(item)
    ]
    return replace(
        turn,
        parts=(*parts, *audio),
        id=options.stored_response_id or turn.id,
        metadata=()
        if options.is_compaction
        else _response_metadata(turn.metadata, options.request_body),
    )


def _response_metadata(metadata: Metadata, request_body: Fields) -> Metadata:
    """The metadata of a response; some fields default to those of the request."""
    tier = request_body.get("service_tier")
    conversation = request_body.get("conversation")
    is_id = isinstance(conversation, str) and conversation
    echoed: Document = {
        "service_tier": "default" if tier == "auto" else tier,
        "previous_response_id": request_body.get("previous_response_id"),
        "conversation": {"id": conversation} if is_id else conversation,
    }
    return nonempty_metadata((*echoed.items(), *metadata), read.METADATA_FIELDS)


def _failure_with_type_and_code(failure: Failure, context: EncodeContext) -> Failure:
    """An error with a type and a code, as clients expect; `error` does not count as a type."""
    converted = _as_http_error_failure(
        replace(failure, type="" if failure.type == "error" else failure.type), context
    )
    return replace(converted, code=converted.code or converted.type)


def _as_http_error_failure(failure: Failure, context: EncodeContext) -> Failure:
    return errors.as_http_error_failure(failure, provider_variant(context.provider))


def _failed_stream_turn(turn: Turn) -> Turn:
    return replace(turn, finish=FinishReason.ERROR, finish_raw="failed", usage=None)
