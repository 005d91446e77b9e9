"""Decodes and encodes Anthropic requests.

Reasoning goes back as its response had it; unsigned reasoning is left out, since Anthropic refuses
it.  A refusal of the model is sent as text.  Legacy prompts are decoded, and not encoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from llm_proxy.conversation import Conversation, ForcedTool, RequestMessage, Role, ToolDefinition
from llm_proxy.dialects import encoding, request_decoding, request_encoding
from llm_proxy.dialects.anthropic import blocks
from llm_proxy.dialects.encoding import normalized_object_json
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_object,
    get_objects,
    get_string,
    object_fields,
    parse_json,
)
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Headers, Request
from llm_proxy.turns import Json, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

VERSION_HEADER: Final = "anthropic-version"
"""The header that all clients of Anthropic's API send, and no other client."""
VERSION_HEADERS: Final[Headers] = ((VERSION_HEADER, "2023-06-01"),)
"""The version of the API that requests have: later ones refuse `temperature` and `top_p`."""

_DIALECT: Final = "anthropic"
_PATH: Final = "/v1/messages"

_DEFAULT_MAX_TOKENS: Final = 8192
"""The most tokens of a response, which every request has to limit."""

_OPTION_NAMES: Final[OptionNames] = {
    "max_tokens": ("max_tokens",),
    "top_k": ("top_k",),
    "stop_sequences": ("stop_sequences",),
}
_CHOICE_TYPES: Final = {"auto": "auto", "none": "none", "required": "any"}

_DEFAULT_MEDIA_TYPES: Final = {"image": "image/*", "document": "*/*"}
_DOCUMENT_TYPES: Final = ("application/pdf", "*/*")

_SPEAKER_PREFIX: Final = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
"""The prefix of each message in a prompt."""
_ROLES: Final[dict[str, Role]] = {"Human": "user", "Assistant": "assistant"}


def decode_request(body: Fields) -> Conversation:
    """The conversation of a Messages request."""
    output_config = get_object(body, "output_config")
    output_format = object_fields(output_config.get("format") or body.get("output_format"))
    system = request_decoding.request_message(
        "system", request_decoding.decode_texts(body.get("system"))
    )
    return replace(
        request_decoding.conversation(_decode_messages(body), body, system.text),
        tools=tuple(
            definition
            for tool in get_objects(body, "tools")
            for definition in request_decoding.decode_tool(tool, tool.get("input_schema"))
        )
        + tuple(
            ToolDefinition(get_string(server, "name"), built_in_type="mcp_servers")
            for server in get_objects(body, "mcp_servers")
        ),
        reasoning_enabled=request_decoding.is_reasoning_enabled(
            get_object(body, "thinking").get("type")
        ),
        wants_signed_reasoning=True,
        response_schema=request_decoding.response_schema(
            output_format, output_format.get("schema")
        ),
        tool_choice=request_decoding.decode_tool_choice(body.get("tool_choice")),
        **request_decoding.decode_options(body, _OPTION_NAMES),
    )


def _decode_messages(body: Fields) -> Iterator[RequestMessage]:
    for message in get_objects(body, "messages"):
        if role := request_decoding.decode_role(message.get("role")):
            text = Text(get_string(message, "content"))
            block_parts = map(_decode_part, get_objects(message, "content"))
            parts = [text, *(part for part in block_parts if part)]
            yield request_decoding.request_message(role, parts)


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
    return request_decoding.conversation(
        (request_decoding.request_message(role, [Text(text)]) for role, text in messages),
        body,
        preamble.strip() if speaker_pieces else "",
    )


def encode_request(conversation: Conversation, *, stream: bool) -> Request:
    """The request for the next message.

    Raises `NotRepresentable` for what the format lacks.
    """
    conversation = request_encoding.prepared_conversation(
        _DIALECT,
        conversation,
        request_encoding.PROVIDER_TOOL_MESSAGE_PARTS,
        (blocks.TOOL_USE,),
        is_empty=request_encoding.is_blank_part,
    )
    request_encoding.refuse_stored_state(_DIALECT, conversation)
    system, messages = request_encoding.split_system_messages(_DIALECT, conversation)
    body: Document = {
        "model": conversation.model,
        "max_tokens": _DEFAULT_MAX_TOKENS,
        "messages": request_encoding.with_content(
            _DIALECT, messages, filter(_has_content, map(_encode_message, messages))
        ),
    }
    if system.strip():
        body["system"] = system
    if stream:
        body["stream"] = True
    if conversation.tools:
        body["tools"] = [*map(_encode_tool, conversation.tools)]
    match request_encoding.checked_tool_choice(_DIALECT, conversation):
        case ForcedTool(name):
            body["tool_choice"] = {"type": "tool", "name": name}
        case str() as choice:
            body["tool_choice"] = {"type": _CHOICE_TYPES[choice]}
        case None:
            pass
    body |= request_encoding.encode_options(_DIALECT, conversation, _OPTION_NAMES)
    if conversation.response_schema is not None:
        body["output_config"] = {"format": _encode_output_format(conversation.response_schema)}
    return request_encoding.post_request(_DIALECT, _PATH, body, conversation, VERSION_HEADERS)


def _encode_tool(tool: ToolDefinition) -> Document:
    """A tool; its schema always has the type `object`, which the API requires."""
    function = request_encoding.encode_function(_DIALECT, tool, "input_schema")
    return {**function, "input_schema": {"type": "object", **function.get("input_schema", {})}}


def _encode_output_format(response_schema: Json) -> Document:
    schema = request_encoding.checked_schema(_DIALECT, "response_schema", response_schema)
    if not schema:
        raise request_encoding.refusal(_DIALECT, "an empty response_schema")
    return {"type": "json_schema", "schema": schema}


def _encode_message(message: RequestMessage) -> Document:
    """A message; its content is a string if it is one text."""
    is_model = message.role == "assistant"
    content = [
        block
        for part in message.parts
        if (block := _encode_model_part(part) if is_model else _encode_user_part(part))
    ]
    encoded: Document = {"role": "assistant" if is_model else "user", "content": content}
    match content:
        case [{"type": "text", "text": text, **others}] if not others:
            return {**encoded, "content": text}
        case _:
            return encoded


def _has_content(message: Document) -> bool:
    """Whether a message is to be sent: the API refuses one without content."""
    return bool(message["content"])


def _encode_user_part(part: Part) -> Document:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Media():
            return _encode_media(part)
        case ToolResult(call_id=call_id, content=content, failed=failed):
            result: Document = {"type": "tool_result", "tool_use_id": call_id, "content": content}
            return {**result, "is_error": True} if failed else result
        case _:
            raise request_encoding.part_refusal(_DIALECT, part, "user")


def _encode_media(media: Media) -> Document:
    """An image, or a PDF document."""
    is_image = media.media_type.startswith("image/")
    is_document = media.media_type in _DOCUMENT_TYPES[: 1 if media.base64 else None]
    if not (is_image or is_document) or not (media.base64 or media.url):
        raise request_encoding.media_refusal(_DIALECT, media)
    source: Document = (
        {"type": "base64", "media_type": media.media_type, "data": media.base64}
        if media.base64
        else {"type": "url", "url": media.url}
    )
    return {"type": "image" if is_image else "document", "source": source}


def _encode_model_part(part: Part) -> Document | None:
    """A block as its response had it; None for reasoning that cannot be sent back."""
    kind = blocks.original_type(part)
    match part:
        case Refusal(text=text):
            return {"type": "text", "text": text}
        case Text():
            # citations of another provider refer to what Anthropic does not know
            citations = tuple(filter(blocks.original_type, part.citations))
            return blocks.encode_block(replace(part, citations=citations), "", ())
        case Reasoning() if kind != blocks.COMPACTION:
            is_own = request_encoding.is_signed_reasoning(part)
            return blocks.encode_block(part, "", ()) if is_own else None
        case ToolCall():
            arguments = normalized_object_json(part.arguments or "{}")
            if arguments is None:
                raise encoding.arguments_error(_DIALECT, part)
            block = blocks.encode_block(part, "", ())
            del block["partial_json"]
            return {**block, "input": parse_json(arguments.encode())}
        case ToolResult() if not kind.endswith(blocks.TOOL_RESULT_SUFFIX):
            raise request_encoding.part_refusal(_DIALECT, part, "assistant")
        case Media() if blocks.representable_part(part) is None:
            raise request_encoding.part_refusal(_DIALECT, part, "assistant")
        case _:
            return blocks.encode_block(part, "", ())
