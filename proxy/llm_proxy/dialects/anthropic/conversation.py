"""What Anthropic's messages ask, and its legacy completions, wherever they are spoken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, Message, Role
from llm_proxy.dialects import conversing, reading
from llm_proxy.dialects.anthropic import blocks
from llm_proxy.dialects.anthropic.blocks import Block
from llm_proxy.dialects.reading import Fields
from llm_proxy.turns import Json, Media, Part, Reasoning, Text, ToolResult

_RESULT: Final = "tool_result"
"""The type of what a tool of the client's gave."""
_MEDIA: Final = {"image": "image/*", "document": "*/*"}

_SPEAKERS: Final = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
"""Who speaks in a prompt."""
_ROLES: Final[dict[str, Role]] = {"Human": "user", "Assistant": "assistant"}


def messages(body: Fields) -> Conversation:
    """The conversation that a request for a message holds."""
    told = conversing.in_order(_messages(body))
    config = reading.fields(body.get("output_config"))
    asked = reading.fields(config.get("format") or body.get("output_format"))
    tools = reading.objects(body.get("tools"))
    return Conversation(
        told,
        system=conversing.message("system", conversing.texts(body.get("system"))).text
        or conversing.system(told),
        tools=tuple(
            it for about in tools for it in conversing.tool(about, about.get("input_schema"))
        ),
        temperature=conversing.number(body.get("temperature")),
        top_p=conversing.number(body.get("top_p")),
        reasons=conversing.is_on(reading.fields(body.get("thinking")).get("type")),
        signs=True,
        schema=conversing.structure(asked, asked.get("schema")),
    )


def _messages(body: Fields) -> Iterator[Message]:
    for said in reading.objects(body.get("messages")):
        if role := conversing.role(said.get("role")):
            yield conversing.message(role, _parts(said.get("content")))


def _parts(content: Json) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(content)
    for block in reading.objects(content):
        if part := _part(block):
            yield part


def _part(block: Fields) -> Part | None:
    """What a block says; those that answers have, too, are read as they are there."""
    match block.get("type"):
        case "text":
            return Text(reading.text(block.get("text")))
        case "thinking":
            seal = reading.text(block.get("signature"))
            return Reasoning(reading.text(block.get("thinking")), seal or None)
        case "redacted_thinking":
            return Reasoning(redacted=reading.text(block.get("data")) or None)
        case "image" | "document" as kind:
            return _media(reading.fields(block.get("source")), _MEDIA[kind])
        case it if it == _RESULT:
            return _result(block)
        case _:
            return blocks.part(Block(block, closed=True).content(), {})


def _result(block: Fields) -> ToolResult:
    return ToolResult(
        conversing.said(block.get("tool_use_id")),
        conversing.in_words(block.get("content")),
        failed=block.get("is_error") is True,
    )


def _media(source: Fields, kind: str) -> Part:
    """An image or a document, inline or by its address; a document in words is text."""
    data = reading.text(source.get("data"))
    if source.get("type") == "text":
        return Text(data)
    media_type = reading.text(source.get("media_type")) or kind
    return Media(media_type, url=reading.text(source.get("url")), base64=data)


def completion(body: Fields) -> Conversation:
    """The conversation that a prompt spells; one without speakers is what the user says."""
    prompt = conversing.said(body.get("prompt"))
    before, *rest = _SPEAKERS.split(prompt)
    turns = list(zip(rest[::2], (it.strip() for it in rest[1::2]), strict=True))
    if turns and turns[-1] == ("Assistant", ""):
        turns.pop()  # the place of the answer
    spoken = [(_ROLES[who], text) for who, text in turns] or [("user", before)]
    return Conversation(
        tuple(conversing.message(role, [Text(text)]) for role, text in spoken),
        system=before.strip() if rest else "",
        temperature=conversing.number(body.get("temperature")),
        top_p=conversing.number(body.get("top_p")),
    )
