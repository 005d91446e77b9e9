"""What an `openai-chat` response can represent, by family member and request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llm_proxy.dialects.capabilities import (
    Capabilities,
    nonempty_metadata,
    text_argument_call,
    unsigned_reasoning,
    with_message,
    without_metadata,
)
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import choices_decoder, errors
from llm_proxy.dialects.openai.choices_encoder import (
    ResponseOptions,
    as_failed_stream,
    includes_usage_chunk,
    response_options,
)
from llm_proxy.dialects.openai.provider_variants import FamilyMember
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import (
    Citation,
    Finish,
    Json,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
)

OF_MESSAGE: Final = ("extra_content",)
"""The metadata of a turn that stands in its message."""

_COUNTS: Final = ("input", "output", "total", "cache_read", "cache_write", "reasoning")
_OF_DETAIL: Final = ("type", "format", "id", "index")
_WORDS: Final = {
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.TOOL_CALLS: "tool_calls",
    Finish.CONTENT_FILTER: "content_filter",
    Finish.ERROR: "error",
}
_REFUSED: Final = {Finish.REFUSAL: _WORDS[Finish.STOP]}
_LEGACY: Final = {**_WORDS, Finish.TOOL_CALLS: "function_call"}


@dataclass(frozen=True, slots=True)
class ChatResponseOptions(ResponseOptions):
    """What a request asks of the manner of its answer."""

    uses_legacy_functions: bool
    """Whether the client knows functions, and no tools."""


def chat_response_options(body: Fields) -> ChatResponseOptions:
    """What the body of a request asks for."""
    it = response_options(body)
    return ChatResponseOptions(
        it.stream, it.includes_usage, bool(body.get("functions")) and not body.get("tools")
    )


def capabilities(
    options: ChatResponseOptions, member: FamilyMember, turns: Sequence[Turn] = ()
) -> Capabilities:
    """The words of this member of the family for such a request, and these turns.

    Who refuses in words stops: at `content_filter`, OpenAI's own client raises.
    """
    refuses = any(isinstance(part, Refusal) for turn in turns for part in turn.parts)
    counts = includes_usage_chunk(options, member)
    detailed = member.reasoning_field == "details"
    return Capabilities(
        dialect="openai-chat",
        streams=options.stream,
        finish_of_raw=choices_decoder.FINISH,
        raw_of_finish={
            **(_LEGACY if options.uses_legacy_functions else _WORDS),
            **(_REFUSED if refuses else {}),
        },
        convert_text=_convert_text,
        convert_reasoning=_convert_reasoning_detail if detailed else unsigned_reasoning,
        convert_refusal=without_metadata,
        convert_tool_call=_convert_legacy_function_call
        if options.uses_legacy_functions
        else _convert_tool_call,
        convert_media=_convert_media,
        merged_kinds=frozenset((Text, Refusal) if detailed else (Text, Refusal, Reasoning)),
        part_order=() if options.stream else _part_order(options),
        id_prefix="chatcmpl-",
        usage_fields=_COUNTS if counts else (),
        required_usage_fields=("input", "output", "total") if counts else (),
        always_has_usage=counts,
        metadata_names=(
            *choices_decoder.OF_CHUNK,
            *choices_decoder.OF_CHOICE,
            *OF_MESSAGE,
            choices_decoder.LOGPROBS,
        ),
        shared_metadata_names=choices_decoder.OF_CHUNK,
        allows_several_turns=True,
        allows_successive_turns=options.stream,
        arrange=_arrange if options.stream else _move_audio_first,
        convert_failure=with_message
        if options.stream
        else partial(errors.as_whole_error, member=member),
        convert_failed_turn=as_failed_stream,
    )


def _part_order(options: ChatResponseOptions) -> tuple[type[Part], ...]:
    """The order in which the fields of a message are read."""
    last: tuple[type[Part], ...] = (
        (ToolCall, Media) if options.uses_legacy_functions else (Media, ToolCall)
    )
    return (Reasoning, Text, Refusal, *last)


def _convert_text(text: Text) -> Text:
    """Citations are of pages; no words, no citations."""
    return Text(text.text, tuple(map(_convert_citation, text.citations)) if text.text else ())


def _convert_citation(cited: Citation) -> Citation:
    span = cited.span if cited.span and cited.span[0] < cited.span[1] else None
    return Citation(cited.url, cited.title, cited.quoted, span)


def _convert_reasoning_detail(reasoning: Reasoning) -> Reasoning:
    """Reasoning as OpenRouter details it: readable, summarised or sealed."""
    kind = "reasoning.encrypted" if reasoning.redacted else "reasoning.text"
    fields = {"type": kind, **dict(nonempty_metadata(reasoning.metadata, _OF_DETAIL))}
    if reasoning.redacted:
        return Reasoning(redacted=reasoning.redacted, metadata=tuple(fields.items()))
    return Reasoning(reasoning.text, reasoning.signature, metadata=tuple(fields.items()))


def _convert_tool_call(call: ToolCall) -> ToolCall:
    """A call of a function, or of a tool that takes plain text; with what Gemini seals."""
    names = ("type", *OF_MESSAGE) if ("type", "custom") in call.metadata else OF_MESSAGE
    return replace(text_argument_call(call), metadata=nonempty_metadata(call.metadata, names))


def _convert_legacy_function_call(call: ToolCall) -> ToolCall:
    return ToolCall("", call.name, call.arguments, (("type", "function_call"),))


def _convert_media(media: Media) -> Media | None:
    if media.media_type.startswith("audio/"):
        metadata = nonempty_metadata(media.metadata, ("id", "expires_at"))
        return Media("audio/*", base64=media.base64, transcript=media.transcript, metadata=metadata)
    if media.media_type.startswith("image/") and media.base64:
        return Media(media.media_type, base64=media.base64)
    return Media("image/*", url=media.url) if media.url else None


def _arrange(turn: Turn) -> Turn:
    """What comes once at most does; each detail of reasoning has a number of its own."""
    legacy = [
        item for item in turn.parts if ("type", "function_call") in getattr(item, "metadata", ())
    ]
    spoken = [item for item in turn.parts if _is_audio(item)]
    if len(legacy) > 1 or len(spoken) > 1:
        raise NotRepresentable("openai-chat says one function call, and one sound, in a message")
    parts = [_with_detail_index(part, at) for at, part in enumerate(turn.parts)]
    return choices_decoder.limit_logprobs(replace(turn, parts=tuple(parts)))


def _move_audio_first(turn: Turn) -> Turn:
    at = [at for at, part in enumerate(turn.parts) if isinstance(part, Media)]
    parts = list(turn.parts)
    media = sorted((parts[number] for number in at), key=lambda number: not _is_audio(number))
    for position, part in zip(at, media, strict=True):
        parts[position] = part
    return _arrange(replace(turn, parts=tuple(parts)))


def _is_audio(part: Part) -> bool:
    return isinstance(part, Media) and part.media_type == "audio/*"


def _with_detail_index(part: Part, at: int) -> Part:
    if not isinstance(part, Reasoning) or "type" not in dict(part.metadata):
        return part
    fields: dict[str, Json] = {**dict(part.metadata), "index": at}
    return replace(part, metadata=nonempty_metadata(tuple(fields.items()), _OF_DETAIL))
