"""What a `gemini` response can represent, and its response options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.google import citation_encoder, errors, gemini_decoder, representable_parts
from llm_proxy.dialects.google.content_decoder import GROUNDING_FIELD
from llm_proxy.turns import FinishReason, Media, Part, Text, Turn

_RAW_OF_FINISH: Final = {
    FinishReason.STOP: "STOP",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "SAFETY",
    FinishReason.PAUSED: "CONTINUATION",
    FinishReason.ERROR: "MALFORMED_RESPONSE",
    FinishReason.OTHER: "OTHER",
}


ResponseCodec = Literal["sse", "json-array", "whole"]
"""The codec that splits a response into messages."""


@dataclass(frozen=True, slots=True)
class GeminiResponseOptions:
    """How a request wants its response to be encoded."""

    codec: ResponseCodec
    is_code_assist_wrapped: bool = False
    """Whether each document is the `response` of another (Code Assist)."""
    recitation_field: str = "citationSources"
    """The field of `citationMetadata` that lists recitations."""


def capabilities(options: GeminiResponseOptions, *, is_single: bool) -> Capabilities:
    """What a response can hold; only a single turn (`is_single`) can be a blocked prompt."""
    return Capabilities(
        dialect="gemini",
        is_streamed=options.codec != "whole",
        finish_by_raw_reason=gemini_decoder.FINISH_BY_REASON,
        raw_reason_by_finish=_RAW_OF_FINISH,
        stop_means_tool_calls=True,
        convert_text=representable_parts.representable_text,
        convert_reasoning=representable_parts.representable_reasoning,
        convert_tool_call=representable_parts.representable_tool_call,
        convert_provider_tool_call=representable_parts.representable_provider_tool_call,
        awaits_client_predicate=representable_parts.has_client_tool_call,
        convert_tool_result=representable_parts.representable_tool_result,
        convert_media=representable_parts.representable_media,
        merged_kinds=frozenset(),
        part_kinds_kept_if_empty=frozenset((Text,)),
        id_prefix="",
        call_id_prefix=None,
        usage_fields=tuple(gemini_decoder.USAGE_WIRE_NAMES),
        required_usage_fields=("input", "total"),
        metadata_names=(
            *gemini_decoder.RESPONSE_METADATA,
            *gemini_decoder.CANDIDATE_METADATA,
            GROUNDING_FIELD,
        ),
        response_level_metadata_names=gemini_decoder.RESPONSE_METADATA,
        response_allows_several_choices=True,
        normalize_turn=partial(_normalize_turn, is_single=is_single),
        convert_failure=errors.with_status_defaults,
        convert_failed_turn=_failed_stream_turn,
    )


def is_blocked_prompt(turn: Turn) -> bool:
    """Whether the turn is a blocked prompt, which is encoded without candidates."""
    is_filtered = turn.finish is FinishReason.CONTENT_FILTER and not turn.parts
    return is_filtered and turn.finish_raw == gemini_decoder.prompt_block_reason(
        dict(turn.metadata)
    )


def _normalize_turn(turn: Turn, *, is_single: bool) -> Turn:
    fields = dict(turn.metadata)
    reason = gemini_decoder.prompt_block_reason(fields) if is_single else ""
    if reason and not turn.parts and turn.finish is FinishReason.CONTENT_FILTER:
        response_metadata = nonempty_metadata(turn.metadata, gemini_decoder.RESPONSE_METADATA)
        return replace(turn, finish_raw=reason, metadata=response_metadata)
    fields[GROUNDING_FIELD] = gemini_decoder.grounding_without_sources(fields.get(GROUNDING_FIELD))
    is_unfinished = turn.finish is not None and turn.finish_raw in gemini_decoder.UNFINISHED_REASONS
    return replace(
        turn,
        parts=citation_encoder.merge_parts_and_place_citations(
            _merge_audio(turn.parts), representable_parts.has_signature
        ),
        finish_raw=_RAW_OF_FINISH[FinishReason.OTHER] if is_unfinished else turn.finish_raw,
        metadata=lenient_json.select_metadata(fields, fields),
    )


def _merge_audio(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts, with inline audio of the same type joined, since it is streamed in pieces."""
    audio_by_type: dict[str, FragmentJoiner] = {}
    merged: list[Part | FragmentJoiner] = []
    for part in parts:
        if not isinstance(part, Media) or not part.media_type.startswith("audio/") or part.url:
            merged.append(part)
            continue
        if part.media_type not in audio_by_type:
            audio_by_type[part.media_type] = FragmentJoiner()
            merged.append(audio_by_type[part.media_type])
        audio_by_type[part.media_type].add_fragment(part)
    return tuple(
        _join_audio(other) if isinstance(other, FragmentJoiner) else other for other in merged
    )


def _join_audio(fragments: FragmentJoiner) -> Part:
    [whole] = fragments.joined_parts()
    return (
        (representable_parts.representable_media(whole) or whole)
        if isinstance(whole, Media)
        else whole
    )


def _failed_stream_turn(turn: Turn) -> Turn:
    """What a stream holds before its last chunk: usage, but no citations and no finish metadata."""
    names = tuple(
        name for name in gemini_decoder.RESPONSE_METADATA if name != gemini_decoder.PROMPT_FEEDBACK
    )
    parts = (replace(part, citations=()) if isinstance(part, Text) else part for part in turn.parts)
    return replace(turn, parts=tuple(parts), metadata=nonempty_metadata(turn.metadata, names))
