"""A chat message as it is told: whole, or in the deltas of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from llm_proxy.dialects.openai.family import Member
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)


@dataclass(frozen=True, slots=True)
class MessageSpeech:
    """Tells messages as one member of the family does."""

    speaker: Member
    cut: Callable[[str], Iterable[str]]

    def whole(self, turn: Turn) -> Document:
        """The message of a turn."""
        message: Document = {"role": "assistant", "content": None, "refusal": None}
        for part in turn.parts:
            for name, value in self._part(part).items():
                message[name] = _with(message.get(name), value)
        if not turn.parts:
            message["content"] = ""
        return message

    def deltas(self, turn: Turn) -> Iterator[Document]:
        """The same in pieces, behind the delta that says who speaks."""
        has_text = not turn.parts or any(isinstance(part, Text) for part in turn.parts)
        yield {"role": "assistant", "content": "" if has_text else None, "refusal": None}
        calls = 0
        for part in turn.parts:
            if isinstance(part, ToolCall) and ("type", "function_call") not in part.metadata:
                yield from self._call_deltas(part, calls)
                calls += 1
            else:
                yield from self._deltas(part)

    def _part(self, part: Part) -> Document:
        """The fields of a message that hold this part."""
        match part:
            case Text():
                cited = [_annotation(it) for it in part.citations]
                return {"content": part.text, **({"annotations": cited} if cited else {})}
            case Reasoning():
                return self._reasoning(part, part.text, last=True)
            case Refusal():
                return {"refusal": part.text}
            case ToolCall():
                return _call(part)
            case Media():
                return _media(part, part.transcript)
            case ToolResult():
                return {}  # none fits

    def _deltas(self, part: Part) -> Iterator[Document]:
        """The same in pieces."""
        match part:
            case Text():
                yield from ({"content": piece} for piece in self.cut(part.text))
                if part.citations:
                    yield {"annotations": [_annotation(it) for it in part.citations]}
            case Reasoning(text=text) if text:
                pieces = list(self.cut(text))
                for at, piece in enumerate(pieces, 1):
                    yield self._reasoning(part, piece, last=at == len(pieces))
            case Refusal():
                yield from ({"refusal": piece} for piece in self.cut(part.text))
            case Media(transcript=said) if said:
                yield _media(part, "")
                yield from ({"audio": {"transcript": piece}} for piece in self.cut(said))
            case _:
                yield self._part(part)

    def _call_deltas(self, call: ToolCall, index: int) -> Iterator[Document]:
        """A call, whose id and name are said once."""
        [begun] = _call(call)["tool_calls"]
        if self.speaker.whole_calls:
            yield {"tool_calls": [{"index": index, **begun}]}
            return
        kind, name = _arguments_of(call)
        function = {**begun[kind], name: ""}
        yield {"tool_calls": [{"index": index, **begun, kind: function}]}
        for piece in self.cut(call.arguments):
            yield {"tool_calls": [{"index": index, kind: {name: piece}}]}

    def _reasoning(self, part: Reasoning, said: str, *, last: bool) -> Document:
        match self.speaker.reasoning:
            case "blocks":
                thought: Document = {"type": "text", "text": said}
                return {"content": [{"type": "thinking", "thinking": [thought]}]}
            case "details":
                return {
                    "reasoning": said or None,
                    "reasoning_details": [_detail(part, said, is_last=last)],
                }
            case name:
                return {name: said}


def _with(there: Json, value: Json) -> Json:
    """A field of a message with what another part says there."""
    match there, value:
        case list(), list():
            return [*there, *value]
        case list(), str():
            return [*there, {"type": "text", "text": value}]
        case str(), str():
            return there + value
        case _:
            return value


def _detail(part: Reasoning, said: str, *, is_last: bool) -> Document:
    """An entry of OpenRouter's details; the seal comes with the last one of a part."""
    beside: Document = dict(part.metadata)
    if part.redacted:
        return {**beside, "data": part.redacted}
    name = "summary" if beside.get("type") == "reasoning.summary" else "text"
    spoken: Document = {**beside, name: said}
    return {**spoken, "signature": part.signature} if is_last and part.signature else spoken


def _arguments_of(call: ToolCall) -> tuple[str, str]:
    """Where a call of this kind keeps its arguments."""
    is_custom = ("type", "custom") in call.metadata
    return ("custom", "input") if is_custom else ("function", "arguments")


def _call(call: ToolCall) -> Document:
    if ("type", "function_call") in call.metadata:
        return {"function_call": {"name": call.name, "arguments": call.arguments}}
    kind, name = _arguments_of(call)
    beside: Document = {key: value for key, value in call.metadata if key != "type"}
    function: Document = {"name": call.name, name: call.arguments}
    return {"tool_calls": [{"id": call.id, "type": kind, kind: function, **beside}]}


def _media(media: Media, transcript: str) -> Document:
    if media.media_type.startswith("audio/"):
        said: Document = {**dict(media.metadata), "data": media.base64, "transcript": transcript}
        return {"audio": said}
    url = f"data:{media.media_type};base64,{media.base64}" if media.base64 else media.url
    return {"images": [{"type": "image_url", "image_url": {"url": url}}]}


def _annotation(cited: Citation) -> Document:
    about: Document = {"url": cited.url, "title": cited.title}
    if cited.quoted:
        about["content"] = cited.quoted
    if cited.span:
        about["start_index"], about["end_index"] = cited.span
    return {"type": "url_citation", "url_citation": about}
