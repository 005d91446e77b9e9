"""Decodes and encodes the requests of chats.

A request is encoded as OpenAI's own SDK sends it.  OpenAI cannot take reasoning back, so that is
left out; a failed tool result is sent as its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage
from llm_proxy.dialects import request_decoding, request_encoding
from llm_proxy.dialects.lenient_json import Fields, get_object, get_objects
from llm_proxy.dialects.openai import chat_messages
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.request_encoding import RESPONSE_FORMAT_NAME
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Media, Part, Refusal, Text, ToolCall, ToolResult

_DIALECT: Final = "openai-chat"
_PATH: Final = "/v1/chat/completions"

_REASONING_SWITCHES: Final = ("reasoning_effort", "reasoning", "thinking", "enable_thinking")
"""Fields that enable reasoning: of OpenAI, OpenRouter, DeepSeek and Qwen."""

_OPTION_NAMES: Final[OptionNames] = {
    "max_tokens": ("max_completion_tokens", "max_tokens"),
    "seed": ("seed",),
    "stop_sequences": ("stop",),
}


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


def encode_request(conversation: Conversation, *, stream: bool) -> Request:
    """The request for the next message.

    Raises `NotRepresentable` for what the format lacks.
    """
    conversation = request_encoding.prepared_conversation(_DIALECT, conversation)
    request_encoding.refuse_stored_state(_DIALECT, conversation)
    body: Document = {"model": conversation.model, "messages": [*_encode_messages(conversation)]}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if conversation.tools:
        body["tools"] = [
            {"type": "function", "function": request_encoding.encode_function(_DIALECT, tool)}
            for tool in conversation.tools
        ]
    match request_encoding.checked_tool_choice(_DIALECT, conversation):
        case ForcedTool(name):
            body["tool_choice"] = {"type": "function", "function": {"name": name}}
        case str() as choice:
            body["tool_choice"] = choice
        case None:
            pass
    body |= request_encoding.encode_options(_DIALECT, conversation, _OPTION_NAMES)
    if conversation.response_schema is not None:
        body["response_format"] = _encode_response_format(conversation)
    return request_encoding.post_request(_DIALECT, _PATH, body, conversation)


def _encode_response_format(conversation: Conversation) -> Document:
    schema = request_encoding.checked_schema(
        _DIALECT, "response_schema", conversation.response_schema
    )
    if not schema:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {"name": RESPONSE_FORMAT_NAME, "schema": schema},
    }


def _encode_messages(conversation: Conversation) -> Iterator[Document]:
    """The messages, with one for each tool result."""
    if system := request_encoding.system_prompt_field(conversation):
        yield {"role": "system", "content": system}
    for message in conversation.messages:
        match message.role:
            case "tool":
                for part in message.parts:
                    if isinstance(part, ToolResult):
                        yield {
                            "role": "tool",
                            "tool_call_id": part.call_id,
                            "content": part.content,
                        }
            case "assistant":
                yield _encode_assistant_message(message)
            case _:
                yield {
                    "role": message.role,
                    "content": request_encoding.text_or_blocks(message.parts, _encode_block),
                }


def _encode_assistant_message(message: RequestMessage) -> Document:
    """The model's message; without text, its content is null if anything else is there."""
    texts = tuple(part for part in message.parts if isinstance(part, Text))
    refusals = [part.text for part in message.parts if isinstance(part, Refusal)]
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    content = (
        request_encoding.text_or_blocks(texts, _encode_block)
        if texts or not (refusals or calls)
        else None
    )
    encoded: Document = {"role": "assistant", "content": content}
    if refusals:
        encoded["refusal"] = "".join(refusals)
    if calls:
        encoded["tool_calls"] = [
            chat_messages.encode_call(call, call.arguments or "{}") for call in calls
        ]
    return encoded


def _encode_block(part: Part) -> Document:
    match part:
        case Media():
            return _encode_media(part)
        case Text(text=text):
            return {"type": "text", "text": text}
        case _:
            raise request_encoding.part_refusal(_DIALECT, part, "user")


def _encode_media(media: Media) -> Document:
    """An image, or a sound or file that is inline."""
    kind, _, subtype = media.media_type.partition("/")
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": request_encoding.data_url(media)}}
    if not (media.base64 and subtype):
        raise request_encoding.media_refusal(_DIALECT, media)
    if kind == "audio":
        audio = {"data": media.base64, "format": request_encoding.audio_format(media)}
        return {"type": "input_audio", "input_audio": audio}
    file = {"filename": f"file.{subtype}", "file_data": request_encoding.data_url(media)}
    return {"type": "file", "file": file}
