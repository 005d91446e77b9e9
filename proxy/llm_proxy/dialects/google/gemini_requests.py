"""Decodes and encodes Gemini's requests to generate content.

Reasoning goes back as its response had it, and so does a signature, in whichever part it is; what
another provider signed or encrypted is left out where that shows.  A refusal of the model is sent
as text.  A result of a tool is an object: text becomes its `result`, or the `error` of a failed
tool.

Encoded names are those of Google's SDK for Python, which mixes both spellings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from llm_proxy.conversation import Conversation, RequestMessage, ToolChoice, ToolDefinition
from llm_proxy.dialects import request_decoding, request_encoding
from llm_proxy.dialects.google import gemini_parts, shared_requests
from llm_proxy.dialects.google.shared_requests import (
    JSON_MIME_TYPE,
    camel_case_fields,
    decode_schema,
)
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_objects,
    get_string,
    object_fields,
    one_or_more_objects,
    parse_object,
    value_as_text,
)
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Json, Media, Part, Text, ToolResult

_DIALECT: Final = "gemini"

_OUTPUT_FIELDS: Final = ("output", "result")
"""The fields of a function response that hold its output."""

_OPTION_NAMES: Final[OptionNames] = {
    "top_p": ("topP",),
    "max_tokens": ("maxOutputTokens",),
    "top_k": ("topK",),
    "seed": ("seed",),
    "stop_sequences": ("stopSequences",),
}
_MODEL_PREFIXES: Final = ("models/", "tunedModels/")
_SDK_NAMES: Final[Mapping[str, str]] = {
    "mimeType": "mime_type",
    "fileUri": "file_uri",
    "displayName": "display_name",
    "toolType": "tool_type",
}
"""The names inside a part that the SDK does not write in camel case."""


def decode_request(fields: Fields) -> Conversation:
    """The conversation of a body of `gemini`; Code Assist wraps it in `request`."""
    body = camel_case_fields(fields.get("request") or dict(fields))
    system = body.get("systemInstruction")
    parts = [Text(system)] if isinstance(system, str) else _decode_parts(object_fields(system))
    config = camel_case_fields(body.get("generationConfig"))
    thinking = config.get("thinkingConfig")
    schema = request_decoding.first_schema(
        config.get("responseJsonSchema"), decode_schema(config.get("responseSchema"))
    )
    return replace(
        request_decoding.conversation(
            _decode_contents(body),
            config,
            request_decoding.request_message("system", parts).text,
        ),
        tools=tuple(_decode_tools(body)),
        reasoning_enabled=isinstance(thinking, dict)
        and camel_case_fields(thinking).get("thinkingBudget") != 0,
        response_schema=schema
        or ({} if config.get("responseMimeType") == JSON_MIME_TYPE else None),
        tool_choice=_decode_tool_choice(body),
        **request_decoding.decode_options(config, _OPTION_NAMES),
    )


def _decode_contents(body: Fields) -> Iterator[RequestMessage]:
    for content in one_or_more_objects(body.get("contents")):
        role = request_decoding.decode_role(content.get("role") or "user")
        if role is not None:
            yield request_decoding.request_message(role, _decode_parts(content))


def _decode_parts(content: Fields) -> Iterator[Part]:
    for given in one_or_more_objects(content.get("parts")):
        part = camel_case_fields(given)
        kind = next((name for name in gemini_parts.PART_KINDS if name in part), "")
        inner = camel_case_fields(part.get(kind))
        if kind == "functionResponse":
            yield _decode_function_response(inner)
            continue
        decoder = gemini_parts.ContentDecoder()
        decoder.feed(part if kind == "text" else {**part, kind: dict(inner)})
        yield from decoder.parts()


def _decode_tool_choice(body: Fields) -> ToolChoice | None:
    config = camel_case_fields(body.get("toolConfig"))
    calling = camel_case_fields(config.get("functionCallingConfig"))
    return shared_requests.decode_tool_choice(
        calling.get("mode"), calling.get("allowedFunctionNames")
    )


def _decode_function_response(fields: Fields) -> ToolResult:
    """The result of a client's tool.

    Its content is the output field if that is the only one, else the whole response, which has
    failed where it has an error and no output.
    """
    response = fields.get("response")
    document = object_fields(response)
    output = next((document[name] for name in _OUTPUT_FIELDS if document.keys() == {name}), None)
    failed = output is None and bool(document.get("error")) and "output" not in document
    content = value_as_text(response if output is None else output)
    return ToolResult(get_string(fields, "id"), content, get_string(fields, "name"), failed)


def _decode_tools(body: Fields) -> Iterator[ToolDefinition]:
    """The declared functions, and the tools that Google runs, named by their field."""
    for tool in map(camel_case_fields, get_objects(body, "tools")):
        for fields in map(camel_case_fields, get_objects(tool, "functionDeclarations")):
            schemas = (fields.get("parametersJsonSchema"), decode_schema(fields.get("parameters")))
            yield from request_decoding.decode_tool(fields, *schemas)
        yield from (
            ToolDefinition(name, built_in_type=name)
            for name, config in tool.items()
            if isinstance(config, dict)
        )


def encode_request(conversation: Conversation, *, stream: bool) -> Request:
    """The request for the next content of the model.

    Raises `NotRepresentable` for what the format lacks.
    """
    conversation = request_encoding.prepared_conversation(
        _DIALECT,
        conversation,
        request_encoding.PROVIDER_TOOL_MESSAGE_PARTS,
        gemini_parts.SERVER_CALL_KINDS,
        is_empty=gemini_parts.is_empty,
    )
    request_encoding.refuse_stored_state(_DIALECT, conversation)
    system, messages = request_encoding.split_system_messages(_DIALECT, conversation)
    contents = [content for message in messages if (content := _encode_message(message))["parts"]]
    body: Document = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}], "role": "user"}
    if conversation.tools:
        declarations = [
            request_encoding.encode_function(_DIALECT, tool, "parameters_json_schema")
            for tool in conversation.tools
        ]
        body["tools"] = [{"functionDeclarations": declarations}]
    if choice := request_encoding.checked_tool_choice(_DIALECT, conversation):
        mode, names = shared_requests.encode_tool_choice(choice)
        allowed = {"allowedFunctionNames": names} if names else {}
        body["toolConfig"] = {"functionCallingConfig": {"mode": mode.upper(), **allowed}}
    config = request_encoding.encode_options(_DIALECT, conversation, _OPTION_NAMES)
    if conversation.response_schema is not None:
        config |= _encode_response_format(conversation.response_schema)
    if config or len(body) > 1 or conversation.extra_fields:  # as the SDK, which may send it empty
        body["generationConfig"] = config
    model = conversation.model
    resource = model if model.startswith(_MODEL_PREFIXES) else f"models/{model}"
    operation = "streamGenerateContent" if stream else "generateContent"
    path = f"/v1/{quote(resource)}:{operation}"
    request = request_encoding.post_request(_DIALECT, path, body, conversation)
    return replace(request, query="alt=sse") if stream else request


def _encode_response_format(response_schema: Json) -> Document:
    schema = request_encoding.checked_schema(_DIALECT, "response_schema", response_schema)
    schema_field = {"responseJsonSchema": schema} if schema else {}
    return {"responseMimeType": JSON_MIME_TYPE, **schema_field}


def _encode_message(message: RequestMessage) -> Document:
    is_model = message.role == "assistant"
    encode_part = _encode_model_part if is_model else _encode_user_part
    parts = filter(None, map(encode_part, message.parts))
    return {"parts": [*parts], "role": "model" if is_model else "user"}


def _encode_user_part(part: Part) -> Document | None:
    return _encode_result(part) if isinstance(part, ToolResult) else _encode_part(part)


def _encode_result(result: ToolResult) -> Document:
    """The result of a client's tool: the object that it is, if it decodes to the same result."""
    fields: Document = {"id": result.call_id} if result.call_id else {}
    fields |= {"name": result.name, "response": dict(parse_object(result.content.encode()))}
    if _decode_function_response(fields) != replace(result, metadata=()):
        fields["response"] = {"error" if result.failed else "result": result.content}
    return {"functionResponse": fields}


def _encode_model_part(part: Part) -> Document | None:
    """A part as its response had it; None for reasoning that cannot be sent back."""
    own_part = shared_requests.own_part(_DIALECT, part, gemini_parts.is_own_result)
    return None if own_part is None else _encode_part(own_part)


def _encode_part(part: Part) -> Document | None:
    """A part with the names of the SDK; None for reasoning without text and signature."""
    if isinstance(part, Media):
        shared_requests.check_media(_DIALECT, part)
        part = part if shared_requests.has_known_type(part) else replace(part, media_type="")
    sendable = gemini_parts.sendable_part(part)
    if sendable is None:
        return None
    [encoded] = gemini_parts.encode_parts([sendable])
    return {
        name: _with_sdk_names(content) if isinstance(content, dict) else content
        for name, content in encoded.items()
    }


def _with_sdk_names(content: Document) -> Document:
    """The content of a part, without an unknown type of media."""
    return {
        _SDK_NAMES.get(name, name): value
        for name, value in content.items()
        if value or name != "mimeType"
    }
