"""Encodes a chat message, whole or as deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from llm_proxy.dialects.openai.provider_variants import ProviderVariant
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
    """Encodes chat messages in one provider's variant of the format."""

    variant: ProviderVariant
    text_splitter: Callable[[str], Iterable[str]]

    def encode_message(self, turn: Turn) -> Document:
        """The whole message of a turn."""
        message: Document = {"role": "assistant", "content": None, "refusal": None}
        for part in turn.parts:
            for name, value in self._encode_part(part).items():
                message[name] = _merge_field_values(message.get(name), value)
        if not turn.parts:
            message["content"] = ""
        return message

    def encode_deltas(self, turn: Turn) -> Iterator[Document]:
        """The message of a turn as deltas; the first one holds the role."""
        has_text = not turn.parts or any(isinstance(part, Text) for part in turn.parts)
        yield {"role": "assistant", "content": "" if has_text else None, "refusal": None}
        tool_call_index = 0
        for part in turn.parts:
            if isinstance(part, ToolCall) and ("type", "function_call") not in part.metadata:
                yield from self._encode_tool_call_deltas(part, tool_call_index)
                tool_call_index += 1
            else:
                yield from self._encode_part_deltas(part)

    def _encode_part(self, part: Part) -> Document:
        match part:
            case Text():
                annotations = [_encode_annotation(citation) for citation in part.citations]
                return {
                    "content": part.text,
                    **({"annotations": annotations} if annotations else {}),
                }
            case Reasoning():
                return self._encode_reasoning(part, part.text, is_last=True)
            case Refusal():
                return {"refusal": part.text}
            case ToolCall():
                return _encode_tool_call(part)
            case Media():
                return _encode_media(part, part.transcript)
            case ToolResult():
                return {}  # `convert` drops them

    def _encode_part_deltas(self, part: Part) -> Iterator[Document]:
        match part:
            case Text():
                yield from ({"content": piece} for piece in self.text_splitter(part.text))
                if part.citations:
                    yield {
                        "annotations": [_encode_annotation(citation) for citation in part.citations]
                    }
            case Reasoning(text=text) if text:
                text_pieces = list(self.text_splitter(text))
                for at, piece in enumerate(text_pieces, 1):
                    yield self._encode_reasoning(part, piece, is_last=at == len(text_pieces))
            case Refusal():
                yield from ({"refusal": piece} for piece in self.text_splitter(part.text))
            case Media(transcript=transcript) if transcript:
                yield _encode_media(part, "")
                yield from (
                    {"audio": {"transcript": piece}} for piece in self.text_splitter(transcript)
                )
            case _:
                yield self._encode_part(part)

    def _encode_tool_call_deltas(self, call: ToolCall, index: int) -> Iterator[Document]:
        [tool_call] = _encode_tool_call(call)["tool_calls"]
        if self.variant.sends_whole_tool_calls:
            yield {"tool_calls": [{"index": index, **tool_call}]}
            return
        kind, arguments_field = _call_type_and_arguments_field(call)
        function = {**tool_call[kind], arguments_field: ""}
        yield {"tool_calls": [{"index": index, **tool_call, kind: function}]}
        for piece in self.text_splitter(call.arguments):
            yield {"tool_calls": [{"index": index, kind: {arguments_field: piece}}]}

    def _encode_reasoning(self, part: Reasoning, text: str, *, is_last: bool) -> Document:
        match self.variant.reasoning_field:
            case "blocks":
                text_block: Document = {"type": "text", "text": text}
                return {"content": [{"type": "thinking", "thinking": [text_block]}]}
            case "details":
                return {
                    "reasoning": text or None,
                    "reasoning_details": [_encode_reasoning_detail(part, text, is_last=is_last)],
                }
            case name:
                return {name: text}


def _merge_field_values(existing: Json, value: Json) -> Json:
    match existing, value:
        case list(), list():
            return [*existing, *value]
        case list(), str():
            return [*existing, {"type": "text", "text": value}]
        case str(), str():
            return existing + value
        case _:
            return value


def _encode_reasoning_detail(part: Reasoning, text: str, *, is_last: bool) -> Document:
    """An entry of `reasoning_details` (OpenRouter); a part's last one has the signature."""
    document: Document = dict(part.metadata)
    if part.redacted:
        return {**document, "data": part.redacted}
    text_field = "summary" if document.get("type") == "reasoning.summary" else "text"
    detail: Document = {**document, text_field: text}
    return {**detail, "signature": part.signature} if is_last and part.signature else detail


def _call_type_and_arguments_field(call: ToolCall) -> tuple[str, str]:
    is_custom = ("type", "custom") in call.metadata
    return ("custom", "input") if is_custom else ("function", "arguments")


def _encode_tool_call(call: ToolCall) -> Document:
    if ("type", "function_call") in call.metadata:
        return {"function_call": {"name": call.name, "arguments": call.arguments}}
    kind, arguments_field = _call_type_and_arguments_field(call)
    document: Document = {key: value for key, value in call.metadata if key != "type"}
    function: Document = {"name": call.name, arguments_field: call.arguments}
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


def _encode_annotation(citation: Citation) -> Document:
    document: Document = {"url": citation.url, "title": citation.title}
    if citation.quoted:
        document["content"] = citation.quoted
    if citation.span:
        document["start_index"], document["end_index"] = citation.span
    return {"type": "url_citation", "url_citation": document}
