"""What Amazon Bedrock's Converse asks, and Amazon's own models in its shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, Message, Tool
from llm_proxy.dialects import conversing, reading
from llm_proxy.dialects.bedrock import converse
from llm_proxy.dialects.reading import Fields
from llm_proxy.turns import Json, Media, Part, Text, ToolResult

_SWITCHES: Final = ("thinking", "reasoning_config", "reasoningConfig", "reasoning_effort")
"""What switches reasoning on, as each maker calls it: in a field for what Converse has no word."""


def read(body: Fields) -> Conversation:
    """The conversation that a body holds."""
    messages = conversing.in_order(_messages(body))
    config = reading.fields(body.get("inferenceConfig"))
    own = {**body, **reading.fields(body.get("additionalModelRequestFields"))}
    top_p = config.get("topP", config.get("top_p"))
    system = [part for it in reading.objects(body.get("system")) for part in _part(it)]
    return Conversation(
        messages,
        system=conversing.message("system", system).text or conversing.system(messages),
        tools=tuple(_tools(reading.fields(body.get("toolConfig")))),
        temperature=conversing.number(config.get("temperature")),
        top_p=conversing.number(top_p),
        reasons=any(conversing.is_on(own.get(it)) for it in _SWITCHES),
        schema=_structure(reading.fields(body.get("outputConfig"))),
    )


def _messages(body: Fields) -> Iterator[Message]:
    for said in reading.objects(body.get("messages")):
        if role := conversing.role(said.get("role")):
            blocks = reading.objects(said.get("content"))
            yield conversing.message(role, (part for it in blocks for part in _part(it)))


def _part(block: Fields) -> Iterator[Part]:
    """What a block says; those that answers have, too, are read as they are there."""
    for part in converse.parts(block):
        contents = reading.fields(block.get("toolResult")).get("content")
        yield _together(part, contents) if isinstance(part, ToolResult) else part
    if guarded := reading.fields(reading.fields(block.get("guardContent")).get("text")):
        yield Text(reading.text(guarded.get("text")))
    if document := reading.fields(block.get("document")):
        yield _document(document)


def _together(result: ToolResult, contents: Json) -> ToolResult:
    """A result whose texts are as apart as those of other wires."""
    texts = [it.text for it in conversing.texts(contents) if it.text]
    return replace(result, content="\n".join(texts) or result.content)


def _document(said: Fields) -> Media:
    """A document: its format comes first."""
    source = reading.fields(said.get("source"))
    where = reading.fields(source.get("s3Location")).get("uri")
    form = reading.text(said.get("format")) or "*"
    return Media(f"application/{form}", reading.text(where), reading.text(source.get("bytes")))


def _tools(config: Fields) -> Iterator[Tool]:
    for it in reading.objects(config.get("tools")):
        about = reading.fields(it.get("toolSpec") or it.get("systemTool"))
        yield from conversing.tool(about, reading.fields(about.get("inputSchema")).get("json"))


def _structure(config: Fields) -> Json:
    """The schema of the answer, which is spelled as text."""
    asked = reading.fields(config.get("textFormat"))
    wrapped = reading.fields(reading.fields(asked.get("structure")).get("jsonSchema"))
    spelled = reading.document(reading.text(wrapped.get("schema")).encode("utf-8", "replace"))
    return conversing.structure(asked, dict(spelled))
