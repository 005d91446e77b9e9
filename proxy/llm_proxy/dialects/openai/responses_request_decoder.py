"""Decodes Responses API requests, whose input is items.

An item is said by whoever made it; one that stands for another by its id (`item_reference`) stands
for what the model made, which is what clients leave out that let the server keep it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import data_urls, lenient_json, request_decoding
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import output_item_decoder
from llm_proxy.turns import Json, Media, Part, Refusal, Text, ToolResult

_MADE: Final = ("reasoning", "compaction", "item_reference", *output_item_decoder.TOOLS)
"""Types of items that the model makes; so are calls, and what OpenAI's own tools give."""
_GIVEN: Final = "_call_output"
"""How the types of results end that the client gives."""
_APPROVAL: Final = "mcp_approval_response"
_SEARCHED: Final = "tool_search_output"
_OFFERS: Final = ("additional_tools", _SEARCHED)
"""Types of items that offer tools."""


def decode_request(body: Fields) -> Conversation:
    """The conversation that a body holds."""
    items = _input_items(body.get("input"))
    messages = request_decoding.merge_adjacent_roles(
        _decode_messages(items), mergeable_roles=("assistant", "tool")
    )
    fields = lenient_json.object_fields(lenient_json.object_fields(body.get("text")).get("format"))
    return Conversation(
        messages,
        system=request_decoding.text_or_empty(body.get("instructions"))
        or request_decoding.leading_system_prompt(messages),
        tools=tuple(_decode_tools(body, items)),
        temperature=request_decoding.decode_number(body.get("temperature")),
        top_p=request_decoding.decode_number(body.get("top_p")),
        reasoning_enabled=request_decoding.is_reasoning_enabled(
            lenient_json.object_fields(body.get("reasoning")).get("effort")
        ),
        response_schema=request_decoding.response_schema(fields, fields.get("schema")),
        previous_response_id=request_decoding.text_or_empty(body.get("previous_response_id")),
        stored_conversation_id=_stored_conversation_id(body),
        is_stored_by_provider=body.get("store") is not False,
    )


def _input_items(value: Json) -> list[Fields]:
    """The items; a text alone is what the user says."""
    return (
        [{"role": "user", "content": value}]
        if value == lenient_json.str_or_empty(value)
        else lenient_json.object_items(value)
    )


def _decode_messages(items: list[Fields]) -> Iterator[RequestMessage]:
    for item in items:
        kind = lenient_json.str_or_empty(item.get("type"))
        if kind == "message" or (not kind and "role" in item):
            if role := request_decoding.decode_role(item.get("role")):
                yield request_decoding.request_message(role, _decode_content(item.get("content")))
        elif kind.endswith(_GIVEN) or kind == _APPROVAL or _is_client_tool_search(item):
            yield request_decoding.request_message("tool", [_decode_tool_result(item, kind)])
        elif kind in _MADE or kind.endswith(("_call", "_output")):
            yield request_decoding.request_message(
                "assistant", output_item_decoder.decode_item(item)
            )


def _is_client_tool_search(item: Fields) -> bool:
    return item.get("type") == _SEARCHED and item.get("execution") == "client"


def _decode_content(content: Json) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(content)
    for block in lenient_json.object_items(content):
        match block.get("type"):
            case "refusal":
                yield Refusal(lenient_json.str_or_empty(block.get("refusal")))
            case "input_image":
                yield data_urls.decode_media_url(
                    lenient_json.printable_text(block.get("image_url")), "image/*"
                )
            case "input_file":
                where = block.get("file_data") or block.get("file_url")
                yield data_urls.decode_media_url(lenient_json.printable_text(where), "*/*")
            case "input_audio":
                sound = lenient_json.object_fields(block.get("input_audio"))
                form = lenient_json.printable_text(sound.get("format")) or "*"
                yield Media(f"audio/{form}", base64=lenient_json.printable_text(sound.get("data")))
            case _:
                yield from request_decoding.decode_texts([dict(block)])


def _decode_tool_result(item: Fields, kind: str) -> ToolResult:
    """What the client gives: what a tool of its own gave, or that a call is approved."""
    if kind == _APPROVAL:
        call_id, gave = item.get("approval_request_id"), item.get("approve")
    else:
        call_id, gave = item.get("call_id"), item.get("output") or item.get("tools")
    return ToolResult(
        request_decoding.text_or_empty(call_id),
        request_decoding.tool_output_text(gave),
        request_decoding.text_or_empty(item.get("name")),
        failed=bool(item.get("error")) or item.get("status") == "failed",
    )


def _decode_tools(body: Fields, items: list[Fields]) -> Iterator[ToolDefinition]:
    """The tools of the request, and those that are offered later; a namespace holds several."""
    offers = [body, *(item for item in items if item.get("type") in _OFFERS)]
    for fields in (
        tool for offer in offers for tool in lenient_json.object_items(offer.get("tools"))
    ):
        inner = (
            lenient_json.object_items(fields.get("tools"))
            if fields.get("type") == "namespace"
            else [fields]
        )
        for document in inner:
            yield from request_decoding.decode_tool(document, document.get("parameters"))


def _stored_conversation_id(body: Fields) -> str:
    kept = body.get("conversation")
    return request_decoding.text_or_empty(
        kept if isinstance(kept, str) else lenient_json.object_fields(kept).get("id")
    )
