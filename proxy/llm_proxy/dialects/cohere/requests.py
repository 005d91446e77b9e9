"""Decodes and encodes the requests of `/v2/chat`.

A plan before tool calls goes back as `tool_plan`, and other reasoning as blocks of thoughts, both
without signatures and encrypted content.  A refusal of the model is sent as text.  Cohere has no
field for a failed tool result, and no tool choice `auto`, which is its default.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage, ToolDefinition
from llm_proxy.dialects import request_decoding, request_encoding
from llm_proxy.dialects.cohere import chat_v2
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    get_object,
    get_objects,
    get_string,
    get_text,
)
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Json, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

OPTION_NAMES: Final[OptionNames] = {
    "temperature": ("temperature",),
    "top_p": ("p",),
    "max_tokens": ("max_tokens",),
    "top_k": ("k",),
    "seed": ("seed",),
    "stop_sequences": ("stop_sequences", "end_sequences"),
}
"""The options of both versions; `end_sequences` is that of old completions."""

_DIALECT: Final = "cohere"
_PATH: Final = "/v2/chat"
_NO_PARAMETERS: Final[Json] = {"type": "object", "properties": {}}
"""The schema of a tool without parameters, which the API requires."""


def decode_request(body: Fields) -> Conversation:
    """The conversation of a body."""
    response_format = get_object(body, "response_format")
    return replace(
        request_decoding.conversation(_decode_messages(body), {}),
        tools=tuple(request_decoding.decode_function_tools(body.get("tools"))),
        tool_choice=request_decoding.decode_tool_choice(get_string(body, "tool_choice").lower()),
        reasoning_enabled=request_decoding.is_reasoning_enabled(
            get_object(body, "thinking").get("type")
        ),
        response_schema=request_decoding.response_schema(
            response_format, response_format.get("json_schema"), response_format.get("schema")
        ),
        **request_decoding.decode_options(body, OPTION_NAMES),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    for message in get_objects(body, "messages"):
        role = request_decoding.decode_role(message.get("role"))
        if role is None:
            continue
        if role == "tool":  # text, or documents whose `data` is text or JSON, one a line
            content = message.get("content")
            documents = (get_object(item, "document") for item in array_objects(content))
            lines = [get_text(document, "data") for document in documents if document.get("data")]
            output = "\n".join(lines) or request_decoding.tool_output_text(content)
            parts: list[Part] = [ToolResult(get_string(message, "tool_call_id"), output)]
        else:
            parts = [part for _, part in chat_v2.decode_fragments(message)]
        yield request_decoding.request_message(role, parts)


def encode_request(conversation: Conversation, *, stream: bool) -> Request:
    """The request for the next message.

    Raises `NotRepresentable` for what the format lacks.
    """
    conversation = request_encoding.prepared_conversation(_DIALECT, conversation)
    request_encoding.refuse_stored_state(_DIALECT, conversation)
    body: Document = {
        "model": conversation.model,
        "messages": [*_encode_messages(conversation)],
        "stream": stream,
    }
    if conversation.tools:
        body["tools"] = [*map(_encode_tool, conversation.tools)]
    match request_encoding.checked_tool_choice(_DIALECT, conversation):
        case ForcedTool(name):
            raise request_encoding.refusal(_DIALECT, f"the choice of the tool {name}")
        case "none" | "required" as choice:
            body["tool_choice"] = choice.upper()
        case _:
            pass
    body |= request_encoding.encode_options(_DIALECT, conversation, OPTION_NAMES)
    if conversation.response_schema is not None:
        body["response_format"] = _encode_response_format(conversation.response_schema)
    return request_encoding.post_request(_DIALECT, _PATH, body, conversation)


def _encode_tool(tool: ToolDefinition) -> Document:
    function = request_encoding.encode_function(_DIALECT, tool)
    return {"type": "function", "function": {"parameters": _NO_PARAMETERS, **function}}


def _encode_response_format(response_schema: Json) -> Document:
    schema = request_encoding.checked_schema(_DIALECT, "response_schema", response_schema)
    return {"type": "json_object", **({"json_schema": schema} if schema else {})}


def _encode_messages(conversation: Conversation) -> Iterator[Document]:
    """The messages that have content, with one for each tool result."""
    if system := request_encoding.system_prompt_field(conversation):
        yield {"role": "system", "content": system}
    for message in conversation.messages:
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    yield {"role": "tool", "tool_call_id": part.call_id, "content": part.content}
        elif fields := _message_fields(message):
            yield {"role": message.role, **fields}


def _message_fields(message: RequestMessage) -> Document:
    """The fields of a message that have content."""
    content: list[Part] = []
    fields: Document = {"tool_plan": "", "content": content, "tool_calls": []}
    for part in message.parts:
        match part:
            case ToolCall():
                call = chat_v2.encode_tool_call(part, part.arguments or "{}")
                fields["tool_calls"].append(call)
            case Reasoning(text=text) if chat_v2.is_tool_plan(part):
                fields["tool_plan"] += text
            case Reasoning(text=""):
                pass
            case Refusal(text=text):
                content.append(Text(text))
            case _:
                content.append(part)
    fields["content"] = request_encoding.text_or_blocks(tuple(content), _encode_block)
    return {name: value for name, value in fields.items() if value}


def _encode_block(part: Part) -> Document:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Reasoning(text=text):
            return {"type": "thinking", "thinking": text}
        case Media() if part.media_type.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": request_encoding.data_url(part)}}
        case Media():
            raise request_encoding.media_refusal(_DIALECT, part)
        case _:
            raise request_encoding.part_refusal(_DIALECT, part, "user")
