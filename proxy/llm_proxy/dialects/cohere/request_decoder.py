"""What Cohere's chats ask, in version 2 and version 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.conversation import Conversation, Message, Tool
from llm_proxy.dialects import data_urls, lenient_json, request_decoding
from llm_proxy.dialects.cohere import v2_decoder
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json, Part, Text, ToolCall, ToolResult

_TYPES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
}
"""JSON Schema's names for the types of parameters, which version 1 calls as Python does."""


def read(body: Fields) -> Conversation:
    """The conversation that a chat of version 2 holds."""
    messages = request_decoding.in_order(_messages(body))
    asked = lenient_json.fields(body.get("response_format"))
    return Conversation(
        messages,
        system=request_decoding.system(messages),
        tools=tuple(request_decoding.functions(body.get("tools"))),
        temperature=request_decoding.number(body.get("temperature")),
        top_p=request_decoding.number(body.get("p")),
        reasons=request_decoding.is_on(lenient_json.fields(body.get("thinking")).get("type")),
        schema=request_decoding.structure(asked, asked.get("json_schema"), asked.get("schema")),
    )


def _messages(body: Fields) -> Iterator[Message]:
    for said in lenient_json.objects(body.get("messages")):
        match request_decoding.role(said.get("role")):
            case None:
                pass
            case "tool":
                given = _given(said.get("content"))
                call_id = request_decoding.said(said.get("tool_call_id"))
                yield request_decoding.message("tool", [ToolResult(call_id, given)])
            case role:
                yield request_decoding.message(role, _parts(said))


def _parts(said: Fields) -> Iterator[Part]:
    """What a message says, which for a model is what its answers say."""
    told = [part for _, part in v2_decoder.fragments(said, 0)]
    yield from (it for it in told if not isinstance(it, ToolCall))
    for block in lenient_json.objects(said.get("content")):
        if image := lenient_json.fields(block.get("image_url")):
            yield data_urls.media(lenient_json.words(image.get("url")), "image/*")
    yield from (it for it in told if isinstance(it, ToolCall))


def _given(content: Json) -> str:
    """What a tool gave: in words, or as documents, which hold words or fields."""
    documents = [lenient_json.fields(it.get("document")) for it in lenient_json.objects(content)]
    given = [lenient_json.words(it.get("data")) for it in documents if it.get("data")]
    return "\n".join(given) or request_decoding.in_words(content)


def read_version_1(body: Fields) -> Conversation:
    """The conversation that a chat of version 1 holds: a history, and what is said now."""
    history = lenient_json.objects(body.get("chat_history"))
    now: Fields = {**body, "role": "user"}
    messages = request_decoding.in_order(it for said in (*history, now) for it in _said(said))
    asked = lenient_json.fields(body.get("response_format"))
    return Conversation(
        messages,
        system=request_decoding.said(body.get("preamble")) or request_decoding.system(messages),
        tools=tuple(it for about in lenient_json.objects(body.get("tools")) for it in _tool(about)),
        temperature=request_decoding.number(body.get("temperature")),
        top_p=request_decoding.number(body.get("p")),
        schema=request_decoding.structure(asked, asked.get("schema"), asked.get("json_schema")),
        stored=request_decoding.said(body.get("conversation_id")),
    )


def _said(said: Fields) -> Iterator[Message]:
    """What one speaker says, and before it what the tools gave that stands beside."""
    if given := lenient_json.objects(said.get("tool_results")):
        yield request_decoding.message("tool", map(_result, given))
    role = request_decoding.role(said.get("role"))
    text = lenient_json.text(said.get("message"))
    calls = lenient_json.objects(said.get("tool_calls"))
    if role == "assistant" or (role is not None and text):
        yield request_decoding.message(role, [Text(text), *map(_call, calls)])


def _call(said: Fields) -> ToolCall:
    return ToolCall(
        "", request_decoding.said(said.get("name")), lenient_json.words(said.get("parameters"))
    )


def _result(said: Fields) -> ToolResult:
    call = lenient_json.fields(said.get("call"))
    name = request_decoding.said(call.get("name"))
    return ToolResult("", request_decoding.in_words(said.get("outputs")), name)


def _tool(about: Fields) -> Iterator[Tool]:
    defined = lenient_json.fields(about.get("parameter_definitions"))
    properties: dict[str, Json] = {
        name: {
            "type": _TYPES.get(lenient_json.text(it.get("type")), "string"),
            "description": request_decoding.said(it.get("description")),
        }
        for name, it in ((name, lenient_json.fields(it)) for name, it in defined.items())
    }
    required: list[Json] = [
        name for name, it in defined.items() if lenient_json.fields(it).get("required") is True
    ]
    wanted: Json = {"type": "object", "properties": properties, "required": required}
    return request_decoding.tool(about, wanted if defined else None)
