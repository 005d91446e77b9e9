"""Decodes requests of Converse, and of Amazon's own models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.bedrock import converse_decoder
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Media, Part, Text, ToolResult

_SWITCHES: Final = ("thinking", "reasoning_config", "reasoningConfig", "reasoning_effort")
"""What switches reasoning on, as each maker calls it: in a field for what Converse has no word."""


def decode_request(body: Fields) -> Conversation:
    """The conversation that a body holds."""
    messages = request_decoding.merge_adjacent_roles(_decode_messages(body))
    config = lenient_json.object_fields(body.get("inferenceConfig"))
    own = {**body, **lenient_json.object_fields(body.get("additionalModelRequestFields"))}
    top_p = config.get("topP", config.get("top_p"))
    system = [
        part
        for object_item in lenient_json.object_items(body.get("system"))
        for part in _decode_part(object_item)
    ]
    return Conversation(
        messages,
        system=request_decoding.request_message("system", system).text
        or request_decoding.leading_system_prompt(messages),
        tools=tuple(_decode_tools(lenient_json.object_fields(body.get("toolConfig")))),
        temperature=request_decoding.decode_number(config.get("temperature")),
        top_p=request_decoding.decode_number(top_p),
        reasoning_enabled=any(
            request_decoding.is_reasoning_enabled(own.get(switch)) for switch in _SWITCHES
        ),
        response_schema=_response_schema(lenient_json.object_fields(body.get("outputConfig"))),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    for object_item in lenient_json.object_items(body.get("messages")):
        if role := request_decoding.decode_role(object_item.get("role")):
            blocks = lenient_json.object_items(object_item.get("content"))
            yield request_decoding.request_message(
                role, (part for block in blocks for part in _decode_part(block))
            )


def _decode_part(block: Fields) -> Iterator[Part]:
    """What a block says; those that answers have, too, are read as they are there."""
    for part in converse_decoder.decode_parts(block):
        contents = lenient_json.object_fields(block.get("toolResult")).get("content")
        yield _merge_result_texts(part, contents) if isinstance(part, ToolResult) else part
    if guarded := lenient_json.object_fields(
        lenient_json.object_fields(block.get("guardContent")).get("text")
    ):
        yield Text(lenient_json.str_or_empty(guarded.get("text")))
    if document := lenient_json.object_fields(block.get("document")):
        yield _decode_document(document)


def _merge_result_texts(result: ToolResult, contents: Json) -> ToolResult:
    texts = [
        decode_text.text
        for decode_text in request_decoding.decode_texts(contents)
        if decode_text.text
    ]
    return replace(result, content="\n".join(texts) or result.content)


def _decode_document(fields: Fields) -> Media:
    """A document: its format comes first."""
    source = lenient_json.object_fields(fields.get("source"))
    where = lenient_json.object_fields(source.get("s3Location")).get("uri")
    form = lenient_json.str_or_empty(fields.get("format")) or "*"
    return Media(
        f"application/{form}",
        lenient_json.str_or_empty(where),
        lenient_json.str_or_empty(source.get("bytes")),
    )


def _decode_tools(config: Fields) -> Iterator[ToolDefinition]:
    for object_item in lenient_json.object_items(config.get("tools")):
        fields = lenient_json.object_fields(
            object_item.get("toolSpec") or object_item.get("systemTool")
        )
        yield from request_decoding.decode_tool(
            fields, lenient_json.object_fields(fields.get("inputSchema")).get("json")
        )


def _response_schema(config: Fields) -> Json:
    fields = lenient_json.object_fields(config.get("textFormat"))
    wrapped = lenient_json.object_fields(
        lenient_json.object_fields(fields.get("structure")).get("jsonSchema")
    )
    spelled = lenient_json.parse_object(
        lenient_json.str_or_empty(wrapped.get("schema")).encode("utf-8", "replace")
    )
    return request_decoding.response_schema(fields, dict(spelled))
