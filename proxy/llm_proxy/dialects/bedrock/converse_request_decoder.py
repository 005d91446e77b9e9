"""What Amazon Bedrock's Converse asks, and Amazon's own models in its shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, Message, Tool
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.bedrock import converse_decoder
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Media, Part, Text, ToolResult

_SWITCHES: Final = ("thinking", "reasoning_config", "reasoningConfig", "reasoning_effort")
"""What switches reasoning on, as each maker calls it: in a field for what Converse has no word."""


def read(body: Fields) -> Conversation:
    """The conversation that a body holds."""
    messages = request_decoding.in_order(_messages(body))
    config = lenient_json.fields(body.get("inferenceConfig"))
    own = {**body, **lenient_json.fields(body.get("additionalModelRequestFields"))}
    top_p = config.get("topP", config.get("top_p"))
    system = [part for it in lenient_json.objects(body.get("system")) for part in _part(it)]
    return Conversation(
        messages,
        system=request_decoding.message("system", system).text or request_decoding.system(messages),
        tools=tuple(_tools(lenient_json.fields(body.get("toolConfig")))),
        temperature=request_decoding.number(config.get("temperature")),
        top_p=request_decoding.number(top_p),
        reasons=any(request_decoding.is_on(own.get(it)) for it in _SWITCHES),
        schema=_structure(lenient_json.fields(body.get("outputConfig"))),
    )


def _messages(body: Fields) -> Iterator[Message]:
    for said in lenient_json.objects(body.get("messages")):
        if role := request_decoding.role(said.get("role")):
            blocks = lenient_json.objects(said.get("content"))
            yield request_decoding.message(role, (part for it in blocks for part in _part(it)))


def _part(block: Fields) -> Iterator[Part]:
    """What a block says; those that answers have, too, are read as they are there."""
    for part in converse_decoder.parts(block):
        contents = lenient_json.fields(block.get("toolResult")).get("content")
        yield _together(part, contents) if isinstance(part, ToolResult) else part
    if guarded := lenient_json.fields(lenient_json.fields(block.get("guardContent")).get("text")):
        yield Text(lenient_json.text(guarded.get("text")))
    if document := lenient_json.fields(block.get("document")):
        yield _document(document)


def _together(result: ToolResult, contents: Json) -> ToolResult:
    """A result whose texts are as apart as those of other wires."""
    texts = [it.text for it in request_decoding.texts(contents) if it.text]
    return replace(result, content="\n".join(texts) or result.content)


def _document(said: Fields) -> Media:
    """A document: its format comes first."""
    source = lenient_json.fields(said.get("source"))
    where = lenient_json.fields(source.get("s3Location")).get("uri")
    form = lenient_json.text(said.get("format")) or "*"
    return Media(
        f"application/{form}", lenient_json.text(where), lenient_json.text(source.get("bytes"))
    )


def _tools(config: Fields) -> Iterator[Tool]:
    for it in lenient_json.objects(config.get("tools")):
        about = lenient_json.fields(it.get("toolSpec") or it.get("systemTool"))
        yield from request_decoding.tool(
            about, lenient_json.fields(about.get("inputSchema")).get("json")
        )


def _structure(config: Fields) -> Json:
    """The schema of the answer, which is spelled as text."""
    asked = lenient_json.fields(config.get("textFormat"))
    wrapped = lenient_json.fields(lenient_json.fields(asked.get("structure")).get("jsonSchema"))
    spelled = lenient_json.document(
        lenient_json.text(wrapped.get("schema")).encode("utf-8", "replace")
    )
    return request_decoding.structure(asked, dict(spelled))
