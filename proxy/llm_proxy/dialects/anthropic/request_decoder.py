"""Decodes requests of Anthropic's Messages API and legacy completions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, Role
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.anthropic import block_decoder
from llm_proxy.dialects.anthropic.block_decoder import ContentBlockDecoder
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Media, Part, Reasoning, Text, ToolResult

_RESULT: Final = "tool_result"
"""The type of what a tool of the client's gave."""
_MEDIA: Final = {"image": "image/*", "document": "*/*"}

_SPEAKERS: Final = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
"""Who speaks in a prompt."""
_ROLES: Final[dict[str, Role]] = {"Human": "user", "Assistant": "assistant"}


def decode_messages_request(body: Fields) -> Conversation:
    """The conversation that a request for a message holds."""
    values = request_decoding.merge_adjacent_roles(_decode_messages(body))
    config = lenient_json.object_fields(body.get("output_config"))
    fields = lenient_json.object_fields(config.get("format") or body.get("output_format"))
    tools = lenient_json.object_items(body.get("tools"))
    return Conversation(
        values,
        system=request_decoding.request_message(
            "system", request_decoding.decode_texts(body.get("system"))
        ).text
        or request_decoding.leading_system_prompt(values),
        tools=tuple(
            tool_definition
            for tool in tools
            for tool_definition in request_decoding.decode_tool(tool, tool.get("input_schema"))
        ),
        temperature=request_decoding.decode_number(body.get("temperature")),
        top_p=request_decoding.decode_number(body.get("top_p")),
        reasoning_enabled=request_decoding.is_reasoning_enabled(
            lenient_json.object_fields(body.get("thinking")).get("type")
        ),
        wants_signed_reasoning=True,
        response_schema=request_decoding.response_schema(fields, fields.get("schema")),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    for object_item in lenient_json.object_items(body.get("messages")):
        if role := request_decoding.decode_role(object_item.get("role")):
            yield request_decoding.request_message(role, _decode_parts(object_item.get("content")))


def _decode_parts(content: Json) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(content)
    for block in lenient_json.object_items(content):
        if part := _decode_part(block):
            yield part


def _decode_part(block: Fields) -> Part | None:
    """What a block says; those that answers have, too, are read as they are there."""
    match block.get("type"):
        case "text":
            return Text(lenient_json.str_or_empty(block.get("text")))
        case "thinking":
            seal = lenient_json.str_or_empty(block.get("signature"))
            return Reasoning(lenient_json.str_or_empty(block.get("thinking")), seal or None)
        case "redacted_thinking":
            return Reasoning(redacted=lenient_json.str_or_empty(block.get("data")) or None)
        case "image" | "document" as kind:
            return _decode_media(lenient_json.object_fields(block.get("source")), _MEDIA[kind])
        case it if it == _RESULT:
            return _decode_tool_result(block)
        case _:
            return block_decoder.decode_block(ContentBlockDecoder(block, closed=True).content(), {})


def _decode_tool_result(block: Fields) -> ToolResult:
    return ToolResult(
        request_decoding.text_or_empty(block.get("tool_use_id")),
        request_decoding.tool_output_text(block.get("content")),
        failed=block.get("is_error") is True,
    )


def _decode_media(source: Fields, kind: str) -> Part:
    """An image or a document, inline or by its address; a document in words is text."""
    data = lenient_json.str_or_empty(source.get("data"))
    if source.get("type") == "text":
        return Text(data)
    media_type = lenient_json.str_or_empty(source.get("media_type")) or kind
    return Media(media_type, url=lenient_json.str_or_empty(source.get("url")), base64=data)


def decode_completion_request(body: Fields) -> Conversation:
    """The conversation that a prompt spells; one without speakers is what the user says."""
    prompt = request_decoding.text_or_empty(body.get("prompt"))
    before, *rest = _SPEAKERS.split(prompt)
    turns = list(zip(rest[::2], (content.strip() for content in rest[1::2]), strict=True))
    if turns and turns[-1] == ("Assistant", ""):
        turns.pop()  # the place of the answer
    spoken = [(_ROLES[who], text) for who, text in turns] or [("user", before)]
    return Conversation(
        tuple(request_decoding.request_message(role, [Text(text)]) for role, text in spoken),
        system=before.strip() if rest else "",
        temperature=request_decoding.decode_number(body.get("temperature")),
        top_p=request_decoding.decode_number(body.get("top_p")),
    )
