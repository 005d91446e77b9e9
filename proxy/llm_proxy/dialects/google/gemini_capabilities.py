"""What a `gemini` response can represent, and its response options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.google import errors, gemini_decoder, part_conversion, source_encoder
from llm_proxy.dialects.google.content_decoder import GROUNDING
from llm_proxy.turns import Finish, Media, Part, Text, Turn

_WORDS: Final = {
    Finish.STOP: "STOP",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.CONTENT_FILTER: "SAFETY",
    Finish.PAUSED: "CONTINUATION",
    Finish.ERROR: "MALFORMED_RESPONSE",
    Finish.OTHER: "OTHER",
}


Form = Literal["sse", "json-array", "whole"]
"""The codec that cuts an answer."""


@dataclass(frozen=True, slots=True)
class GeminiResponseOptions:
    """What a request asks of the manner of its answer."""

    stream_form: Form
    is_wrapped: bool = False
    """Whether each document stands in another (Code Assist)."""
    recitation_field: str = "citationSources"
    """Where texts that repeat another say so."""


def capabilities(options: GeminiResponseOptions, *, is_single: bool) -> Capabilities:
    """The words of an answer; `alone` is one of a single turn, which a blocked prompt may be."""
    return Capabilities(
        dialect="gemini",
        streams=options.stream_form != "whole",
        finish_of_raw=gemini_decoder.FINISH,
        raw_of_finish=_WORDS,
        stop_means_tool_calls=True,
        convert_text=part_conversion.convert_text,
        convert_reasoning=part_conversion.convert_reasoning,
        convert_tool_call=part_conversion.convert_tool_call,
        convert_provider_tool_call=part_conversion.convert_provider_tool_call,
        awaits_client=part_conversion.awaits_client,
        convert_tool_result=part_conversion.convert_tool_result,
        convert_media=part_conversion.convert_media,
        merged_kinds=frozenset(),
        kinds_kept_empty=frozenset((Text,)),
        id_prefix="",
        call_id_prefix=None,
        usage_fields=tuple(gemini_decoder.COUNTS),
        required_usage_fields=("input", "total"),
        metadata_names=(*gemini_decoder.OF_ANSWER, *gemini_decoder.OF_CANDIDATE, GROUNDING),
        shared_metadata_names=gemini_decoder.OF_ANSWER,
        allows_several_turns=True,
        arrange=partial(_arrange, is_single=is_single),
        convert_failure=errors.with_status_defaults,
        convert_failed_turn=_as_failed_stream,
    )


def is_blocked_prompt(turn: Turn) -> bool:
    """Whether the turn is a verdict on the prompt, which no candidate answers."""
    is_verdict = turn.finish is Finish.CONTENT_FILTER and not turn.parts
    return is_verdict and turn.finish_raw == gemini_decoder.prompt_block_reason(dict(turn.metadata))


def _arrange(turn: Turn, *, is_single: bool) -> Turn:
    fields = dict(turn.metadata)
    reason = gemini_decoder.prompt_block_reason(fields) if is_single else ""
    if reason and not turn.parts and turn.finish is Finish.CONTENT_FILTER:
        verdict = nonempty_metadata(turn.metadata, gemini_decoder.OF_ANSWER)
        return replace(turn, finish_raw=reason, metadata=verdict)
    fields[GROUNDING] = gemini_decoder.grounding_metadata(fields.get(GROUNDING))
    unfinished = turn.finish is not None and turn.finish_raw in gemini_decoder.UNFINISHED
    return replace(
        turn,
        parts=source_encoder.merge_and_place_citations(
            _merge_audio(turn.parts), part_conversion.has_signature
        ),
        finish_raw=_WORDS[Finish.OTHER] if unfinished else turn.finish_raw,
        metadata=lenient_json.named_metadata(fields, fields),
    )


def _merge_audio(values: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts, what follows of a sound joined to its beginning: sounds come in pieces."""
    sounds: dict[str, FragmentJoiner] = {}
    others: list[Part | FragmentJoiner] = []
    for part in values:
        if not isinstance(part, Media) or not part.media_type.startswith("audio/") or part.url:
            others.append(part)
            continue
        if part.media_type not in sounds:
            sounds[part.media_type] = FragmentJoiner()
            others.append(sounds[part.media_type])
        sounds[part.media_type].add(part)
    return tuple(
        _join_audio(other) if isinstance(other, FragmentJoiner) else other for other in others
    )


def _join_audio(sound: FragmentJoiner) -> Part:
    [whole] = sound.joined_parts()
    return (part_conversion.convert_media(whole) or whole) if isinstance(whole, Media) else whole


def _as_failed_stream(turn: Turn) -> Turn:
    """What a stream tells before its end: counts, but neither sources nor what a finish says."""
    names = tuple(name for name in gemini_decoder.OF_ANSWER if name != gemini_decoder.FEEDBACK)
    said = (replace(part, citations=()) if isinstance(part, Text) else part for part in turn.parts)
    return replace(turn, parts=tuple(said), metadata=nonempty_metadata(turn.metadata, names))
