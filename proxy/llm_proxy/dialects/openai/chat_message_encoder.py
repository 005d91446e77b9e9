"""Encodes a chat message, whole or as deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from llm_proxy.dialects.openai.provider_variants import FamilyMember
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
class ChatMessageEncoder:
    """Tells messages as one member of the family does."""

    member: FamilyMember
    cut: Callable[[str], Iterable[str]]

    def encode_message(self, turn: Turn) -> Document:
        """The message of a turn."""
        message: Document = {"role": "assistant", "content": None, "refusal": None}
        for part in turn.parts:
            for name, value in self._encode_part(part).items():
                message[name] = _append_field(message.get(name), value)
        if not turn.parts:
            message["content"] = ""
        return message

    def encode_deltas(self, turn: Turn) -> Iterator[Document]:
        """The same in pieces, behind the delta that says who speaks."""
        has_text = not turn.parts or any(isinstance(part, Text) for part in turn.parts)
        yield {"role": "assistant", "content": "" if has_text else None, "refusal": None}
        calls = 0
        for part in turn.parts:
            if isinstance(part, ToolCall) and ("type", "function_call") not in part.metadata:
                yield from self._encode_tool_call_deltas(part, calls)
                calls += 1
            else:
                yield from self._encode_part_deltas(part)

    def _encode_part(self, part: Part) -> Document:
        match part:
            case Text():
                cited = [_encode_annotation(citation) for citation in part.citations]
                return {"content": part.text, **({"annotations": cited} if cited else {})}
            case Reasoning():
                return self._encode_reasoning(part, part.text, last=True)
            case Refusal():
                return {"refusal": part.text}
            case ToolCall():
                return _encode_tool_call(part)
            case Media():
                return _encode_media(part, part.transcript)
            case ToolResult():
                return {}  # none fits

    def _encode_part_deltas(self, part: Part) -> Iterator[Document]:
        match part:
            case Text():
                yield from ({"content": piece} for piece in self.cut(part.text))
                if part.citations:
                    yield {
                        "annotations": [_encode_annotation(citation) for citation in part.citations]
                    }
            case Reasoning(text=text) if text:
                pieces = list(self.cut(text))
                for at, piece in enumerate(pieces, 1):
                    yield self._encode_reasoning(part, piece, last=at == len(pieces))
            case Refusal():
                yield from ({"refusal": piece} for piece in self.cut(part.text))
            case Media(transcript=said) if said:
                yield _encode_media(part, "")
                yield from ({"audio": {"transcript": piece}} for piece in self.cut(said))
            case _:
                yield self._encode_part(part)

    def _encode_tool_call_deltas(self, call: ToolCall, index: int) -> Iterator[Document]:
        [begun] = _encode_tool_call(call)["tool_calls"]
        if self.member.sends_whole_tool_calls:
            yield {"tool_calls": [{"index": index, **begun}]}
            return
        kind, name = _arguments_field(call)
        function = {**begun[kind], name: ""}
        yield {"tool_calls": [{"index": index, **begun, kind: function}]}
        for piece in self.cut(call.arguments):
            yield {"tool_calls": [{"index": index, kind: {name: piece}}]}

    def _encode_reasoning(self, part: Reasoning, text: str, *, last: bool) -> Document:
        match self.member.reasoning_field:
            case "blocks":
                thought: Document = {"type": "text", "text": text}
                return {"content": [{"type": "thinking", "thinking": [thought]}]}
            case "details":
                return {
                    "reasoning": text or None,
                    "reasoning_details": [_encode_reasoning_detail(part, text, is_last=last)],
                }
            case name:
                return {name: text}


def _append_field(there: Json, value: Json) -> Json:
    match there, value:
        case list(), list():
            return [*there, *value]
        case list(), str():
            return [*there, {"type": "text", "text": value}]
        case str(), str():
            return there + value
        case _:
            return value


def _encode_reasoning_detail(part: Reasoning, text: str, *, is_last: bool) -> Document:
    """An entry of OpenRouter's details; the seal comes with the last one of a part."""
    document: Document = dict(part.metadata)
    if part.redacted:
        return {**document, "data": part.redacted}
    name = "summary" if document.get("type") == "reasoning.summary" else "text"
    spoken: Document = {**document, name: text}
    return {**spoken, "signature": part.signature} if is_last and part.signature else spoken


def _arguments_field(call: ToolCall) -> tuple[str, str]:
    is_custom = ("type", "custom") in call.metadata
    return ("custom", "input") if is_custom else ("function", "arguments")


def _encode_tool_call(call: ToolCall) -> Document:
    if ("type", "function_call") in call.metadata:
        return {"function_call": {"name": call.name, "arguments": call.arguments}}
    kind, name = _arguments_field(call)
    document: Document = {key: value for key, value in call.metadata if key != "type"}
    function: Document = {"name": call.name, name: call.arguments}
    return {"tool_calls": [{"id": call.id, "type": kind, kind: function, **document}]}


def _encode_media(media: Media, transcript: str) -> Document:
    if media.media_type.startswith("audio/"):
        document: Document = {
            **dict(media.metadata),
            "data": media.base64,
            "transcript": transcript,
        }
        return {"audio": document}
    url = f"data:{media.media_type};base64,{media.base64}" if media.base64 else media.url
    return {"images": [{"type": "image_url", "image_url": {"url": url}}]}


def _encode_annotation(cited: Citation) -> Document:
    document: Document = {"url": cited.url, "title": cited.title}
    if cited.quoted:
        document["content"] = cited.quoted
    if cited.span:
        document["start_index"], document["end_index"] = cited.span
    return {"type": "url_citation", "url_citation": document}
