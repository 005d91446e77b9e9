"""What an answer of Converse has words for, and one that Nova gives of its own."""

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
from llm_proxy.dialects.capabilities import Vocabulary, call_in_words, call_of_object, kept
from llm_proxy.dialects.lenient_json import joined
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


def vocabulary(*, streams: bool) -> Vocabulary:
    """The words of Converse."""
    return Vocabulary(
        dialect="bedrock",
        streams=streams,
        finishes=converse_decoder.FINISH,
        words=_WORDS,
        text=_text,
        reasoning=_reasoning,
        call=_call if streams else _whole_call,
        result=_result,
        media=partial(_media, streams=streams),
        joined=frozenset(),
        call_prefix="tooluse_",
        names_model=False,
        counts=usage.COUNTS,
        always=("input", "output", "total"),
        counts_always=True,
        keeps=KEEPS,
        arranged=_arranged,
        failure=partial(errors.in_stream, known=errors.IN_CONVERSE) if streams else errors.instead,
        failed=_failed,
    )


def _text(text: Text) -> Text:
    """A text, and what it rests on."""
    return Text(text.text, tuple(map(_citation, text.citations)))


def _citation(cited: Citation) -> Citation:
    """A page or a document; the whole block rests on it, so there is no span."""
    said = dict(kept(cited.metadata, OF_CITATION))
    if not isinstance(said.get("location"), dict):
        said.pop("location", None)
    url = cited.url or converse_decoder.page(said.get("location"))
    if url != converse_decoder.page(said.get("location")):
        said["location"] = {"web": {"url": url}}
    return Citation(url, cited.title, cited.quoted, metadata=kept(tuple(said.items()), OF_CITATION))


def _reasoning(thought: Reasoning) -> Reasoning:
    """A thought that can be read or is signed, or else one that is sealed."""
    if thought.text or thought.signature or not thought.redacted:
        return Reasoning(thought.text, thought.signature)
    return Reasoning(redacted=_in_base64(thought.redacted))


def _in_base64(sealed: str) -> str:
    """What is sealed stands on this wire in base64, and in no other way."""
    return sealed if _is_base64(sealed) else base64.b64encode(sealed.encode()).decode()


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False


def _call(call: ToolCall) -> ToolCall:
    return replace(call_in_words(call), metadata=_type(call.metadata, CALL))


def _whole_call(call: ToolCall) -> ToolCall | None:
    told = call_of_object(call)
    return told and replace(told, metadata=_type(call.metadata, CALL))


def _type(metadata: Metadata, usual: str) -> Metadata:
    """The type of a call or a result, where it is one of this kind and not the usual one."""
    kind = dict(metadata).get("type")
    if not isinstance(kind, str) or kind == usual:
        return ()
    return (("type", kind),) if kind.endswith(usual.removeprefix("tool")) else ()


def _result(given: ToolResult) -> ToolResult:
    """What a tool of the provider's gave back."""
    return ToolResult(
        joined([given.call_id]),
        joined([given.content]),
        given.name,
        given.failed,
        _type(given.metadata, RESULT),
    )


def _media(media: Media, *, streams: bool) -> Media | None:
    """Pictures, and in a document sounds and films too; inline, or in Amazon's store."""
    kind, _, form = media.media_type.partition("/")
    if form not in _FORMATS.get(kind, ()) or (streams and kind != "image"):
        return None
    if _is_base64(media.base64):
        return Media(media.media_type, base64=media.base64)
    return Media(media.media_type, url=media.url) if media.url.startswith(_STORED) else None


def laid_out(turn: Turn) -> Turn:
    """The turn with what its provider's own tools did told as such."""
    return replace(turn, parts=tuple(_named(_provided(turn.parts))))


def with_counts(said: Mapping[str, Json]) -> Metadata:
    """The metadata, with no more beside the usage than can be told there."""
    also: dict[str, Json] = {USAGE: usage.beside(lenient_json.fields(said.get(USAGE)))}
    return lenient_json.metadata({**said, **also}, KEEPS)


def _arranged(turn: Turn) -> Turn:
    """What the end of an answer has, and the model of a router's choice."""
    turn = laid_out(turn)
    if turn.failure:
        return turn
    said = dict(turn.metadata)
    said["metrics"] = {"latencyMs": usage.LATENCY, **lenient_json.fields(said.get("metrics"))}
    about = with_counts(said)
    return replace(turn, model=converse_decoder.routed(dict(about)), metadata=about)


def _provided(parts: tuple[Part, ...]) -> Iterator[Part]:
    """Calls that the provider answered are told as calls of its own tools."""
    answered = {it.call_id for it in parts if isinstance(it, ToolResult)}
    for part in parts:
        is_own = isinstance(part, ToolCall) and part.id in answered and not part.metadata
        yield replace(part, metadata=_OF_SERVER) if is_own else part


def _named(parts: Iterable[Part]) -> Iterator[Part]:
    """Results bear the names of the calls before them, which is all that the wire tells."""
    names: dict[str, str] = {}
    for part in parts:
        if isinstance(part, ToolCall) and part.name:
            names[part.id] = part.name
        if isinstance(part, ToolResult):
            yield replace(part, name=names.get(part.call_id, ""))
        else:
            yield part


def _failed(turn: Turn) -> Turn:
    """What a stream tells before its end."""
    return replace(turn, usage=None, metadata=())
