"""What Anthropic's messages ask, and its legacy completions, wherever they are spoken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, Message, Role
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.anthropic import block_decoder
from llm_proxy.dialects.anthropic.block_decoder import Block
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Media, Part, Reasoning, Text, ToolResult

_RESULT: Final = "tool_result"
"""The type of what a tool of the client's gave."""
_MEDIA: Final = {"image": "image/*", "document": "*/*"}

_SPEAKERS: Final = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
"""Who speaks in a prompt."""
_ROLES: Final[dict[str, Role]] = {"Human": "user", "Assistant": "assistant"}


def messages(body: Fields) -> Conversation:
    """The conversation that a request for a message holds."""
    told = request_decoding.in_order(_messages(body))
    config = lenient_json.fields(body.get("output_config"))
    asked = lenient_json.fields(config.get("format") or body.get("output_format"))
    tools = lenient_json.objects(body.get("tools"))
    return Conversation(
        told,
        system=request_decoding.message("system", request_decoding.texts(body.get("system"))).text
        or request_decoding.system(told),
        tools=tuple(
            it for about in tools for it in request_decoding.tool(about, about.get("input_schema"))
        ),
        temperature=request_decoding.number(body.get("temperature")),
        top_p=request_decoding.number(body.get("top_p")),
        reasons=request_decoding.is_on(lenient_json.fields(body.get("thinking")).get("type")),
        signs=True,
        schema=request_decoding.structure(asked, asked.get("schema")),
    )


def _messages(body: Fields) -> Iterator[Message]:
    for said in lenient_json.objects(body.get("messages")):
        if role := request_decoding.role(said.get("role")):
            yield request_decoding.message(role, _parts(said.get("content")))


def _parts(content: Json) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(content)
    for block in lenient_json.objects(content):
        if part := _part(block):
            yield part


def _part(block: Fields) -> Part | None:
    """What a block says; those that answers have, too, are read as they are there."""
    match block.get("type"):
        case "text":
            return Text(lenient_json.text(block.get("text")))
        case "thinking":
            seal = lenient_json.text(block.get("signature"))
            return Reasoning(lenient_json.text(block.get("thinking")), seal or None)
        case "redacted_thinking":
            return Reasoning(redacted=lenient_json.text(block.get("data")) or None)
        case "image" | "document" as kind:
            return _media(lenient_json.fields(block.get("source")), _MEDIA[kind])
        case it if it == _RESULT:
            return _result(block)
        case _:
            return block_decoder.part(Block(block, closed=True).content(), {})


def _result(block: Fields) -> ToolResult:
    return ToolResult(
        request_decoding.said(block.get("tool_use_id")),
        request_decoding.in_words(block.get("content")),
        failed=block.get("is_error") is True,
    )


def _media(source: Fields, kind: str) -> Part:
    """An image or a document, inline or by its address; a document in words is text."""
    data = lenient_json.text(source.get("data"))
    if source.get("type") == "text":
        return Text(data)
    media_type = lenient_json.text(source.get("media_type")) or kind
    return Media(media_type, url=lenient_json.text(source.get("url")), base64=data)


def completion(body: Fields) -> Conversation:
    """The conversation that a prompt spells; one without speakers is what the user says."""
    prompt = request_decoding.said(body.get("prompt"))
    before, *rest = _SPEAKERS.split(prompt)
    turns = list(zip(rest[::2], (it.strip() for it in rest[1::2]), strict=True))
    if turns and turns[-1] == ("Assistant", ""):
        turns.pop()  # the place of the answer
    spoken = [(_ROLES[who], text) for who, text in turns] or [("user", before)]
    return Conversation(
        tuple(request_decoding.message(role, [Text(text)]) for role, text in spoken),
        system=before.strip() if rest else "",
        temperature=request_decoding.number(body.get("temperature")),
        top_p=request_decoding.number(body.get("top_p")),
    )
