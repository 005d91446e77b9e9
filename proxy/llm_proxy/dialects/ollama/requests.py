"""Decodes the requests of Ollama's chats and completions, and encodes those of chats.

A text of several parts is one string; a refusal of the model is sent as text.  Ollama has no tool
choice: `auto` is its default, and with `none` no tools are sent.  It has no field for a failed tool
result, nor for encrypted reasoning and signatures, which are left out.

Calls and results have ids if the conversation has them.  Ollama's own SDK drops them, and old
servers ignore them: there a result belongs to the call of its `tool_name`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage
from llm_proxy.dialects import encoding, request_decoding, request_encoding
from llm_proxy.dialects.encoding import normalized_object_json
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_items,
    get_object,
    get_objects,
    get_string,
    parse_json,
    str_or_empty,
)
from llm_proxy.dialects.ollama import chat
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Json, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

_DIALECT: Final = "ollama"

_OPTION_NAMES: Final[OptionNames] = {
    "max_tokens": ("num_predict",),
    "top_k": ("top_k",),
    "repeat_penalty": ("repeat_penalty",),
    "seed": ("seed",),
    "stop_sequences": ("stop",),
}


def decode_request(path: str, body: Fields) -> Conversation:
    """The conversation of a chat; or of a completion, which is one message of the user."""
    options, response_format = get_object(body, "options"), body.get("format")
    if path == chat.CHAT:
        conversation = request_decoding.conversation(_decode_messages(body), options)
    else:
        prompt = request_decoding.decode_texts(body.get("prompt"))
        parts: list[Part] = [*prompt, *_decode_images(body)]
        message = request_decoding.request_message("user", parts)
        system = request_decoding.text_or_empty(body.get("system"))
        conversation = request_decoding.conversation([message], options, system)
    return replace(
        conversation,
        tools=tuple(request_decoding.decode_function_tools(body.get("tools"))),
        reasoning_enabled=request_decoding.is_reasoning_enabled(body.get("think")),
        response_schema={}
        if response_format == "json"
        else request_decoding.first_schema(response_format),
        **request_decoding.decode_options(options, _OPTION_NAMES),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    """The messages; old servers have no ids for calls, and older ones no tool names."""
    for message in get_objects(body, "messages"):
        role = request_decoding.decode_role(message.get("role"))
        if role == "tool":
            content = request_decoding.tool_output_text(message.get("content"))
            name = get_string(message, "tool_name") or get_string(message, "name")
            result = ToolResult(get_string(message, "tool_call_id"), content, name)
            yield request_decoding.request_message(role, [result])
        elif role is not None:
            parts: list[Part] = [
                Reasoning(get_string(message, "thinking")),
                Text(get_string(message, "content")),
                *_decode_images(message),
                *chat.decode_tool_calls(message),
            ]
            yield request_decoding.request_message(role, parts)


def _decode_images(fields: Fields) -> Iterator[Media]:
    for image in get_items(fields, "images"):
        yield Media("image/*", base64=str_or_empty(image))


def encode_request(conversation: Conversation, *, stream: bool) -> Request:
    """The request for the next message of a chat.

    Raises `NotRepresentable` for what the format lacks.
    """
    conversation = request_encoding.prepared_conversation(_DIALECT, conversation)
    request_encoding.refuse_stored_state(_DIALECT, conversation)
    tools = [
        {"type": "function", "function": request_encoding.encode_function(_DIALECT, tool)}
        for tool in conversation.tools
    ]
    match request_encoding.checked_tool_choice(_DIALECT, conversation):
        case "none":
            tools = []
        case ForcedTool(name):
            raise request_encoding.refusal(_DIALECT, f"the choice of the tool {name}")
        case "required":
            raise request_encoding.refusal(_DIALECT, "the tool choice required")
        case _:
            pass
    body: Document = {
        "model": conversation.model,
        "messages": [*_encode_messages(conversation)],
        "tools": tools,
        "options": request_encoding.encode_options(_DIALECT, conversation, _OPTION_NAMES),
        "stream": stream,
    }
    if conversation.response_schema is not None:
        body["format"] = _encode_format(conversation.response_schema)
    return request_encoding.post_request(_DIALECT, chat.CHAT, body, conversation)


def _encode_format(response_schema: Json) -> Json:
    schema = request_encoding.checked_schema(_DIALECT, "response_schema", response_schema)
    return schema or "json"


def _encode_messages(conversation: Conversation) -> Iterator[Document]:
    """The messages, with one for each tool result; empty fields are left out."""
    if system := request_encoding.system_prompt_field(conversation):
        yield {"role": "system", "content": system}
    for message in conversation.messages:
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    yield _encode_result(part)
        else:
            fields: Document = {
                "content": _joined_texts(message, Text, Refusal),
                "thinking": _joined_texts(message, Reasoning),
                "images": [
                    _encode_image(part) for part in message.parts if isinstance(part, Media)
                ],
                "tool_calls": [
                    _encode_call(part) for part in message.parts if isinstance(part, ToolCall)
                ],
            }
            yield {
                "role": message.role,
                **{name: value for name, value in fields.items() if value},
            }


def _encode_result(result: ToolResult) -> Document:
    encoded: Document = {"role": "tool", "content": result.content}
    if result.name:
        encoded["tool_name"] = result.name
    if result.call_id:
        encoded["tool_call_id"] = result.call_id
    return encoded


def _joined_texts(message: RequestMessage, *kinds: type[Text | Refusal | Reasoning]) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, kinds))


def _encode_image(media: Media) -> str:
    """The base64 of an image; Ollama fetches nothing."""
    if not (media.base64 and media.media_type.startswith("image/")):
        raise request_encoding.media_refusal(_DIALECT, media)
    return media.base64


def _encode_call(call: ToolCall) -> Document:
    arguments = normalized_object_json(call.arguments or "{}")
    if arguments is None:
        raise encoding.arguments_error(_DIALECT, call)
    function = {"name": call.name, "arguments": parse_json(arguments.encode())}
    return {"id": call.id, "function": function} if call.id else {"function": function}
