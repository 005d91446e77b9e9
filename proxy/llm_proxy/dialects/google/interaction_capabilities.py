"""What a `gemini-interactions` response can represent, by kind of step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects.capabilities import Capabilities, nonempty_metadata, normalized_object_text
from llm_proxy.dialects.google import errors, interaction_decoder, part_conversion
from llm_proxy.dialects.google.citations import is_valid_span
from llm_proxy.dialects.google.step_decoder import MEDIA, OF_CALL, OF_MEDIA
from llm_proxy.turns import (
    Citation,
    Failure,
    Finish,
    Json,
    Media,
    Metadata,
    Part,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

FUNCTION: Final = "function_call"
CODE_RESULT: Final = "code_execution_result"
URL, FILE, PLACE = "url_citation", "file_citation", "place_citation"

_OWN: Final = (
    *("code_execution", "file_search", "google_maps", "google_search", "processing"),
    *("retrieval", "tool_search", "url_context"),
)
"""The tools that Google runs, by the beginning of their steps' kinds."""
_OTHERS: Final = "mcp_server_tool"
"""How a tool of any other server begins."""
_CALLS: Final = tuple(f"{content}_call" for content in (*_OWN, _OTHERS))
_RESULTS: Final = (*(f"{content}_result" for content in (*_OWN, _OTHERS)), "function_result")
_SERVER: Final = OF_CALL[0]

_OF_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    URL: (),
    FILE: ("custom_metadata", "media_id", "page_number"),
    PLACE: ("place_id", "review_snippets"),
}
"""What each kind of citation says beside its source."""

_WORDS: Final = {
    **{finish: word for word, finish in reversed(interaction_decoder.FINISH.items())},
    Finish.OTHER: "cancelled",
}
"""The first status of each meaning, and one that has none."""


def capabilities(*, streams: bool, agent: str) -> Capabilities:
    """The words of an answer; one of an agent names it, and no model."""
    return Capabilities(
        dialect="gemini-interactions",
        streams=streams,
        finish_of_raw=interaction_decoder.FINISH,
        raw_of_finish=_WORDS,
        convert_text=_convert_text,
        convert_reasoning=part_conversion.convert_reasoning,
        convert_tool_call=partial(_convert_tool_call, streams=streams),
        convert_provider_tool_call=_convert_provider_tool_call,
        awaits_client=_awaits_client,
        convert_tool_result=_convert_tool_result,
        convert_media=_convert_media,
        merged_kinds=frozenset(),
        id_prefix="v1_",
        names_model=not agent,
        usage_fields=tuple(interaction_decoder.COUNTS),
        required_usage_fields=("input", "output", "total"),
        metadata_names=interaction_decoder.METADATA,
        arrange=partial(_arrange, agent=agent),
        convert_failure=_convert_failure if streams else errors.with_status_defaults,
    )


def default_tool_name(kind: str) -> str:
    """The name of a tool whose step says none."""
    return kind.removesuffix("_call").removesuffix("_result")


def content_type_of_media(media_type: str) -> str:
    """The kind of content that holds media of this type."""
    front = media_type.partition("/")[0]
    return front if front in MEDIA else MEDIA[-1]


def _convert_text(text: Text) -> Text:
    once: dict[tuple[object, ...], Citation] = {}
    for citation in filter(
        None, (_convert_citation(citation, text.text) for citation in text.citations)
    ):
        once.setdefault((citation.url, citation.title, citation.quoted, citation.span), citation)
    return Text(text.text, tuple(once.values()))


def _convert_citation(citation: Citation, text: str) -> Citation | None:
    """A page, a file or a place; None where it says nothing."""
    kind = dict(citation.metadata).get("type")
    kind = kind if isinstance(kind, str) and kind in _OF_KIND else URL
    rest = nonempty_metadata(citation.metadata, _OF_KIND[kind])
    quoted = citation.quoted if kind == FILE else ""
    if not (citation.url or citation.title or quoted or rest):
        return None
    marked: Metadata = (("type", kind),) if kind != URL else ()
    span = citation.span if is_valid_span(citation.span, text) else None
    return Citation(citation.url, citation.title, quoted, span, (*marked, *rest))


def _convert_tool_call(call: ToolCall, *, streams: bool) -> ToolCall | None:
    """A call of the client's function, or of a marked tool, which takes an object."""
    kind = _marked_kind(call.metadata, _CALLS)
    metadata = nonempty_metadata(call.metadata, OF_CALL)
    arguments = call.arguments if streams and not kind else normalized_object_text(call.arguments)
    if not arguments:
        return None
    name = call.name or default_tool_name(kind or FUNCTION)
    if kind == f"{_OTHERS}_call" and _SERVER not in dict(metadata):
        metadata = ((_SERVER, name), *metadata)
    marked: Metadata = (("type", kind),) if kind else ()
    return ToolCall(call.id, name, arguments, (*marked, *nonempty_metadata(metadata, OF_CALL)))


def _convert_provider_tool_call(call: ToolCall) -> ToolCall | None:
    """A call that the provider's own tool answered."""
    own = f"{call.name}_call" if call.name in _OWN else f"{_OTHERS}_call"
    kind = _marked_kind(call.metadata, _CALLS) or own
    fields: dict[str, Json] = {**dict(call.metadata), "type": kind}
    return _convert_tool_call(replace(call, metadata=tuple(fields.items())), streams=False)


def _awaits_client(parts: Sequence[Part]) -> bool:
    """Whether one of the parts is a call of a tool that is not Google's own."""
    return any(
        isinstance(part, ToolCall) and not _marked_kind(part.metadata, _CALLS) for part in parts
    )


def _convert_tool_result(result: ToolResult) -> ToolResult:
    own = f"{result.name}_result" if result.name in _OWN else f"{_OTHERS}_result"
    kind = _marked_kind(result.metadata, _RESULTS) or own
    metadata = nonempty_metadata(result.metadata, OF_CALL)
    name = result.name or default_tool_name(kind)
    return replace(result, name=name, metadata=(("type", kind), *metadata))


def _convert_media(media: Media) -> Media | None:
    """Inline, or by reference; None where there is but a transcript."""
    if media.transcript and not (media.base64 or media.url):
        return None
    kind = media.media_type or f"{content_type_of_media('')}/*"
    return Media(
        kind, media.url, media.base64, metadata=nonempty_metadata(media.metadata, OF_MEDIA)
    )


def _arrange(turn: Turn, *, agent: str) -> Turn:
    """A status that ends an interaction; the agent that was asked."""
    fields: dict[str, Json] = dict(turn.metadata)
    if agent:
        fields["agent"] = fields.get("agent", agent)
    runs = turn.finish is not None and turn.finish_raw in interaction_decoder.RUNNING
    return replace(
        turn,
        finish_raw=_WORDS[Finish.OTHER] if runs else turn.finish_raw,
        metadata=nonempty_metadata(tuple(fields.items()), interaction_decoder.METADATA),
    )


def _convert_failure(failure: Failure) -> Failure:
    message = errors.with_status_defaults(failure).message
    return Failure(message, code=failure.type or failure.code or "internal")


def _marked_kind(metadata: Metadata, kinds: Iterable[str]) -> str:
    """The kind that a part is marked with; empty where it is none of these."""
    kind = dict(metadata).get("type")
    return kind if isinstance(kind, str) and kind in kinds else ""
