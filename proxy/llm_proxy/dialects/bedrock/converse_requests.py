"""Decodes requests of Converse and of Amazon's own models, and encodes those of Converse.

The API refuses messages of one role in a row: adjacent ones are sent as one, also a tool's results
and what the user adds.  Each document needs a name, which the model reads: it is numbered, since
two with one name are refused, and neutral, since a name can be read as an instruction.

There is no tool choice `none`: no tools are sent then.  The API refuses calls in the history
without tools, so `none` is refused there.  Reasoning goes back as its response had it; unsigned
reasoning is left out, since Claude refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count, groupby
from typing import Final
from urllib.parse import quote

from llm_proxy.conversation import (
    Conversation,
    ForcedTool,
    RequestMessage,
    ToolChoice,
    ToolDefinition,
)
from llm_proxy.dialects import encoding, request_decoding, request_encoding
from llm_proxy.dialects.bedrock import converse_blocks
from llm_proxy.dialects.encoding import normalized_object_json
from llm_proxy.dialects.lenient_json import (
    Fields,
    compact_json,
    get_object,
    get_objects,
    get_string,
    object_fields,
    parse_object,
    str_or_empty,
)
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.request_encoding import MESSAGE_PARTS, PartKinds
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Json, Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

MODEL_SEGMENT: Final = "/model/"
"""What is before the model in a path."""
CONVERSE: Final = "converse"
CONVERSE_STREAM: Final = "converse-stream"
"""The operations of Converse: the last segment of a path."""

_DIALECT: Final = "bedrock"

_REASONING_SWITCHES: Final = ("thinking", "reasoning_config", "reasoningConfig", "reasoning_effort")
"""The switch of reasoning, as each maker names it in `additionalModelRequestFields`."""

_OPTION_NAMES: Final[OptionNames] = {
    "top_p": ("topP", "top_p"),
    "max_tokens": ("maxTokens", "max_new_tokens"),
    "top_k": ("topK", "top_k"),
    "stop_sequences": ("stopSequences",),
}
_TOP_K: Final = _OPTION_NAMES["top_k"][0]
_CHOICE_NAMES: Final = {"auto": "auto", "required": "any"}
_PART_KINDS: Final[PartKinds] = {
    **MESSAGE_PARTS,
    "user": (*MESSAGE_PARTS["user"], ToolResult),
    "assistant": (*MESSAGE_PARTS["assistant"], ToolResult),
}
"""The API takes no media in a message of the model."""

_DOCUMENT_TYPES: Final = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
    "": "application/*",
}
"""The media type of each format of documents; the format may be missing."""
_DOCUMENT_FORMATS: Final = {media_type: name for name, media_type in _DOCUMENT_TYPES.items()}

_FORMATS_BY_SUBTYPE: Final = {
    "jpg": "jpeg",
    "x-wav": "wav",
    "x-m4a": "m4a",
    "quicktime": "mov",
    "x-matroska": "mkv",
    "3gpp": "three_gp",
    "x-flv": "flv",
    "x-ms-wmv": "wmv",
}
"""The formats that the API names otherwise than the media type does."""


def path(model: str, *, stream: bool) -> str:
    """The path of a Converse request to this model."""
    operation = CONVERSE_STREAM if stream else CONVERSE
    return f"{MODEL_SEGMENT}{quote(model, safe='')}/{operation}"


def decode_request(body: Fields) -> Conversation:
    """The conversation of a Converse request body."""
    inference_config = get_object(body, "inferenceConfig")
    additional_fields = get_object(body, "additionalModelRequestFields")
    options = {
        **additional_fields,
        **get_object(additional_fields, "inferenceConfig"),
        **inference_config,
    }
    request_fields = {**body, **options}
    tool_config = get_object(body, "toolConfig")
    system = [part for block in get_objects(body, "system") for part in _decode_part(block)]
    return replace(
        request_decoding.conversation(
            _decode_messages(body),
            inference_config,
            request_decoding.request_message("system", system).text,
        ),
        tools=tuple(_decode_tools(tool_config)),
        reasoning_enabled=any(
            request_decoding.is_reasoning_enabled(request_fields.get(switch))
            for switch in _REASONING_SWITCHES
        ),
        response_schema=_response_schema(get_object(body, "outputConfig")),
        tool_choice=_decode_tool_choice(get_object(tool_config, "toolChoice")),
        **request_decoding.decode_options(options, _OPTION_NAMES),
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
    format_name = get_string(fields, "format")
    return Media(
        _DOCUMENT_TYPES.get(format_name, f"application/{format_name}"),
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


def _decode_tool_choice(choice: Fields) -> ToolChoice | None:
    """The choice in an object whose one name is its kind."""
    forced = object_fields(choice.get("tool"))
    kind = next(iter(choice), "")
    return request_decoding.decode_tool_choice({"type": kind, "name": forced.get("name")})


def _response_schema(config: Fields) -> Json:
    text_format = get_object(config, "textFormat")
    json_schema = get_object(get_object(text_format, "structure"), "jsonSchema")
    schema = parse_object(get_string(json_schema, "schema").encode("utf-8", "replace"))
    return request_decoding.response_schema(text_format, dict(schema))


def encode_request(
    conversation: Conversation, top_k_path: tuple[str, ...], *, stream: bool
) -> Request:
    """The request for the next message.

    `top_k_path` is the place of top-k in the additional fields of the model, if it has one.  Raises
    `NotRepresentable` for what the format lacks.
    """
    conversation = request_encoding.prepared_conversation(
        _DIALECT,
        conversation,
        _PART_KINDS,
        (converse_blocks.PROVIDER_TOOL_USE,),
        is_empty=request_encoding.is_blank_part,
    )
    request_encoding.refuse_stored_state(_DIALECT, conversation)
    if not conversation.model:
        raise request_encoding.refusal(_DIALECT, "a request without a model")
    system, messages = request_encoding.split_system_messages(_DIALECT, conversation)
    body: Document = {
        "messages": request_encoding.with_content(_DIALECT, messages, _encode_messages(messages))
    }
    if system.strip():
        body["system"] = [{"text": system}]
    options = request_encoding.encode_options(_DIALECT, conversation, _OPTION_NAMES)
    if _TOP_K in options:
        body["additionalModelRequestFields"] = _encode_top_k(options.pop(_TOP_K), top_k_path)
    if options:
        body["inferenceConfig"] = options
    if tool_config := _encode_tool_config(conversation):
        body["toolConfig"] = tool_config
    if conversation.response_schema is not None:
        body["outputConfig"] = {"textFormat": _encode_text_format(conversation.response_schema)}
    return request_encoding.post_request(
        _DIALECT, path(conversation.model, stream=stream), body, conversation
    )


def _encode_top_k(top_k: Json, top_k_path: tuple[str, ...]) -> Json:
    if not top_k_path:
        raise request_encoding.refusal(_DIALECT, "top_k for this model")
    fields = top_k
    for name in reversed(top_k_path):
        fields = {name: fields}
    return fields


def _encode_tool_config(conversation: Conversation) -> Document:
    """The tools and the choice; empty if no tools are sent."""
    choice = request_encoding.checked_tool_choice(_DIALECT, conversation)
    if choice == "none":
        parts = chain.from_iterable(message.parts for message in conversation.messages)
        has_calls = any(isinstance(part, ToolCall | ToolResult) for part in parts)
        if conversation.tools and has_calls:
            raise request_encoding.refusal(_DIALECT, "the tool choice none after tool calls")
        return {}
    if not conversation.tools:
        if choice not in (None, "auto"):
            raise request_encoding.refusal(_DIALECT, "a tool choice without tools")
        return {}
    config: Document = {"tools": [*map(_encode_tool, conversation.tools)]}
    match choice:
        case ForcedTool(name):
            config["toolChoice"] = {"tool": {"name": name}}
        case str():
            config["toolChoice"] = {_CHOICE_NAMES[choice]: {}}
        case None:
            pass
    return config


def _encode_tool(tool: ToolDefinition) -> Document:
    """A tool; its schema always has the type `object`, which the API requires."""
    specification = request_encoding.encode_function(_DIALECT, tool, "inputSchema")
    schema = {"type": "object", **specification.get("inputSchema", {})}
    return {"toolSpec": {**specification, "inputSchema": {"json": schema}}}


def _encode_text_format(response_schema: Json) -> Document:
    schema = request_encoding.checked_schema(_DIALECT, "response_schema", response_schema)
    if not schema:
        raise request_encoding.refusal(_DIALECT, "an empty response_schema")
    return {
        "type": "json_schema",
        "structure": {"jsonSchema": {"schema": compact_json(schema)}},
    }


def _encode_messages(messages: tuple[RequestMessage, ...]) -> Iterator[Document]:
    """The messages that have content, with adjacent ones of a role as one."""
    document_numbers = count(1)
    encoded = [
        (
            message.role == "assistant",
            [*_encode_model_parts(message)]
            if message.role == "assistant"
            else [_encode_user_part(part, document_numbers) for part in message.parts],
        )
        for message in messages
    ]
    for is_model, group in groupby(filter(_has_content, encoded), key=lambda each: each[0]):
        content = [*chain.from_iterable(blocks for _, blocks in group)]
        yield {"role": "assistant" if is_model else "user", "content": content}


def _has_content(encoded: tuple[bool, list[Document]]) -> bool:
    return bool(encoded[1])


def _encode_user_part(part: Part, document_numbers: Iterator[int]) -> Document:
    match part:
        case Text(text=text):
            return {"text": text}
        case Media(media_type=media_type) if media_type in _DOCUMENT_FORMATS:
            return {"document": _encode_document(part, next(document_numbers))}
        case Media(media_type=media_type):
            kind, _, subtype = media_type.partition("/")
            format_name = _FORMATS_BY_SUBTYPE.get(subtype, subtype)
            media = replace(part, media_type=f"{kind}/{format_name}")
            if (sent := converse_blocks.representable_part(media, stream=False)) is None:
                raise request_encoding.media_refusal(_DIALECT, part)
            return converse_blocks.encode_block(sent, ())
        case ToolResult():
            result: Document = {
                "toolUseId": part.call_id,
                "content": converse_blocks.encode_result_contents(part),
            }
            return {"toolResult": {**result, "status": "error"} if part.failed else result}
        case _:
            raise request_encoding.part_refusal(_DIALECT, part, "user")


def _encode_document(media: Media, number: int) -> Document:
    is_in_s3 = not media.base64 and media.url.startswith(converse_blocks.S3_PREFIX)
    if not (is_in_s3 or converse_blocks.is_base64(media.base64)):
        raise request_encoding.media_refusal(_DIALECT, media)
    format_name = _DOCUMENT_FORMATS[media.media_type]
    return {
        **({"format": format_name} if format_name else {}),
        "name": f"document-{number}",
        "source": converse_blocks.encode_source(media),
    }


def _encode_model_parts(message: RequestMessage) -> Iterator[Document]:
    """The blocks as their response had them, without reasoning that cannot be sent back."""
    for part in message.parts:
        match part:
            case Refusal(text=text):
                yield {"text": text}
            case Text():
                # citations of other providers have no location in the documents of this one
                citations = [each for each in part.citations if "location" in dict(each.metadata)]
                own = replace(part, citations=tuple(citations))
                yield converse_blocks.encode_block(own, ())
            case Reasoning():
                if request_encoding.is_signed_reasoning(part):
                    yield converse_blocks.encode_block(part, ())
            case ToolCall():
                arguments = normalized_object_json(part.arguments or "{}")
                if arguments is None:
                    raise encoding.arguments_error(_DIALECT, part)
                yield _encode_tool_block(replace(part, arguments=arguments))
            case ToolResult() if "type" in dict(part.metadata):
                yield _encode_tool_block(part)
            case _:
                raise request_encoding.part_refusal(_DIALECT, part, "assistant")


def _encode_tool_block(part: ToolCall | ToolResult) -> Document:
    """The block of a call or a result, with the type that it has if the provider ran it."""
    sent = converse_blocks.representable_part(part, stream=False)
    assert sent is not None  # noqa: S101 # only media cannot be represented
    return converse_blocks.encode_block(sent, ())
