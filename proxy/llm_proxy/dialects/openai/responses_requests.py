"""Decodes and encodes Responses API requests, whose input is items.

The role of an item is that of its author.  An `item_reference` counts as the model's: clients
that let the server store the response send it in place of the model's items.

The model's items are encoded as its response had them.  Those of another origin have neither id nor
status, which are optional in a request.  Reasoning without an id and without encrypted content is
left out, since OpenAI cannot take it back; a failed tool result is sent as its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage, ToolDefinition
from llm_proxy.dialects import json_api, request_decoding, request_encoding
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    get_object,
    get_objects,
    get_string,
    get_text,
    object_fields,
    value_as_text,
)
from llm_proxy.dialects.openai import output_items
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.request_encoding import MESSAGE_PARTS, RESPONSE_FORMAT_NAME, PartKinds
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Json, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

_DIALECT: Final = "openai-responses"
_PATH: Final = "/v1/responses"

_DEFAULTS: Final = (("id", None), ("status", "completed"))
"""The fields of an item that its encoder adds to parts without them."""

_OPTION_NAMES: Final[OptionNames] = {"max_tokens": ("max_output_tokens",)}
_PART_KINDS: Final[PartKinds] = {
    **MESSAGE_PARTS,
    "assistant": (*MESSAGE_PARTS["assistant"], ToolResult, Media),
}

_MODEL_ITEM_TYPES: Final = (
    "reasoning",
    "compaction",
    "item_reference",
    *output_items.UNSUFFIXED_CALL_TYPES,
)
"""Types of items that the model makes, as are calls and results of OpenAI's own tools."""
_CLIENT_RESULT_SUFFIX: Final = "_call_output"
"""The suffix of item types that hold the client's tool results."""
_APPROVAL_TYPE: Final = "mcp_approval_response"
_TOOL_SEARCH_OUTPUT_TYPE: Final = "tool_search_output"
_TOOL_OFFER_TYPES: Final = ("additional_tools", _TOOL_SEARCH_OUTPUT_TYPE)
"""Types of items that add tools."""


def decode_request(body: Fields) -> Conversation:
    """The conversation in the body of a Responses API request."""
    prompt = body.get("input")
    items: list[Fields] = (
        [{"role": "user", "content": prompt}] if isinstance(prompt, str) else array_objects(prompt)
    )
    conversation = body.get("conversation")
    text_format = get_object(get_object(body, "text"), "format")
    return replace(
        request_decoding.conversation(
            _decode_messages(items),
            body,
            request_decoding.text_or_empty(body.get("instructions")),
            mergeable_roles=("assistant", "tool"),
        ),
        tools=tuple(_decode_tools(body, items)),
        tool_choice=request_decoding.decode_tool_choice(body.get("tool_choice")),
        reasoning_enabled=request_decoding.is_reasoning_enabled(
            get_object(body, "reasoning").get("effort")
        ),
        response_schema=request_decoding.response_schema(text_format, text_format.get("schema")),
        previous_response_id=request_decoding.text_or_empty(body.get("previous_response_id")),
        stored_conversation_id=request_decoding.text_or_empty(
            object_fields(conversation).get("id", conversation)
        ),
        is_stored_by_provider=body.get("store") is not False,
        **request_decoding.decode_options(body, _OPTION_NAMES),
    )


def _decode_messages(items: list[Fields]) -> Iterator[RequestMessage]:
    for item in items:
        kind = get_string(item, "type")
        if kind == "message" or (not kind and "role" in item):
            if role := request_decoding.decode_role(item.get("role")):
                yield request_decoding.request_message(role, _decode_content(item.get("content")))
        elif (
            kind.endswith(_CLIENT_RESULT_SUFFIX)
            or kind == _APPROVAL_TYPE
            or (kind == _TOOL_SEARCH_OUTPUT_TYPE and item.get("execution") == "client")
        ):
            yield request_decoding.request_message("tool", [_decode_tool_result(item, kind)])
        elif kind in _MODEL_ITEM_TYPES or kind.endswith(("_call", "_output")):
            yield request_decoding.request_message("assistant", output_items.decode_item(item))


def _decode_content(content: Json) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(content)
    for block in array_objects(content):
        match block.get("type"):
            case "refusal":
                yield Refusal(get_string(block, "refusal"))
            case "input_image":
                yield json_api.decode_media_url(get_text(block, "image_url"), "image/*")
            case "input_file":
                source = block.get("file_data") or block.get("file_url")
                yield json_api.decode_media_url(value_as_text(source), "*/*")
            case "input_audio":
                audio = get_object(block, "input_audio")
                audio_format = get_text(audio, "format") or "*"
                yield Media(f"audio/{audio_format}", base64=get_text(audio, "data"))
            case _:
                yield from request_decoding.decode_texts([dict(block)])


def _decode_tool_result(item: Fields, kind: str) -> ToolResult:
    """A result from the client: of its own tool, or the approval of an MCP call."""
    if kind == _APPROVAL_TYPE:
        call_id, output = item.get("approval_request_id"), item.get("approve")
    else:
        call_id, output = item.get("call_id"), item.get("output") or item.get("tools")
    return ToolResult(
        request_decoding.text_or_empty(call_id),
        request_decoding.tool_output_text(output),
        request_decoding.text_or_empty(item.get("name")),
        failed=output_items.has_failed(item),
    )


def _decode_tools(body: Fields, items: list[Fields]) -> Iterator[ToolDefinition]:
    """The tools of the request and those added by input items; a namespace holds several."""
    tool_holders = [body, *(item for item in items if item.get("type") in _TOOL_OFFER_TYPES)]
    for fields in (tool for holder in tool_holders for tool in get_objects(holder, "tools")):
        definitions = (
            get_objects(fields, "tools") if fields.get("type") == "namespace" else [fields]
        )
        for document in definitions:
            yield from request_decoding.decode_tool(document, document.get("parameters"))


def encode_request(conversation: Conversation, *, stream: bool) -> Request:
    """The request for the next response.

    Raises `NotRepresentable` for what the format lacks.
    """
    conversation = request_encoding.prepared_conversation(
        _DIALECT, conversation, _PART_KINDS, ("_call", *output_items.UNSUFFIXED_CALL_TYPES)
    )
    body: Document = {"model": conversation.model, "input": [*_encode_input(conversation)]}
    if system := request_encoding.system_prompt_field(conversation):
        body["instructions"] = system
    if stream:
        body["stream"] = True
    if conversation.tools:
        body["tools"] = [*map(_encode_tool, conversation.tools)]
    match request_encoding.checked_tool_choice(_DIALECT, conversation):
        case ForcedTool(name):
            body["tool_choice"] = {"type": "function", "name": name}
        case str() as choice:
            body["tool_choice"] = choice
        case None:
            pass
    body |= request_encoding.encode_options(_DIALECT, conversation, _OPTION_NAMES)
    if conversation.response_schema is not None:
        body["text"] = {"format": _encode_response_format(conversation.response_schema)}
    if conversation.previous_response_id:
        body["previous_response_id"] = conversation.previous_response_id
    if conversation.stored_conversation_id:
        body["conversation"] = conversation.stored_conversation_id
    return request_encoding.post_request(_DIALECT, _PATH, body, conversation)


def _encode_tool(tool: ToolDefinition) -> Document:
    """A function that accepts any schema: without `strict`, OpenAI accepts only closed objects."""
    function = request_encoding.encode_function(_DIALECT, tool)
    return {"type": "function", "parameters": None, **function, "strict": False}


def _encode_response_format(response_schema: Json) -> Document:
    schema = request_encoding.checked_schema(_DIALECT, "response_schema", response_schema)
    if not schema:
        return {"type": "json_object"}
    return {"type": "json_schema", "name": RESPONSE_FORMAT_NAME, "schema": schema}


def _encode_input(conversation: Conversation) -> Iterator[Document]:
    for message in conversation.messages:
        match message.role:
            case "tool":
                for part in message.parts:
                    if isinstance(part, ToolResult):
                        yield {
                            "type": "function_call_output",
                            "call_id": part.call_id,
                            "output": part.content,
                        }
            case "assistant":
                yield from _encode_model_items(message)
            case _:
                yield {
                    "role": message.role,
                    "content": request_encoding.text_or_blocks(message.parts, _encode_block),
                }


def _encode_block(part: Part) -> Document:
    match part:
        case Text(text=text):
            return {"type": "input_text", "text": text}
        case Media():
            return _encode_media(part)
        case _:
            raise request_encoding.part_refusal(_DIALECT, part, "user")


def _encode_media(media: Media) -> Document:
    """An image, a file, or a sound that is inline."""
    kind, _, subtype = media.media_type.partition("/")
    if kind == "image":
        return {"type": "input_image", "image_url": request_encoding.data_url(media)}
    if kind == "audio" and media.base64:
        audio = {"data": media.base64, "format": request_encoding.audio_format(media)}
        return {"type": "input_audio", "input_audio": audio}
    if kind == "audio" or not subtype:
        raise request_encoding.media_refusal(_DIALECT, media)
    if media.base64:
        file_data = request_encoding.data_url(media)
        return {"type": "input_file", "filename": f"file.{subtype}", "file_data": file_data}
    return {"type": "input_file", "file_url": media.url}


def _encode_model_items(message: RequestMessage) -> Iterator[Document]:
    """The items of the model's message, as its response had them."""
    parts = [part for given in message.parts if (part := _item_part(given))]
    provider_call_ids = {
        part.id for part in parts if isinstance(part, ToolCall) and output_items.original_type(part)
    }
    for part in parts:
        match part:
            case ToolResult(call_id=call_id) if not output_items.original_type(part):
                if call_id not in provider_call_ids:
                    raise request_encoding.part_refusal(_DIALECT, part, "assistant")
            case _:
                pass
    yield from map(_without_defaults, output_items.encode_items(parts))


def _item_part(part: Part) -> Part | None:
    """A part as its item has it; None for reasoning that cannot be sent back."""
    fields = dict(part.metadata)
    has_id = bool(fields.get("id"))
    # Items of reasoning have an id; that of other providers has none, or a format.
    if isinstance(part, Reasoning) and (not has_id or "format" in fields):
        return None
    if isinstance(part, ToolCall) and not part.arguments and not output_items.original_type(part):
        part = replace(part, arguments="{}")
    item_part = output_items.representable_part(
        part, has_audio=False, reasoning_type=output_items.SUMMARY
    )
    if isinstance(part, Media) and not (item_part and has_id):  # no image that the model generated
        raise request_encoding.part_refusal(_DIALECT, part, "assistant")
    return item_part


def _without_defaults(item: Document) -> Document:
    """An item without an id, without what only the provider determines; others are unchanged."""
    if item.get("id"):
        return item
    item = {name: value for name, value in item.items() if (name, value) not in _DEFAULTS}
    if item["type"] != "message":
        return item
    blocks = [
        {name: value for name, value in block.items() if value != []} for block in item["content"]
    ]
    match blocks:
        case [{"type": "output_text", "text": text, **others}] if not others:
            content = text
        case _:
            content = blocks
    # llama.cpp refuses a message of the model without `type`, which is optional to OpenAI.
    return {"type": "message", "role": "assistant", "content": content}
