"""What a response of Converse, or of Nova, can represent."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.bedrock import converse_decoder, errors, usage
from llm_proxy.dialects.bedrock.converse_decoder import (
    CITATION_METADATA,
    END_METADATA,
    STOP_METADATA,
    TOOL_RESULT,
    TOOL_USE,
    USAGE,
)
from llm_proxy.dialects.capabilities import (
    Capabilities,
    nonempty_metadata,
    tool_call_with_object_arguments,
    tool_call_with_text_arguments,
)
from llm_proxy.dialects.lenient_json import join_pieces
from llm_proxy.turns import (
    Citation,
    FinishReason,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

KEPT_METADATA: Final = (*STOP_METADATA, *END_METADATA, USAGE)
"""The metadata of a response that Converse can represent."""

_STOP_REASONS: Final = {
    FinishReason.STOP: "end_turn",
    FinishReason.STOP_SEQUENCE: "stop_sequence",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.CONTENT_FILTER: "content_filtered",
    FinishReason.REFUSAL: "refusal",
    FinishReason.CONTEXT_FULL: "model_context_window_exceeded",
    FinishReason.ERROR: "malformed_model_output",
}
_PROVIDER_CALL_METADATA: Final = (("type", "server_tool_use"),)
"""Marks a call that the provider runs itself."""

_MEDIA_FORMATS: Final[Mapping[str, frozenset[str]]] = {
    "image": frozenset(("png", "jpeg", "gif", "webp")),
    "audio": frozenset(
        ("mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a", "mpeg",
         "mpga", "pcm", "webm")
    ),
    "video": frozenset(
        ("mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp")
    ),
}  # fmt: skip
_S3_PREFIX: Final = "s3://"


def capabilities(*, streams: bool) -> Capabilities:
    """The capabilities of Converse, streamed or whole."""
    return Capabilities(
        dialect="bedrock",
        is_streamed=streams,
        finish_by_raw_reason=converse_decoder.FINISH_BY_STOP_REASON,
        raw_reason_by_finish=_STOP_REASONS,
        convert_text=_convert_text,
        convert_reasoning=_convert_reasoning,
        convert_tool_call=_convert_tool_call if streams else _convert_whole_tool_call,
        convert_tool_result=_convert_tool_result,
        convert_media=partial(_convert_media, streams=streams),
        merged_kinds=frozenset(),
        call_id_prefix="tooluse_",
        includes_model=False,
        usage_fields=usage.USAGE_FIELDS,
        required_usage_fields=("input", "output", "total"),
        always_has_usage=True,
        metadata_names=KEPT_METADATA,
        normalize_turn=_normalize_turn,
        convert_failure=partial(errors.with_stream_error_type, known=errors.CONVERSE_EXCEPTIONS)
        if streams
        else errors.with_known_error_type,
        convert_failed_turn=_as_failed_stream,
    )


def _convert_text(text: Text) -> Text:
    return Text(text.text, tuple(map(_convert_citation, text.citations)))


def _convert_citation(citation: Citation) -> Citation:
    """A page or a document; citations apply to the whole block, so there is no span."""
    fields = dict(nonempty_metadata(citation.metadata, CITATION_METADATA))
    if not isinstance(fields.get("location"), dict):
        fields.pop("location", None)
    url = citation.url or converse_decoder.citation_url(fields.get("location"))
    if url != converse_decoder.citation_url(fields.get("location")):
        fields["location"] = {"web": {"url": url}}
    return Citation(
        url,
        citation.title,
        citation.quoted,
        metadata=nonempty_metadata(tuple(fields.items()), CITATION_METADATA),
    )


def _convert_reasoning(reasoning: Reasoning) -> Reasoning:
    """Readable or signed reasoning, else redacted reasoning."""
    if reasoning.text or reasoning.signature or not reasoning.redacted:
        return Reasoning(reasoning.text, reasoning.signature)
    return Reasoning(redacted=_ensure_base64(reasoning.redacted))


def _ensure_base64(redacted: str) -> str:
    """Redacted content must be base64 in this format."""
    return redacted if _is_base64(redacted) else base64.b64encode(redacted.encode()).decode()


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False


def _convert_tool_call(call: ToolCall) -> ToolCall:
    return replace(
        tool_call_with_text_arguments(call),
        metadata=_nondefault_type_metadata(call.metadata, TOOL_USE),
    )


def _convert_whole_tool_call(call: ToolCall) -> ToolCall | None:
    converted = tool_call_with_object_arguments(call)
    return converted and replace(
        converted, metadata=_nondefault_type_metadata(call.metadata, TOOL_USE)
    )


def _nondefault_type_metadata(metadata: Metadata, default_type: str) -> Metadata:
    """The type of a call or a result, if this format has it and it is not the default."""
    kind = dict(metadata).get("type")
    if not isinstance(kind, str) or kind == default_type:
        return ()
    return (("type", kind),) if kind.endswith(default_type.removeprefix("tool")) else ()


def _convert_tool_result(tool_result: ToolResult) -> ToolResult:
    """The result of a provider's tool."""
    return ToolResult(
        join_pieces([tool_result.call_id]),
        join_pieces([tool_result.content]),
        tool_result.name,
        tool_result.failed,
        _nondefault_type_metadata(tool_result.metadata, TOOL_RESULT),
    )


def _convert_media(media: Media, *, streams: bool) -> Media | None:
    """Images, and in a document audio and video, too; inline or in S3.  None for others."""
    kind, _, format_name = media.media_type.partition("/")
    if format_name not in _MEDIA_FORMATS.get(kind, ()) or (streams and kind != "image"):
        return None
    if _is_base64(media.base64):
        return Media(media.media_type, base64=media.base64)
    return Media(media.media_type, url=media.url) if media.url.startswith(_S3_PREFIX) else None


def mark_provider_tool_parts(turn: Turn) -> Turn:
    """The turn with provider tool calls marked as such, and tool results named."""
    return replace(turn, parts=tuple(_with_tool_names(_mark_provider_tool_calls(turn.parts))))


def representable_metadata(fields: Mapping[str, Json]) -> Metadata:
    """The metadata that Converse can represent; of usage, only what `Usage` does not have."""
    usage_field: dict[str, Json] = {
        USAGE: usage.extra_usage_fields(lenient_json.object_fields(fields.get(USAGE)))
    }
    return lenient_json.select_metadata({**fields, **usage_field}, KEPT_METADATA)


def _normalize_turn(turn: Turn) -> Turn:
    """Adds the metrics, and the model that a router chose."""
    turn = mark_provider_tool_parts(turn)
    if turn.failure:
        return turn
    fields = dict(turn.metadata)
    fields["metrics"] = {
        "latencyMs": usage.FAKE_LATENCY_MS,
        **lenient_json.object_fields(fields.get("metrics")),
    }
    metadata = representable_metadata(fields)
    return replace(turn, model=converse_decoder.routed_model(dict(metadata)), metadata=metadata)


def _mark_provider_tool_calls(parts: tuple[Part, ...]) -> Iterator[Part]:
    answered_call_ids = {item.call_id for item in parts if isinstance(item, ToolResult)}
    for part in parts:
        is_unmarked_provider_call = (
            isinstance(part, ToolCall) and part.id in answered_call_ids and not part.metadata
        )
        yield replace(part, metadata=_PROVIDER_CALL_METADATA) if is_unmarked_provider_call else part


def _with_tool_names(parts: Iterable[Part]) -> Iterator[Part]:
    """Results get the names of the calls before them, since the format has no others."""
    tool_names: dict[str, str] = {}
    for part in parts:
        if isinstance(part, ToolCall) and part.name:
            tool_names[part.id] = part.name
        if isinstance(part, ToolResult):
            yield replace(part, name=tool_names.get(part.call_id, ""))
        else:
            yield part


def _as_failed_stream(turn: Turn) -> Turn:
    return replace(turn, usage=None, metadata=())
