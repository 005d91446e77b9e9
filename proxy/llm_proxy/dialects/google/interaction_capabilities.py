"""What an answer of `gemini-interactions` has words for: a lens for each kind of step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from llm_proxy.dialects.capabilities import Vocabulary, as_object, kept
from llm_proxy.dialects.google import errors, interaction_decoder, part_capabilities
from llm_proxy.dialects.google.citations import is_span
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
_CALLS: Final = tuple(f"{it}_call" for it in (*_OWN, _OTHERS))
_RESULTS: Final = (*(f"{it}_result" for it in (*_OWN, _OTHERS)), "function_result")
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


def vocabulary(*, streams: bool, agent: str) -> Vocabulary:
    """The words of an answer; one of an agent names it, and no model."""
    return Vocabulary(
        dialect="gemini-interactions",
        streams=streams,
        finishes=interaction_decoder.FINISH,
        words=_WORDS,
        text=_text,
        reasoning=part_capabilities.reasoning,
        call=partial(_call, streams=streams),
        provided=_provided,
        waits=_waits,
        result=_result,
        media=_media,
        joined=frozenset(),
        id_prefix="v1_",
        names_model=not agent,
        counts=tuple(interaction_decoder.COUNTS),
        always=("input", "output", "total"),
        keeps=interaction_decoder.METADATA,
        arranged=partial(_arranged, agent=agent),
        failure=_failure if streams else errors.filled,
    )


def bare_name(kind: str) -> str:
    """The name of a tool whose step says none."""
    return kind.removesuffix("_call").removesuffix("_result")


def media_kind(media_type: str) -> str:
    """The kind of content that holds media of this type."""
    front = media_type.partition("/")[0]
    return front if front in MEDIA else MEDIA[-1]


def _text(text: Text) -> Text:
    """Words, and each of their citations once."""
    once: dict[tuple[object, ...], Citation] = {}
    for it in filter(None, (_citation(it, text.text) for it in text.citations)):
        once.setdefault((it.url, it.title, it.quoted, it.span), it)
    return Text(text.text, tuple(once.values()))


def _citation(it: Citation, text: str) -> Citation | None:
    """A page, a file or a place; None where it says nothing."""
    kind = dict(it.metadata).get("type")
    kind = kind if isinstance(kind, str) and kind in _OF_KIND else URL
    rest = kept(it.metadata, _OF_KIND[kind])
    quoted = it.quoted if kind == FILE else ""
    if not (it.url or it.title or quoted or rest):
        return None
    marked: Metadata = (("type", kind),) if kind != URL else ()
    span = it.span if is_span(it.span, text) else None
    return Citation(it.url, it.title, quoted, span, (*marked, *rest))


def _call(call: ToolCall, *, streams: bool) -> ToolCall | None:
    """A call of the client's function, or of a marked tool, which takes an object."""
    kind = _kind(call.metadata, _CALLS)
    beside = kept(call.metadata, OF_CALL)
    arguments = call.arguments if streams and not kind else as_object(call.arguments)
    if not arguments:
        return None
    name = call.name or bare_name(kind or FUNCTION)
    if kind == f"{_OTHERS}_call" and _SERVER not in dict(beside):
        beside = ((_SERVER, name), *beside)
    marked: Metadata = (("type", kind),) if kind else ()
    return ToolCall(call.id, name, arguments, (*marked, *kept(beside, OF_CALL)))


def _provided(call: ToolCall) -> ToolCall | None:
    """A call that the provider's own tool answered."""
    own = f"{call.name}_call" if call.name in _OWN else f"{_OTHERS}_call"
    kind = _kind(call.metadata, _CALLS) or own
    about: dict[str, Json] = {**dict(call.metadata), "type": kind}
    return _call(replace(call, metadata=tuple(about.items())), streams=False)


def _waits(parts: Sequence[Part]) -> bool:
    """Whether one of the parts is a call of a tool that is not Google's own."""
    return any(isinstance(it, ToolCall) and not _kind(it.metadata, _CALLS) for it in parts)


def _result(result: ToolResult) -> ToolResult:
    """What a tool gave, under the kind that goes with its call."""
    own = f"{result.name}_result" if result.name in _OWN else f"{_OTHERS}_result"
    kind = _kind(result.metadata, _RESULTS) or own
    beside = kept(result.metadata, OF_CALL)
    name = result.name or bare_name(kind)
    return replace(result, name=name, metadata=(("type", kind), *beside))


def _media(media: Media) -> Media | None:
    """Inline, or by reference; None where there is but a transcript."""
    if media.transcript and not (media.base64 or media.url):
        return None
    kind = media.media_type or f"{media_kind('')}/*"
    return Media(kind, media.url, media.base64, metadata=kept(media.metadata, OF_MEDIA))


def _arranged(turn: Turn, *, agent: str) -> Turn:
    """A status that ends an interaction; the agent that was asked."""
    about: dict[str, Json] = dict(turn.metadata)
    if agent:
        about["agent"] = about.get("agent", agent)
    runs = turn.finish is not None and turn.finish_raw in interaction_decoder.RUNNING
    return replace(
        turn,
        finish_raw=_WORDS[Finish.OTHER] if runs else turn.finish_raw,
        metadata=kept(tuple(about.items()), interaction_decoder.METADATA),
    )


def _failure(failure: Failure) -> Failure:
    """An error amid a stream has a code, and no status."""
    message = errors.filled(failure).message
    return Failure(message, code=failure.type or failure.code or "internal")


def _kind(metadata: Metadata, kinds: Iterable[str]) -> str:
    """The kind that a part is marked with; empty where it is none of these."""
    kind = dict(metadata).get("type")
    return kind if isinstance(kind, str) and kind in kinds else ""
