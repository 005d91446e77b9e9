"""What an `openai-chat` response can represent, by provider and request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llm_proxy.dialects.capabilities import (
    Capabilities,
    nonempty_metadata,
    tool_call_with_text_arguments,
    without_part_metadata,
    without_signature,
)
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import choices_decoder, errors
from llm_proxy.dialects.openai.choices_encoder import (
    ResponseOptions,
    failed_stream_turn,
    response_includes_usage,
    response_options,
)
from llm_proxy.dialects.openai.provider_variants import ProviderVariant
from llm_proxy.dialects.wire import with_default_error_message
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import (
    Citation,
    FinishReason,
    Json,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
)

MESSAGE_METADATA_FIELDS: Final = ("extra_content",)
"""The metadata fields of a turn that are sent in its message."""

_USAGE_FIELDS: Final = ("input", "output", "total", "cache_read", "cache_write", "reasoning")
_REASONING_DETAIL_FIELDS: Final = ("type", "format", "id", "index")
_FINISH_REASONS: Final = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.ERROR: "error",
}
_REFUSAL_FINISH_REASON: Final = {FinishReason.REFUSAL: _FINISH_REASONS[FinishReason.STOP]}
_LEGACY_FINISH_REASONS: Final = {**_FINISH_REASONS, FinishReason.TOOL_CALLS: "function_call"}


@dataclass(frozen=True, slots=True)
class ChatResponseOptions(ResponseOptions):
    """The options of a chat request that shape its response."""

    uses_legacy_functions: bool
    """Whether the request has legacy `functions` and no `tools`."""


def chat_response_options(body: Fields) -> ChatResponseOptions:
    """The response options in the body of a request."""
    common_options = response_options(body)
    return ChatResponseOptions(
        common_options.stream,
        common_options.includes_usage,
        bool(body.get("functions")) and not body.get("tools"),
    )


def capabilities(
    options: ChatResponseOptions, variant: ProviderVariant, turns: Sequence[Turn] = ()
) -> Capabilities:
    """What the provider's response to such a request can represent of these turns.

    A turn with a `Refusal` finishes with `stop`: OpenAI's own client raises at `content_filter`.
    """
    has_refusal = any(isinstance(part, Refusal) for turn in turns for part in turn.parts)
    has_usage = response_includes_usage(options, variant)
    has_reasoning_details = variant.reasoning_field == "details"
    return Capabilities(
        dialect="openai-chat",
        is_streamed=options.stream,
        finish_by_raw_reason=choices_decoder.FINISH_BY_REASON,
        raw_reason_by_finish={
            **(_LEGACY_FINISH_REASONS if options.uses_legacy_functions else _FINISH_REASONS),
            **(_REFUSAL_FINISH_REASON if has_refusal else {}),
        },
        convert_text=_representable_text,
        convert_reasoning=_representable_reasoning_detail
        if has_reasoning_details
        else without_signature,
        convert_refusal=without_part_metadata,
        convert_tool_call=_representable_legacy_call
        if options.uses_legacy_functions
        else _representable_tool_call,
        convert_media=_representable_media,
        merged_kinds=frozenset(
            (Text, Refusal) if has_reasoning_details else (Text, Refusal, Reasoning)
        ),
        part_order=() if options.stream else _part_order(options),
        id_prefix="chatcmpl-",
        usage_fields=_USAGE_FIELDS if has_usage else (),
        required_usage_fields=("input", "output", "total") if has_usage else (),
        always_has_usage=has_usage,
        metadata_names=(
            *choices_decoder.RESPONSE_METADATA_FIELDS,
            *choices_decoder.CHOICE_METADATA_FIELDS,
            *MESSAGE_METADATA_FIELDS,
            choices_decoder.LOGPROBS,
        ),
        response_level_metadata_names=choices_decoder.RESPONSE_METADATA_FIELDS,
        response_allows_several_choices=True,
        response_allows_successive_choices=options.stream,
        normalize_turn=_normalize_turn if options.stream else _move_audio_first,
        convert_failure=with_default_error_message
        if options.stream
        else partial(errors.as_http_error_failure, member=variant),
        convert_failed_turn=failed_stream_turn,
    )


def _part_order(options: ChatResponseOptions) -> tuple[type[Part], ...]:
    """The order of parts that decoding a whole message yields."""
    last: tuple[type[Part], ...] = (
        (ToolCall, Media) if options.uses_legacy_functions else (Media, ToolCall)
    )
    return (Reasoning, Text, Refusal, *last)


def _representable_text(text: Text) -> Text:
    """Only pages can be cited, and a text without characters has no citations."""
    return Text(text.text, tuple(map(_representable_citation, text.citations)) if text.text else ())


def _representable_citation(citation: Citation) -> Citation:
    span = citation.span if citation.span and citation.span[0] < citation.span[1] else None
    return Citation(citation.url, citation.title, citation.quoted, span)


def _representable_reasoning_detail(reasoning: Reasoning) -> Reasoning:
    """Reasoning as an entry of `reasoning_details`: text, a summary, or encrypted."""
    kind = "reasoning.encrypted" if reasoning.redacted else "reasoning.text"
    fields = {"type": kind, **dict(nonempty_metadata(reasoning.metadata, _REASONING_DETAIL_FIELDS))}
    if reasoning.redacted:
        return Reasoning(redacted=reasoning.redacted, metadata=tuple(fields.items()))
    return Reasoning(reasoning.text, reasoning.signature, metadata=tuple(fields.items()))


def _representable_tool_call(call: ToolCall) -> ToolCall:
    """A function or custom call; keeps `extra_content`, which holds Gemini's signatures."""
    names = (
        ("type", *MESSAGE_METADATA_FIELDS)
        if ("type", "custom") in call.metadata
        else MESSAGE_METADATA_FIELDS
    )
    return replace(
        tool_call_with_text_arguments(call), metadata=nonempty_metadata(call.metadata, names)
    )


def _representable_legacy_call(call: ToolCall) -> ToolCall:
    return ToolCall("", call.name, call.arguments, (("type", "function_call"),))


def _representable_media(media: Media) -> Media | None:
    if media.media_type.startswith("audio/"):
        metadata = nonempty_metadata(media.metadata, ("id", "expires_at"))
        return Media("audio/*", base64=media.base64, transcript=media.transcript, metadata=metadata)
    if media.media_type.startswith("image/") and media.base64:
        return Media(media.media_type, base64=media.base64)
    return Media("image/*", url=media.url) if media.url else None


def _normalize_turn(turn: Turn) -> Turn:
    """Numbers reasoning details and checks that what occurs at most once does.

    Raises `NotRepresentable` for a second legacy function call or audio.
    """
    legacy_calls = [
        item for item in turn.parts if ("type", "function_call") in getattr(item, "metadata", ())
    ]
    audio_parts = [item for item in turn.parts if _is_audio(item)]
    if len(legacy_calls) > 1 or len(audio_parts) > 1:
        raise NotRepresentable("openai-chat says one function call, and one sound, in a message")
    parts = [_with_reasoning_detail_index(part, at) for at, part in enumerate(turn.parts)]
    return choices_decoder.with_representable_logprobs(replace(turn, parts=tuple(parts)))


def _move_audio_first(turn: Turn) -> Turn:
    media_positions = [at for at, part in enumerate(turn.parts) if isinstance(part, Media)]
    parts = list(turn.parts)
    media = sorted(
        (parts[index] for index in media_positions), key=lambda part: not _is_audio(part)
    )
    for position, part in zip(media_positions, media, strict=True):
        parts[position] = part
    return _normalize_turn(replace(turn, parts=tuple(parts)))


def _is_audio(part: Part) -> bool:
    return isinstance(part, Media) and part.media_type == "audio/*"


def _with_reasoning_detail_index(part: Part, index: int) -> Part:
    if not isinstance(part, Reasoning) or "type" not in dict(part.metadata):
        return part
    fields: dict[str, Json] = {**dict(part.metadata), "index": index}
    return replace(
        part, metadata=nonempty_metadata(tuple(fields.items()), _REASONING_DETAIL_FIELDS)
    )
