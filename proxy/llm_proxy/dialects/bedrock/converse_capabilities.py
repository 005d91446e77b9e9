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
    CALL,
    OF_CITATION,
    OF_END,
    OF_STOP,
    RESULT,
    USAGE,
)
from llm_proxy.dialects.capabilities import (
    Capabilities,
    nonempty_metadata,
    object_argument_call,
    text_argument_call,
)
from llm_proxy.dialects.lenient_json import join_pieces
from llm_proxy.turns import (
    Citation,
    Finish,
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

KEEPS: Final = (*OF_STOP, *OF_END, USAGE)
"""The metadata of an answer."""

_WORDS: Final = {
    Finish.STOP: "end_turn",
    Finish.STOP_SEQUENCE: "stop_sequence",
    Finish.LENGTH: "max_tokens",
    Finish.TOOL_CALLS: "tool_use",
    Finish.CONTENT_FILTER: "content_filtered",
    Finish.REFUSAL: "refusal",
    Finish.CONTEXT_FULL: "model_context_window_exceeded",
    Finish.ERROR: "malformed_model_output",
}
_OF_SERVER: Final = (("type", "server_tool_use"),)
"""The type of a call that the provider answers itself."""

_FORMATS: Final[Mapping[str, frozenset[str]]] = {
    "image": frozenset(("png", "jpeg", "gif", "webp")),
    "audio": frozenset(
        ("mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a", "mpeg",
         "mpga", "pcm", "webm")
    ),
    "video": frozenset(
        ("mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp")
    ),
}  # fmt: skip
_STORED: Final = "s3://"
"""How the address of media begins that is not inline."""


def capabilities(*, streams: bool) -> Capabilities:
    """The words of Converse."""
    return Capabilities(
        dialect="bedrock",
        streams=streams,
        finish_of_raw=converse_decoder.FINISH,
        raw_of_finish=_WORDS,
        convert_text=_convert_text,
        convert_reasoning=_convert_reasoning,
        convert_tool_call=_convert_tool_call if streams else _convert_whole_tool_call,
        convert_tool_result=_convert_tool_result,
        convert_media=partial(_convert_media, streams=streams),
        merged_kinds=frozenset(),
        call_id_prefix="tooluse_",
        names_model=False,
        usage_fields=usage.COUNTS,
        required_usage_fields=("input", "output", "total"),
        always_has_usage=True,
        metadata_names=KEEPS,
        arrange=_arrange,
        convert_failure=partial(errors.stream_error_of, known=errors.IN_CONVERSE)
        if streams
        else errors.with_known_type,
        convert_failed_turn=_as_failed_stream,
    )


def _convert_text(text: Text) -> Text:
    return Text(text.text, tuple(map(_convert_citation, text.citations)))


def _convert_citation(cited: Citation) -> Citation:
    """A page or a document; the whole block rests on it, so there is no span."""
    fields = dict(nonempty_metadata(cited.metadata, OF_CITATION))
    if not isinstance(fields.get("location"), dict):
        fields.pop("location", None)
    url = cited.url or converse_decoder.citation_url(fields.get("location"))
    if url != converse_decoder.citation_url(fields.get("location")):
        fields["location"] = {"web": {"url": url}}
    return Citation(
        url,
        cited.title,
        cited.quoted,
        metadata=nonempty_metadata(tuple(fields.items()), OF_CITATION),
    )


def _convert_reasoning(thought: Reasoning) -> Reasoning:
    """A thought that can be read or is signed, or else one that is sealed."""
    if thought.text or thought.signature or not thought.redacted:
        return Reasoning(thought.text, thought.signature)
    return Reasoning(redacted=_ensure_base64(thought.redacted))


def _ensure_base64(sealed: str) -> str:
    """What is sealed stands on this wire in base64, and in no other way."""
    return sealed if _is_base64(sealed) else base64.b64encode(sealed.encode()).decode()


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False


def _convert_tool_call(call: ToolCall) -> ToolCall:
    return replace(text_argument_call(call), metadata=_type_metadata(call.metadata, CALL))


def _convert_whole_tool_call(call: ToolCall) -> ToolCall | None:
    tool_call = object_argument_call(call)
    return tool_call and replace(tool_call, metadata=_type_metadata(call.metadata, CALL))


def _type_metadata(metadata: Metadata, usual: str) -> Metadata:
    """The type of a call or a result, where it is one of this kind and not the usual one."""
    kind = dict(metadata).get("type")
    if not isinstance(kind, str) or kind == usual:
        return ()
    return (("type", kind),) if kind.endswith(usual.removeprefix("tool")) else ()


def _convert_tool_result(tool_result: ToolResult) -> ToolResult:
    """What a tool of the provider's gave back."""
    return ToolResult(
        join_pieces([tool_result.call_id]),
        join_pieces([tool_result.content]),
        tool_result.name,
        tool_result.failed,
        _type_metadata(tool_result.metadata, RESULT),
    )


def _convert_media(media: Media, *, streams: bool) -> Media | None:
    """Pictures, and in a document sounds and films too; inline, or in Amazon's store."""
    kind, _, form = media.media_type.partition("/")
    if form not in _FORMATS.get(kind, ()) or (streams and kind != "image"):
        return None
    if _is_base64(media.base64):
        return Media(media.media_type, base64=media.base64)
    return Media(media.media_type, url=media.url) if media.url.startswith(_STORED) else None


def arrange_provider_tools(turn: Turn) -> Turn:
    """The turn with what its provider's own tools did told as such."""
    return replace(turn, parts=tuple(_with_tool_names(_as_own_tool_calls(turn.parts))))


def limit_usage_metadata(fields: Mapping[str, Json]) -> Metadata:
    """The metadata, with no more beside the usage than can be told there."""
    also: dict[str, Json] = {
        USAGE: usage.extra_usage_fields(lenient_json.object_fields(fields.get(USAGE)))
    }
    return lenient_json.named_metadata({**fields, **also}, KEEPS)


def _arrange(turn: Turn) -> Turn:
    """What the end of an answer has, and the model of a router's choice."""
    turn = arrange_provider_tools(turn)
    if turn.failure:
        return turn
    fields = dict(turn.metadata)
    fields["metrics"] = {
        "latencyMs": usage.LATENCY,
        **lenient_json.object_fields(fields.get("metrics")),
    }
    metadata = limit_usage_metadata(fields)
    return replace(turn, model=converse_decoder.routed_model(dict(metadata)), metadata=metadata)


def _as_own_tool_calls(parts: tuple[Part, ...]) -> Iterator[Part]:
    answered = {item.call_id for item in parts if isinstance(item, ToolResult)}
    for part in parts:
        is_own = isinstance(part, ToolCall) and part.id in answered and not part.metadata
        yield replace(part, metadata=_OF_SERVER) if is_own else part


def _with_tool_names(parts: Iterable[Part]) -> Iterator[Part]:
    """Results bear the names of the calls before them, which is all that the wire tells."""
    names: dict[str, str] = {}
    for part in parts:
        if isinstance(part, ToolCall) and part.name:
            names[part.id] = part.name
        if isinstance(part, ToolResult):
            yield replace(part, name=names.get(part.call_id, ""))
        else:
            yield part


def _as_failed_stream(turn: Turn) -> Turn:
    return replace(turn, usage=None, metadata=())
