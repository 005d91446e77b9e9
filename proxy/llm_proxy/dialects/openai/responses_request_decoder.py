"""Decodes Responses API requests, whose input is items.

The role of an item is that of its author.  An `item_reference` counts as the model's: clients
that let the server store the response send it in place of the model's items.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import json_api, request_decoding
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
from llm_proxy.turns import Json, Media, Part, Refusal, Text, ToolResult

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
        reasoning_enabled=request_decoding.is_reasoning_enabled(
            get_object(body, "reasoning").get("effort")
        ),
        response_schema=request_decoding.response_schema(text_format, text_format.get("schema")),
        previous_response_id=request_decoding.text_or_empty(body.get("previous_response_id")),
        stored_conversation_id=request_decoding.text_or_empty(
            object_fields(conversation).get("id", conversation)
        ),
        is_stored_by_provider=body.get("store") is not False,
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
