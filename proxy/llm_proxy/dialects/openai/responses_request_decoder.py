"""What a request for one of OpenAI's Responses asks: its input is items, as its output is.

An item is said by whoever made it; one that stands for another by its id (`item_reference`) stands
for what the model made, which is what clients leave out that let the server keep it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, Message, Tool
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


def read(body: Fields) -> Conversation:
    """The conversation that a body holds."""
    items = _items(body.get("input"))
    messages = request_decoding.in_order(_messages(items), runs=("assistant", "tool"))
    asked = lenient_json.fields(lenient_json.fields(body.get("text")).get("format"))
    return Conversation(
        messages,
        system=request_decoding.said(body.get("instructions")) or request_decoding.system(messages),
        tools=tuple(_tools(body, items)),
        temperature=request_decoding.number(body.get("temperature")),
        top_p=request_decoding.number(body.get("top_p")),
        reasons=request_decoding.is_on(lenient_json.fields(body.get("reasoning")).get("effort")),
        schema=request_decoding.structure(asked, asked.get("schema")),
        previous=request_decoding.said(body.get("previous_response_id")),
        stored=_stored(body),
        is_kept=body.get("store") is not False,
    )


def _items(value: Json) -> list[Fields]:
    """The items; a text alone is what the user says."""
    return (
        [{"role": "user", "content": value}]
        if value == lenient_json.text(value)
        else lenient_json.objects(value)
    )


def _messages(items: list[Fields]) -> Iterator[Message]:
    for item in items:
        kind = lenient_json.text(item.get("type"))
        if kind == "message" or (not kind and "role" in item):
            if role := request_decoding.role(item.get("role")):
                yield request_decoding.message(role, _said(item.get("content")))
        elif kind.endswith(_GIVEN) or kind == _APPROVAL or _is_found_by_client(item):
            yield request_decoding.message("tool", [_result(item, kind)])
        elif kind in _MADE or kind.endswith(("_call", "_output")):
            yield request_decoding.message("assistant", output_item_decoder.parts(item))


def _is_found_by_client(item: Fields) -> bool:
    return item.get("type") == _SEARCHED and item.get("execution") == "client"


def _said(content: Json) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(content)
    for block in lenient_json.objects(content):
        match block.get("type"):
            case "refusal":
                yield Refusal(lenient_json.text(block.get("refusal")))
            case "input_image":
                yield data_urls.media(lenient_json.words(block.get("image_url")), "image/*")
            case "input_file":
                where = block.get("file_data") or block.get("file_url")
                yield data_urls.media(lenient_json.words(where), "*/*")
            case "input_audio":
                sound = lenient_json.fields(block.get("input_audio"))
                form = lenient_json.words(sound.get("format")) or "*"
                yield Media(f"audio/{form}", base64=lenient_json.words(sound.get("data")))
            case _:
                yield from request_decoding.texts([dict(block)])


def _result(item: Fields, kind: str) -> ToolResult:
    """What the client gives: what a tool of its own gave, or that a call is approved."""
    if kind == _APPROVAL:
        call_id, gave = item.get("approval_request_id"), item.get("approve")
    else:
        call_id, gave = item.get("call_id"), item.get("output") or item.get("tools")
    return ToolResult(
        request_decoding.said(call_id),
        request_decoding.in_words(gave),
        request_decoding.said(item.get("name")),
        failed=bool(item.get("error")) or item.get("status") == "failed",
    )


def _tools(body: Fields, items: list[Fields]) -> Iterator[Tool]:
    """The tools of the request, and those that are offered later; a namespace holds several."""
    offers = [body, *(it for it in items if it.get("type") in _OFFERS)]
    for it in (tool for offer in offers for tool in lenient_json.objects(offer.get("tools"))):
        inner = lenient_json.objects(it.get("tools")) if it.get("type") == "namespace" else [it]
        for about in inner:
            yield from request_decoding.tool(about, about.get("parameters"))


def _stored(body: Fields) -> str:
    """The conversation that OpenAI keeps, named or as an object."""
    kept = body.get("conversation")
    return request_decoding.said(
        kept if isinstance(kept, str) else lenient_json.fields(kept).get("id")
    )
