"""Decodes and encodes the requests of chats.

A request is encoded as OpenAI's own SDK sends it, or as the provider's whose variant it is.  OpenAI
cannot take reasoning back, so that is left out; a failed tool result is sent as its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage, ToolDefinition
from llm_proxy.dialects import request_decoding, request_encoding
from llm_proxy.dialects.lenient_json import Fields, get_object, get_objects
from llm_proxy.dialects.openai import chat_messages
from llm_proxy.dialects.openai.chat_request_variants import (
    OPENAI_REQUESTS,
    RequestVariant,
    request_variant,
)
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.request_encoding import RESPONSE_FORMAT_NAME
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Json, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

_DIALECT: Final = "openai-chat"

_REASONING_SWITCHES: Final = ("reasoning_effort", "reasoning", "thinking", "enable_thinking")
"""Fields that enable reasoning: of OpenAI, OpenRouter, DeepSeek and Qwen."""

_OPTION_NAMES: Final[OptionNames] = {
    "max_tokens": ("max_completion_tokens", "max_tokens"),
    "top_k": ("top_k",),
    "repeat_penalty": ("repetition_penalty", "repeat_penalty"),
    "seed": ("seed", "random_seed"),
    "stop_sequences": ("stop",),
}
"""The names of all providers."""


def decode_request(body: Fields) -> Conversation:
    """The conversation in the body of a request."""
    response_format = get_object(body, "response_format")
    json_schema = get_object(response_format, "json_schema")
    return replace(
        request_decoding.conversation(_decode_messages(body), body),
        tools=(
            *request_decoding.decode_function_tools(body.get("tools")),
            *request_decoding.decode_function_tools(body.get("functions")),
        ),
        tool_choice=request_decoding.decode_tool_choice(
            body.get("tool_choice") or body.get("function_call")
        ),
        reasoning_enabled=any(
            request_decoding.is_reasoning_enabled(body.get(name)) for name in _REASONING_SWITCHES
        ),
        response_schema=request_decoding.response_schema(
            response_format, json_schema.get("schema"), response_format.get("schema")
        ),
        **request_decoding.decode_options(body, _OPTION_NAMES),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    """The messages of a request; the result of a legacy function has a name but no call ID."""
    for message in get_objects(body, "messages"):
        role = request_decoding.decode_role(message.get("role"))
        if role == "tool":
            result = ToolResult(
                request_decoding.text_or_empty(message.get("tool_call_id")),
                request_decoding.tool_output_text(message.get("content")),
                request_decoding.text_or_empty(message.get("name")),
            )
            yield request_decoding.request_message(role, [result])
        elif role is not None:
            yield request_decoding.request_message(role, chat_messages.decode_parts(message))


def encode_request(conversation: Conversation, *, stream: bool, provider: str) -> Request:
    """The request for the next message, in the variant of this provider.

    Raises `NotRepresentable` for what the format lacks.
    """
    variant = request_variant(provider)
    name = _DIALECT if variant is OPENAI_REQUESTS else f"{_DIALECT} of {provider}"
    return _RequestEncoder(name, variant).encode_request(conversation, stream=stream)


@dataclass(frozen=True, slots=True)
class _RequestEncoder:
    """Encodes requests in one provider's variant of the format."""

    dialect: str
    """What error messages call it."""
    variant: RequestVariant

    def encode_request(self, conversation: Conversation, *, stream: bool) -> Request:
        conversation = request_encoding.prepared_conversation(self.dialect, conversation)
        request_encoding.refuse_stored_state(self.dialect, conversation)
        body: Document = {
            "model": conversation.model,
            "messages": [*self._encode_messages(conversation)],
        }
        if stream or self.variant.always_has_stream:
            body["stream"] = stream
        if stream and self.variant.has_stream_options:
            body["stream_options"] = {"include_usage": True}
        if conversation.tools:
            body["tools"] = [*map(self._encode_tool, conversation.tools)]
        if choice := self._encode_tool_choice(conversation):
            body["tool_choice"] = choice
        body |= request_encoding.encode_options(
            self.dialect, conversation, self.variant.option_names
        )
        if conversation.response_schema is not None:
            body["response_format"] = self._encode_response_format(conversation)
        return request_encoding.post_request(self.dialect, self.variant.path, body, conversation)

    def _encode_tool(self, tool: ToolDefinition) -> Document:
        function = request_encoding.encode_function(self.dialect, tool)
        if self.variant.requires_parameters:
            function.setdefault("parameters", {})
        return {"type": "function", "function": function}

    def _encode_tool_choice(self, conversation: Conversation) -> Json:
        match request_encoding.checked_tool_choice(self.dialect, conversation):
            case ForcedTool(name) if self.variant.has_forced_tools:
                return {"type": "function", "function": {"name": name}}
            case ForcedTool(name):
                raise request_encoding.refusal(self.dialect, f"the choice of the tool {name}")
            case "required":
                return self.variant.required_choice
            case choice:
                return choice

    def _encode_response_format(self, conversation: Conversation) -> Document:
        schema = request_encoding.checked_schema(
            self.dialect, "response_schema", conversation.response_schema
        )
        if not schema:
            return {"type": "json_object"}
        if not self.variant.has_response_schemas:
            raise request_encoding.refusal(self.dialect, "a response_schema that is not empty")
        return {
            "type": "json_schema",
            "json_schema": {"name": RESPONSE_FORMAT_NAME, "schema": schema},
        }

    def _encode_messages(self, conversation: Conversation) -> Iterator[Document]:
        """The messages, with one for each tool result."""
        if system := request_encoding.system_prompt_field(conversation):
            yield {"role": "system", "content": system}
        last_role = ""
        for position, message in enumerate(conversation.messages, 1):
            is_last = position == len(conversation.messages)
            match message.role:
                case "tool":
                    for part in message.parts:
                        if isinstance(part, ToolResult):
                            yield self._encode_result(part)
                case "assistant":
                    yield self._encode_assistant_message(message.parts, is_last=is_last)
                case _:
                    if last_role == "tool" and (text := self.variant.text_after_results):
                        yield self._encode_assistant_message((Text(text),), is_last=False)
                    yield {
                        "role": message.role,
                        "content": request_encoding.text_or_blocks(
                            message.parts, self._encode_block
                        ),
                    }
            last_role = message.role

    def _encode_result(self, result: ToolResult) -> Document:
        encoded: Document = {
            "role": "tool",
            "tool_call_id": self.variant.encode_call_id(result.call_id),
            "content": result.content,
        }
        if self.variant.has_result_names and result.name:
            encoded["name"] = result.name
        return encoded

    def _encode_assistant_message(self, parts: Sequence[Part], *, is_last: bool) -> Document:
        """The model's message; without text, its content is null if anything else is there."""
        if not self.variant.has_refusals:
            parts = [Text(part.text) if isinstance(part, Refusal) else part for part in parts]
        refusals = [part.text for part in parts if isinstance(part, Refusal)]
        calls = [part for part in parts if isinstance(part, ToolCall)]
        content = self._encode_content(parts)
        encoded: Document = {
            "role": "assistant",
            "content": content or (None if refusals or calls else ""),
        }
        if refusals:
            encoded["refusal"] = "".join(refusals)
        encoded |= self._encode_reasoning(
            [part for part in parts if isinstance(part, Reasoning)], has_calls=bool(calls)
        )
        if calls:
            encoded["tool_calls"] = [
                chat_messages.encode_call(
                    replace(call, id=self.variant.encode_call_id(call.id)), call.arguments or "{}"
                )
                for call in calls
            ]
        if self.variant.has_prefixes:
            encoded["prefix"] = is_last and not calls
        return encoded

    def _encode_content(self, parts: Sequence[Part]) -> str | list[Document]:
        """The text of the model's message, after the reasoning if that is in blocks of its own."""
        content: list[Part] = [part for part in parts if isinstance(part, Text)]
        if self.variant.reasoning_field == "blocks":
            content[:0] = [
                part
                for part in parts
                if isinstance(part, Reasoning) and chat_messages.fits_block(part)
            ]
        return request_encoding.text_or_blocks(content, self._encode_block)

    def _encode_reasoning(self, parts: Sequence[Reasoning], *, has_calls: bool) -> Document:
        """The fields with the reasoning of the model's message; what is only encrypted has none."""
        match self.variant.reasoning_field:
            case "" | "blocks":
                return {}
            case "details":
                details = [part for part in parts if chat_messages.is_reasoning_detail(part)]
                text = "".join(part.text for part in parts if part not in details)
                fields: Document = {"reasoning": text} if text else {}
                if details:
                    fields["reasoning_details"] = [*map(chat_messages.encode_detail, details)]
                return fields
            case name:
                text = "".join(part.text for part in parts)
                is_required = has_calls and self.variant.requires_reasoning_with_calls
                return {name: text} if text or is_required else {}

    def _encode_block(self, part: Part) -> Document:
        match part:
            case Media():
                return self._encode_media(part)
            case Text(text=text):
                return {"type": "text", "text": text}
            case Reasoning():
                return chat_messages.encode_thinking_block(part)
            case _:
                raise request_encoding.part_refusal(self.dialect, part, "user")

    def _encode_media(self, media: Media) -> Document:
        encoders = self.variant.media_encoders
        kind = media.media_type.partition("/")[0]
        if kind not in ("image", "audio") and kind not in encoders:
            kind = "file"
        encoder = encoders.get(kind)
        if encoder is None or (encoded := encoder(media)) is None:
            raise request_encoding.media_refusal(self.dialect, media)
        return encoded
