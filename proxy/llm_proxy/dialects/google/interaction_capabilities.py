"""What a `gemini-interactions` response can represent, by kind of step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata
from llm_proxy.dialects.encoding import normalized_object_json
from llm_proxy.dialects.google import errors, interaction_decoder, representable_parts
from llm_proxy.dialects.google.citations import is_valid_span
from llm_proxy.dialects.google.step_decoder import MEDIA_KINDS, MEDIA_METADATA, TOOL_METADATA
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Metadata,
    Part,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

FUNCTION_CALL: Final = "function_call"
CODE_RESULT: Final = "code_execution_result"
URL_CITATION, FILE_CITATION, PLACE_CITATION = "url_citation", "file_citation", "place_citation"

_GOOGLE_TOOLS: Final = (
    *("code_execution", "file_search", "google_maps", "google_search", "processing"),
    *("retrieval", "tool_search", "url_context"),
)
"""The tools that Google runs; `_call` and `_result` follow in the kinds of their steps."""
_MCP_TOOL: Final = "mcp_server_tool"
"""The same for a tool of any other server."""
_SERVER_CALL_KINDS: Final = tuple(f"{tool}_call" for tool in (*_GOOGLE_TOOLS, _MCP_TOOL))
_RESULT_KINDS: Final = (
    *(f"{tool}_result" for tool in (*_GOOGLE_TOOLS, _MCP_TOOL)),
    "function_result",
)
_SERVER_NAME: Final = TOOL_METADATA[0]

_METADATA_OF_CITATION_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    URL_CITATION: (),
    FILE_CITATION: ("custom_metadata", "media_id", "page_number"),
    PLACE_CITATION: ("place_id", "review_snippets"),
}
"""Kind of citation -> its metadata besides the source."""

_RAW_OF_FINISH: Final = {
    **{finish: raw for raw, finish in reversed(interaction_decoder.FINISH_BY_STATUS.items())},
    FinishReason.OTHER: "cancelled",
}
"""The first status of each meaning in `FINISH_BY_STATUS`, and one for `OTHER`."""


def capabilities(*, streams: bool, agent: str) -> Capabilities:
    """What a response can hold; that of an agent names the agent and no model."""
    return Capabilities(
        dialect="gemini-interactions",
        is_streamed=streams,
        finish_by_raw_reason=interaction_decoder.FINISH_BY_STATUS,
        raw_reason_by_finish=_RAW_OF_FINISH,
        convert_text=_convert_text,
        convert_reasoning=representable_parts.representable_reasoning,
        convert_tool_call=partial(_convert_tool_call, streams=streams),
        convert_provider_tool_call=_convert_provider_tool_call,
        awaits_client_predicate=_awaits_client,
        convert_tool_result=_convert_tool_result,
        convert_media=_convert_media,
        merged_kinds=frozenset(),
        id_prefix="v1_",
        includes_model=not agent,
        usage_fields=tuple(interaction_decoder.USAGE_WIRE_NAMES),
        required_usage_fields=("input", "output", "total"),
        metadata_names=interaction_decoder.METADATA_FIELDS,
        normalize_turn=partial(_normalize_turn, agent=agent),
        convert_failure=_convert_failure if streams else errors.with_status_defaults,
    )


def default_tool_name(kind: str) -> str:
    """The name of a tool whose step of this kind has no name."""
    return kind.removesuffix("_call").removesuffix("_result")


def content_kind_of_media(media_type: str) -> str:
    """The kind of content (one of `MEDIA_KINDS`) for media of this MIME type."""
    top_level_type = media_type.partition("/")[0]
    return top_level_type if top_level_type in MEDIA_KINDS else MEDIA_KINDS[-1]


def _convert_text(text: Text) -> Text:
    unique: dict[tuple[object, ...], Citation] = {}
    for citation in filter(
        None, (_convert_citation(citation, text.text) for citation in text.citations)
    ):
        unique.setdefault((citation.url, citation.title, citation.quoted, citation.span), citation)
    return Text(text.text, tuple(unique.values()))


def _convert_citation(citation: Citation, text: str) -> Citation | None:
    """A citation of a page, a file or a place; None where it is empty."""
    kind = dict(citation.metadata).get("type")
    kind = kind if isinstance(kind, str) and kind in _METADATA_OF_CITATION_KIND else URL_CITATION
    metadata = nonempty_metadata(citation.metadata, _METADATA_OF_CITATION_KIND[kind])
    quoted = citation.quoted if kind == FILE_CITATION else ""
    if not (citation.url or citation.title or quoted or metadata):
        return None
    kind_metadata: Metadata = (("type", kind),) if kind != URL_CITATION else ()
    span = citation.span if is_valid_span(citation.span, text) else None
    return Citation(citation.url, citation.title, quoted, span, (*kind_metadata, *metadata))


def _convert_tool_call(call: ToolCall, *, streams: bool) -> ToolCall | None:
    """A call of a client's function, or of a server tool where its metadata has such a kind.

    None where the arguments are not an object; a streamed function call may have any text.
    """
    kind = _metadata_kind(call.metadata, _SERVER_CALL_KINDS)
    metadata = nonempty_metadata(call.metadata, TOOL_METADATA)
    arguments = call.arguments if streams and not kind else normalized_object_json(call.arguments)
    if not arguments:
        return None
    name = call.name or default_tool_name(kind or FUNCTION_CALL)
    if kind == f"{_MCP_TOOL}_call" and _SERVER_NAME not in dict(metadata):
        metadata = ((_SERVER_NAME, name), *metadata)
    kind_metadata: Metadata = (("type", kind),) if kind else ()
    return ToolCall(
        call.id, name, arguments, (*kind_metadata, *nonempty_metadata(metadata, TOOL_METADATA))
    )


def _convert_provider_tool_call(call: ToolCall) -> ToolCall | None:
    """A call that a tool of the provider answered."""
    default_kind = f"{call.name}_call" if call.name in _GOOGLE_TOOLS else f"{_MCP_TOOL}_call"
    kind = _metadata_kind(call.metadata, _SERVER_CALL_KINDS) or default_kind
    fields: dict[str, Json] = {**dict(call.metadata), "type": kind}
    return _convert_tool_call(replace(call, metadata=tuple(fields.items())), streams=False)


def _awaits_client(parts: Sequence[Part]) -> bool:
    """Whether one of the parts is a call that no server tool answers."""
    return any(
        isinstance(part, ToolCall) and not _metadata_kind(part.metadata, _SERVER_CALL_KINDS)
        for part in parts
    )


def _convert_tool_result(result: ToolResult) -> ToolResult:
    default_kind = (
        f"{result.name}_result" if result.name in _GOOGLE_TOOLS else f"{_MCP_TOOL}_result"
    )
    kind = _metadata_kind(result.metadata, _RESULT_KINDS) or default_kind
    metadata = nonempty_metadata(result.metadata, TOOL_METADATA)
    name = result.name or default_tool_name(kind)
    return replace(result, name=name, metadata=(("type", kind), *metadata))


def _convert_media(media: Media) -> Media | None:
    """Media, inline or by reference; None where there is only a transcript."""
    if media.transcript and not (media.base64 or media.url):
        return None
    kind = media.media_type or f"{content_kind_of_media('')}/*"
    return Media(
        kind, media.url, media.base64, metadata=nonempty_metadata(media.metadata, MEDIA_METADATA)
    )


def _normalize_turn(turn: Turn, *, agent: str) -> Turn:
    """The turn with a status that ends an interaction, and with the requested agent."""
    fields: dict[str, Json] = dict(turn.metadata)
    if agent:
        fields["agent"] = fields.get("agent", agent)
    is_running = turn.finish is not None and turn.finish_raw in interaction_decoder.RUNNING_STATUSES
    return replace(
        turn,
        finish_raw=_RAW_OF_FINISH[FinishReason.OTHER] if is_running else turn.finish_raw,
        metadata=nonempty_metadata(tuple(fields.items()), interaction_decoder.METADATA_FIELDS),
    )


def _convert_failure(failure: Failure) -> Failure:
    message = errors.with_status_defaults(failure).message
    return Failure(message, code=failure.type or failure.code or "internal")


def _metadata_kind(metadata: Metadata, kinds: Iterable[str]) -> str:
    """The kind in a part's metadata; empty where it is none of `kinds`."""
    kind = dict(metadata).get("type")
    return kind if isinstance(kind, str) and kind in kinds else ""
