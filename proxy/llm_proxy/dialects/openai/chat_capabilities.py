"""What an answer of `openai-chat` has words for, by who speaks and what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llm_proxy.dialects.capabilities import Vocabulary, bare, call_in_words, kept, thought, worded
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import choices_decoder, errors
from llm_proxy.dialects.openai.choices_encoder import Asked, asked, failed, has_usage
from llm_proxy.dialects.openai.family import Member
from llm_proxy.errors import CannotSay
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
class ChatAsked(Asked):
    """What a request asks of the manner of its answer."""

    legacy: bool
    """Whether the client knows functions, and no tools."""


def chat_asked(body: Fields) -> ChatAsked:
    """What the body of a request asks for."""
    it = asked(body)
    return ChatAsked(it.stream, it.usage, bool(body.get("functions")) and not body.get("tools"))


def vocabulary(manner: ChatAsked, speaker: Member, turns: Sequence[Turn] = ()) -> Vocabulary:
    """The words of this member of the family for such a request, and these turns.

    Who refuses in words stops: at `content_filter`, OpenAI's own client raises.
    """
    refuses = any(isinstance(part, Refusal) for turn in turns for part in turn.parts)
    counts = has_usage(manner, speaker)
    detailed = speaker.reasoning == "details"
    return Vocabulary(
        dialect="openai-chat",
        streams=manner.stream,
        finishes=choices_decoder.FINISH,
        words={**(_LEGACY if manner.legacy else _WORDS), **(_REFUSED if refuses else {})},
        text=_text,
        reasoning=_detail if detailed else thought,
        refusal=bare,
        call=_function if manner.legacy else _call,
        media=_media,
        joined=frozenset((Text, Refusal) if detailed else (Text, Refusal, Reasoning)),
        order=() if manner.stream else _order(manner),
        id_prefix="chatcmpl-",
        counts=_COUNTS if counts else (),
        always=("input", "output", "total") if counts else (),
        counts_always=counts,
        keeps=(
            *choices_decoder.OF_CHUNK,
            *choices_decoder.OF_CHOICE,
            *OF_MESSAGE,
            choices_decoder.LOGPROBS,
        ),
        shared=choices_decoder.OF_CHUNK,
        choices=True,
        successive=manner.stream,
        arranged=_arranged if manner.stream else _sounds_first,
        failure=worded if manner.stream else partial(errors.instead, speaker=speaker),
        failed=failed,
    )


def _order(manner: ChatAsked) -> tuple[type[Part], ...]:
    """The order in which the fields of a message are read."""
    last: tuple[type[Part], ...] = (ToolCall, Media) if manner.legacy else (Media, ToolCall)
    return (Reasoning, Text, Refusal, *last)


def _text(text: Text) -> Text:
    """Citations are of pages; no words, no citations."""
    return Text(text.text, tuple(map(_citation, text.citations)) if text.text else ())


def _citation(cited: Citation) -> Citation:
    span = cited.span if cited.span and cited.span[0] < cited.span[1] else None
    return Citation(cited.url, cited.title, cited.quoted, span)


def _detail(reasoning: Reasoning) -> Reasoning:
    """Reasoning as OpenRouter details it: readable, summarised or sealed."""
    kind = "reasoning.encrypted" if reasoning.redacted else "reasoning.text"
    beside = {"type": kind, **dict(kept(reasoning.metadata, _OF_DETAIL))}
    if reasoning.redacted:
        return Reasoning(redacted=reasoning.redacted, metadata=tuple(beside.items()))
    return Reasoning(reasoning.text, reasoning.signature, metadata=tuple(beside.items()))


def _call(call: ToolCall) -> ToolCall:
    """A call of a function, or of a tool that takes plain text; with what Gemini seals."""
    names = ("type", *OF_MESSAGE) if ("type", "custom") in call.metadata else OF_MESSAGE
    return replace(call_in_words(call), metadata=kept(call.metadata, names))


def _function(call: ToolCall) -> ToolCall:
    """A call as clients knew it before there were tools."""
    return ToolCall("", call.name, call.arguments, (("type", "function_call"),))


def _media(media: Media) -> Media | None:
    """Speech, and images."""
    if media.media_type.startswith("audio/"):
        beside = kept(media.metadata, ("id", "expires_at"))
        return Media("audio/*", base64=media.base64, transcript=media.transcript, metadata=beside)
    if media.media_type.startswith("image/") and media.base64:
        return Media(media.media_type, base64=media.base64)
    return Media("image/*", url=media.url) if media.url else None


def _arranged(turn: Turn) -> Turn:
    """What comes once at most does; each detail of reasoning has a number of its own."""
    legacy = [it for it in turn.parts if ("type", "function_call") in getattr(it, "metadata", ())]
    spoken = [it for it in turn.parts if _is_sound(it)]
    if len(legacy) > 1 or len(spoken) > 1:
        raise CannotSay("openai-chat says one function call, and one sound, in a message")
    parts = [_numbered(part, at) for at, part in enumerate(turn.parts)]
    return choices_decoder.with_logprobs(replace(turn, parts=tuple(parts)))


def _sounds_first(turn: Turn) -> Turn:
    """A message has its sound before its images."""
    at = [at for at, part in enumerate(turn.parts) if isinstance(part, Media)]
    parts = list(turn.parts)
    media = sorted((parts[it] for it in at), key=lambda it: not _is_sound(it))
    for position, part in zip(at, media, strict=True):
        parts[position] = part
    return _arranged(replace(turn, parts=tuple(parts)))


def _is_sound(part: Part) -> bool:
    return isinstance(part, Media) and part.media_type == "audio/*"


def _numbered(part: Part, at: int) -> Part:
    """A detail of reasoning with its number."""
    if not isinstance(part, Reasoning) or "type" not in dict(part.metadata):
        return part
    said: dict[str, Json] = {**dict(part.metadata), "index": at}
    return replace(part, metadata=kept(tuple(said.items()), _OF_DETAIL))
