"""Decodes and encodes the requests of Google's Interactions API: contents, steps or turns.

A request is encoded as steps, those of the model as its response had them.  Reasoning goes back
with its signature; what another provider encrypted is left out.  A refusal of the model is sent as
text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage, ToolChoice
from llm_proxy.dialects import request_decoding, request_encoding
from llm_proxy.dialects.google import interaction_steps, shared_requests
from llm_proxy.dialects.google.interaction_steps import DIALECT, MEDIA_KINDS, StepDecoder
from llm_proxy.dialects.google.shared_requests import JSON_MIME_TYPE, decode_schema
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_object,
    get_objects,
    get_string,
    object_fields,
    one_or_more_objects,
)
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Json, Media, Part, Text, ToolResult

_PATH: Final = "/v1/interactions"

_CONTENT_TYPES: Final = ("text", *MEDIA_KINDS)
_INPUT_STEP, _OUTPUT_STEP, _RESULT_STEP = "user_input", "model_output", "function_result"
_MODEL_STEPS: Final = (_OUTPUT_STEP, "thought")
"""Types of steps of the model, to which calls and results of Google's tools are added."""

_OPTION_NAMES: Final[OptionNames] = {
    "max_tokens": ("max_output_tokens",),
    "seed": ("seed",),
    "stop_sequences": ("stop_sequences",),
}


def decode_request(body: Fields) -> Conversation:
    """The conversation of the body of a new interaction."""
    config = get_object(body, "generation_config")
    return replace(
        request_decoding.conversation(
            _decode_steps(body.get("input")),
            config,
            request_decoding.text_or_empty(body.get("system_instruction")),
            mergeable_roles=("assistant", "tool"),
        ),
        tools=tuple(
            definition
            for tool in get_objects(body, "tools")
            for definition in request_decoding.decode_tool(
                tool, decode_schema(tool.get("parameters"))
            )
        ),
        reasoning_enabled=request_decoding.is_reasoning_enabled(config.get("thinking_level")),
        response_schema=_decode_response_schema(body),
        previous_response_id=request_decoding.text_or_empty(body.get("previous_interaction_id")),
        is_stored_by_provider=body.get("store") is not False,
        model=request_decoding.text_or_empty(body.get("model")),
        tool_choice=_decode_tool_choice(config.get("tool_choice")),
        **request_decoding.decode_options(config, _OPTION_NAMES),
    )


def _decode_tool_choice(value: Json) -> ToolChoice | None:
    """A mode, or an object with the mode and the tools that it allows."""
    allowed = get_object(object_fields(value), "allowed_tools")
    mode = allowed.get("mode") if allowed else value
    return shared_requests.decode_tool_choice(mode, allowed.get("tools"))


def _decode_steps(value: Json) -> Iterator[RequestMessage]:
    """The input as turns or steps; contents alone become one step of the user."""
    items = one_or_more_objects(
        {"type": "text", "text": value} if isinstance(value, str) else value
    )
    if items and all(item.get("type") in _CONTENT_TYPES for item in items):
        items = [{"type": _INPUT_STEP, "content": [dict(item) for item in items]}]
    for item in items:
        kind, content = get_string(item, "type"), item.get("content")
        if "role" in item:
            if role := request_decoding.decode_role(item.get("role")):
                yield request_decoding.request_message(role, _decode_step_contents(content))
        elif kind == _INPUT_STEP:
            yield request_decoding.request_message("user", _decode_step_contents(content))
        elif kind in _CONTENT_TYPES:
            yield request_decoding.request_message("user", _decode_step_contents(dict(item)))
        elif kind == _RESULT_STEP:
            yield request_decoding.request_message("tool", _decode_step_contents(dict(item)))
        elif kind in _MODEL_STEPS or kind.endswith(("_call", "_result")):
            parts = _decode_step_contents(content if kind == _OUTPUT_STEP else dict(item))
            yield request_decoding.request_message("assistant", parts)


def _decode_step_contents(value: Json) -> Iterator[Part]:
    """The parts of a step or content, of a list of contents, or of a string."""
    for content in value if isinstance(value, list) else [value]:
        fields: Fields = {"type": "text", "text": content}
        if not isinstance(content, str):
            fields = object_fields(content)
        if fields.get("type") == _RESULT_STEP:
            yield ToolResult(
                get_string(fields, "call_id"),
                request_decoding.tool_output_text(fields.get("result")),
                get_string(fields, "name"),
                failed=fields.get("is_error") is True,
            )
            continue
        step = StepDecoder()
        step.feed(fields)
        yield from step.parts()


def _decode_response_schema(body: Fields) -> Json:
    """The response schema of a `text` format, or of the older format, which is a schema.

    `{}` for any JSON, None for text.
    """
    for response_format in one_or_more_objects(body.get("response_format")):
        if response_format.get("type") == "text":
            is_json = response_format.get("mime_type") == JSON_MIME_TYPE
            schema = decode_schema(response_format.get("schema"))
            return request_decoding.first_schema(schema) or ({} if is_json else None)
        if response_format.get("type") not in MEDIA_KINDS:
            return decode_schema(dict(response_format))
    return {} if body.get("response_mime_type") == JSON_MIME_TYPE else None


def encode_request(conversation: Conversation, *, stream: bool) -> Request:
    """The request for a new interaction, with the whole history unless it continues another.

    Raises `NotRepresentable` for what the format lacks.
    """
    conversation = request_encoding.prepared_conversation(
        DIALECT,
        conversation,
        request_encoding.PROVIDER_TOOL_MESSAGE_PARTS,
        interaction_steps.SERVER_CALL_KINDS,
    )
    if conversation.stored_conversation_id:
        raise request_encoding.refusal(DIALECT, "stored_conversation_id")
    system, messages = request_encoding.split_system_messages(DIALECT, conversation)
    body: Document = {
        "model": conversation.model,
        "input": [step for message in messages for step in _encode_message(message)],
    }
    if system:
        body["system_instruction"] = system
    if conversation.tools:
        body["tools"] = [
            {"type": "function", **request_encoding.encode_function(DIALECT, tool)}
            for tool in conversation.tools
        ]
    config = request_encoding.encode_options(DIALECT, conversation, _OPTION_NAMES)
    if choice := request_encoding.checked_tool_choice(DIALECT, conversation):
        mode, names = shared_requests.encode_tool_choice(choice)
        config["tool_choice"] = {"allowed_tools": {"mode": mode, "tools": names}} if names else mode
    if config:
        body["generation_config"] = config
    if conversation.response_schema is not None:
        body["response_format"] = _encode_response_format(conversation.response_schema)
    if conversation.previous_response_id:
        body["previous_interaction_id"] = conversation.previous_response_id
    if stream:
        body["stream"] = True
    return request_encoding.post_request(DIALECT, _PATH, body, conversation)


def _encode_response_format(response_schema: Json) -> Document:
    schema = request_encoding.checked_schema(DIALECT, "response_schema", response_schema)
    schema_field = {"schema": schema} if schema else {}
    return {"type": "text", "mime_type": JSON_MIME_TYPE, **schema_field}


def _encode_message(message: RequestMessage) -> Iterator[Document]:
    """The steps of a message: of the model, or a user's contents and results."""
    if message.role == "assistant":
        yield from filter(None, map(_encode_model_part, message.parts))
        return
    for are_results, group in groupby(message.parts, lambda part: isinstance(part, ToolResult)):
        if are_results:
            yield from (_encode_result(part) for part in group if isinstance(part, ToolResult))
        else:
            yield {"type": _INPUT_STEP, "content": [*map(_encode_content, group)]}


def _encode_result(result: ToolResult) -> Document:
    """The result of a client's tool, as text."""
    return {
        "type": _RESULT_STEP,
        "call_id": result.call_id,
        **({"name": result.name} if result.name else {}),
        "result": result.content,
        **({"is_error": True} if result.failed else {}),
    }


def _encode_content(part: Part) -> Document:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Media():
            return _encode_media(part)
        case _:
            raise request_encoding.part_refusal(DIALECT, part, "user")


def _encode_media(media: Media) -> Document:
    shared_requests.check_media(DIALECT, media)
    content = interaction_steps.encode_media(replace(media, url="") if media.base64 else media)
    if not shared_requests.has_known_type(media):
        del content["mime_type"]
    return content


def _encode_model_part(part: Part) -> Document | None:
    """A step as its response had it; None for reasoning that cannot be sent back."""
    if isinstance(part, Media):
        return {"type": _OUTPUT_STEP, "content": [_encode_media(part)]}
    own_part = shared_requests.own_part(DIALECT, part, interaction_steps.is_own_result)
    sendable = own_part and interaction_steps.sendable_part(own_part)
    return None if sendable is None else interaction_steps.encode_step(sendable)
