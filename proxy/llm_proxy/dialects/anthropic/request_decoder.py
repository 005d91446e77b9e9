"""Decodes requests of Anthropic's Messages API and legacy completions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, Role
from llm_proxy.dialects import request_decoding
from llm_proxy.dialects.anthropic import blocks
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    get_object,
    get_objects,
    get_string,
    object_fields,
)
from llm_proxy.turns import Json, Media, Part, Reasoning, Text, ToolResult

_DEFAULT_MEDIA_TYPES: Final = {"image": "image/*", "document": "*/*"}

_SPEAKER_PREFIX: Final = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
"""The prefix of each message in a prompt."""
_ROLES: Final[dict[str, Role]] = {"Human": "user", "Assistant": "assistant"}


def decode_messages_request(body: Fields) -> Conversation:
    """The conversation of a Messages request."""
    messages = request_decoding.merge_adjacent_messages(_decode_messages(body))
    output_config = get_object(body, "output_config")
    output_format = object_fields(output_config.get("format") or body.get("output_format"))
    tools = get_objects(body, "tools")
    return Conversation(
        messages,
        system=request_decoding.request_message(
            "system", request_decoding.decode_texts(body.get("system"))
        ).text
        or request_decoding.first_system_text(messages),
        tools=tuple(
            tool_definition
            for tool in tools
            for tool_definition in request_decoding.decode_tool(tool, tool.get("input_schema"))
        ),
        temperature=request_decoding.decode_number(body.get("temperature")),
        top_p=request_decoding.decode_number(body.get("top_p")),
        reasoning_enabled=request_decoding.is_reasoning_enabled(
            get_object(body, "thinking").get("type")
        ),
        wants_signed_reasoning=True,
        response_schema=request_decoding.response_schema(
            output_format, output_format.get("schema")
        ),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    for message in get_objects(body, "messages"):
        if role := request_decoding.decode_role(message.get("role")):
            yield request_decoding.request_message(role, _decode_parts(message.get("content")))


def _decode_parts(content: Json) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(content)
    for block in array_objects(content):
        if part := _decode_part(block):
            yield part


def _decode_part(block: Fields) -> Part | None:
    """The part of a block; blocks that responses have, too, are decoded as there."""
    match block.get("type"):
        case "text":
            return Text(get_string(block, "text"))
        case "thinking":
            signature = get_string(block, "signature")
            return Reasoning(get_string(block, "thinking"), signature or None)
        case "redacted_thinking":
            return Reasoning(redacted=get_string(block, "data") or None)
        case "image" | "document" as kind:  # inline or by URL; a document of type `text` is text
            source = get_object(block, "source")
            data = get_string(source, "data")
            if source.get("type") == "text":
                return Text(data)
            media_type = get_string(source, "media_type")
            url = get_string(source, "url")
            return Media(media_type or _DEFAULT_MEDIA_TYPES[kind], url=url, base64=data)
        case "tool_result":  # of a tool of the client
            return ToolResult(
                request_decoding.text_or_empty(block.get("tool_use_id")),
                request_decoding.tool_output_text(block.get("content")),
                failed=block.get("is_error") is True,
            )
        case _:
            return blocks.decode_block(blocks.BlockDecoder(block, closed=True).block(), {})


def decode_completion_request(body: Fields) -> Conversation:
    """The conversation in a prompt; a prompt without speakers is one user message."""
    prompt = request_decoding.text_or_empty(body.get("prompt"))
    preamble, *speaker_pieces = _SPEAKER_PREFIX.split(prompt)
    turns = list(
        zip(speaker_pieces[::2], (content.strip() for content in speaker_pieces[1::2]), strict=True)
    )
    if turns and turns[-1] == ("Assistant", ""):
        turns.pop()  # the place of the response
    messages = [(_ROLES[speaker], text) for speaker, text in turns] or [("user", preamble)]
    return Conversation(
        tuple(request_decoding.request_message(role, [Text(text)]) for role, text in messages),
        system=preamble.strip() if speaker_pieces else "",
        temperature=request_decoding.decode_number(body.get("temperature")),
        top_p=request_decoding.decode_number(body.get("top_p")),
    )
