"""Decodes requests of Converse, and of Amazon's own models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, ToolDefinition
from llm_proxy.dialects import request_decoding
from llm_proxy.dialects.bedrock import converse_blocks
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_object,
    get_objects,
    get_string,
    object_fields,
    parse_object,
    str_or_empty,
)
from llm_proxy.turns import Json, Media, Part, Text, ToolResult

_REASONING_SWITCHES: Final = ("thinking", "reasoning_config", "reasoningConfig", "reasoning_effort")
"""The switch of reasoning, as each maker names it in `additionalModelRequestFields`."""


def decode_request(body: Fields) -> Conversation:
    """The conversation of a Converse request body."""
    inference_config = get_object(body, "inferenceConfig")
    request_fields = {
        **body,
        **get_object(body, "additionalModelRequestFields"),
    }
    top_p_name = "topP" if "topP" in inference_config else "top_p"
    system = [part for block in get_objects(body, "system") for part in _decode_part(block)]
    return replace(
        request_decoding.conversation(
            _decode_messages(body),
            inference_config,
            request_decoding.request_message("system", system).text,
            top_p_name=top_p_name,
        ),
        tools=tuple(_decode_tools(get_object(body, "toolConfig"))),
        reasoning_enabled=any(
            request_decoding.is_reasoning_enabled(request_fields.get(switch))
            for switch in _REASONING_SWITCHES
        ),
        response_schema=_response_schema(get_object(body, "outputConfig")),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    for message in get_objects(body, "messages"):
        if role := request_decoding.decode_role(message.get("role")):
            blocks = get_objects(message, "content")
            yield request_decoding.request_message(
                role, (part for block in blocks for part in _decode_part(block))
            )


def _decode_part(block: Fields) -> Iterator[Part]:
    """The parts of a block; blocks that responses have, too, are decoded as there."""
    for part in converse_blocks.decode_parts(block):
        result_content = get_object(block, "toolResult").get("content")
        yield _merge_result_texts(part, result_content) if isinstance(part, ToolResult) else part
    if guarded := get_object(get_object(block, "guardContent"), "text"):
        yield Text(get_string(guarded, "text"))
    if document := get_object(block, "document"):
        yield _decode_document(document)


def _merge_result_texts(result: ToolResult, contents: Json) -> ToolResult:
    texts = [text.text for text in request_decoding.decode_texts(contents) if text.text]
    return replace(result, content="\n".join(texts) or result.content)


def _decode_document(fields: Fields) -> Media:
    """A document, inline or in S3."""
    source = get_object(fields, "source")
    s3_uri = get_object(source, "s3Location").get("uri")
    format_name = get_string(fields, "format") or "*"
    return Media(
        f"application/{format_name}",
        str_or_empty(s3_uri),
        get_string(source, "bytes"),
    )


def _decode_tools(config: Fields) -> Iterator[ToolDefinition]:
    for tool in get_objects(config, "tools"):
        fields = object_fields(tool.get("toolSpec") or tool.get("systemTool"))
        kind = "systemTool" if "systemTool" in tool else ""
        yield from request_decoding.decode_tool(
            {**fields, "type": kind}, get_object(fields, "inputSchema").get("json")
        )


def _response_schema(config: Fields) -> Json:
    text_format = get_object(config, "textFormat")
    json_schema = get_object(get_object(text_format, "structure"), "jsonSchema")
    schema = parse_object(get_string(json_schema, "schema").encode("utf-8", "replace"))
    return request_decoding.response_schema(text_format, dict(schema))
